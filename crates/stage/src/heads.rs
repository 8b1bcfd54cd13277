//! The *head map* is a small picture of every attention head: where it looked in each step of the run, and a name for those
//! whose weights say plainly what they do. Names come from the run on screen and from nothing else.

use inferscope_trace::{Step, Trace};

/// What a head was seen to do, most of the time, in this run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Habit {
    /// Looks at the token before.
    Previous,
    /// Looks at the token itself.
    Itself,
    /// Looks at the first token of all, where heads look that have nothing to look for.
    First,
    /// Looks at what followed the last time that the same token stood here: it copies ("induction head": Olsson et al. 2022,
    /// "In-context Learning and Induction Heads").
    Copies,
    /// None of these.
    Mixed,
}

impl Habit {
    pub fn label(self) -> &'static str {
        match self {
            Self::Previous => "previous",
            Self::Itself => "itself",
            Self::First => "first",
            Self::Copies => "copies",
            Self::Mixed => "",
        }
    }

    pub fn explain(self) -> &'static str {
        match self {
            Self::Previous => "looks at the token before",
            Self::Itself => "looks at the token itself",
            Self::First => "looks at the first token, where heads rest that have nothing to look for",
            Self::Copies => "looks at what followed the last time the same token stood here: it copies",
            Self::Mixed => "has no plain habit in this run",
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Head {
    pub layer: usize,
    pub head: usize,
    /// Mean weights over the steps looked at: on the token before, the token itself and the first token.
    pub previous: f32,
    pub itself: f32,
    pub first: f32,
    /// Mean weight on what followed an earlier mention, over the steps whose token stood exactly once before; with how many
    /// those are.
    pub copies: Option<(f32, usize)>,
    pub habit: Habit,
}

#[derive(Clone, Debug, PartialEq)]
pub struct HeadMap {
    pub n_layers: usize,
    pub n_heads: usize,
    /// `[layer][head]`, flat.
    pub heads: Vec<Head>,
    /// The steps that were looked at, by index; a thumbnail has a row for each.
    pub steps: Vec<usize>,
    /// Keys of the longest of them; a thumbnail has a column for each.
    pub keys: usize,
}

/// Half of a head's weight makes a habit, if it was seen often enough.
const PLAIN: f32 = 0.5;
/// Fewer steps say nothing of a habit.
pub const OFTEN: usize = 4;
/// So many mentions must speak for a copying head.
const MENTIONS: usize = 2;

impl HeadMap {
    /// Of the steps up to and with `last` whose attention was recorded; None while there are none.
    pub fn new(trace: &Trace, last: usize) -> Option<Self> {
        let seen: Vec<&Step> =
            trace.steps.iter().take(last + 1).map(AsRef::as_ref).filter(|step| step.attention.is_some()).collect();
        let keys = seen.iter().map(|step| step.end_position()).max()?;
        let (n_layers, n_heads) = (trace.model.n_layers, trace.model.n_heads);
        let mentions: Vec<Option<usize>> =
            seen.iter().map(|step| earlier_mention(trace, step.end_position() - 1)).collect();
        let heads = (0..n_layers * n_heads).map(|index| head(&seen, &mentions, index / n_heads, index % n_heads));
        Some(Self {
            n_layers,
            n_heads,
            heads: heads.collect(),
            steps: seen.iter().map(|step| step.index).collect(),
            keys,
        })
    }
}

/// Where the token at `position` stood before, if it did exactly once.
fn earlier_mention(trace: &Trace, position: usize) -> Option<usize> {
    let token = trace.token_at(position)?;
    let mut before = (0..position).filter(|&at| trace.token_at(at) == Some(token));
    let only = before.next()?;
    before.next().is_none().then_some(only)
}

fn head(seen: &[&Step], mentions: &[Option<usize>], layer: usize, head: usize) -> Head {
    let rows: Vec<&[f32]> = seen.iter().filter_map(|step| Some(step.attention.as_ref()?.row(layer, head))).collect();
    let mean = |weight: fn(&[f32]) -> f32| rows.iter().map(|row| weight(row)).sum::<f32>() / rows.len().max(1) as f32;
    let previous = mean(|row| if row.len() > 1 { row[row.len() - 2] } else { 0.0 });
    let itself = mean(|row| row.last().copied().unwrap_or(0.0));
    let first = mean(|row| if row.len() > 2 { row[0] } else { 0.0 });
    let after: Vec<f32> =
        rows.iter().zip(mentions).filter_map(|(row, mention)| row.get((*mention)? + 1).copied()).collect();
    let copies = (!after.is_empty()).then(|| (after.iter().sum::<f32>() / after.len() as f32, after.len()));
    let habit = match copies {
        Some((share, count)) if share >= PLAIN && count >= MENTIONS => Habit::Copies,
        _ if rows.len() < OFTEN => Habit::Mixed,
        _ if previous >= PLAIN => Habit::Previous,
        _ if itself >= PLAIN => Habit::Itself,
        _ if first >= PLAIN => Habit::First,
        _ => Habit::Mixed,
    };
    Head { layer, head, previous, itself, first, copies, habit }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use inferscope_trace::Attention;

    use super::*;
    use crate::fixture::trace;

    /// The fixture's run, with each head of the first layer looking where `look` says, and those of the second everywhere.
    fn looking(prompt: usize, steps: usize, look: [fn(usize, Option<usize>) -> usize; 2]) -> Trace {
        let mut run = trace(prompt, steps, true);
        for index in 0..steps {
            let keys = run.steps[index].end_position();
            let mention = earlier_mention(&run, keys - 1);
            let mut weights = vec![1.0 / keys as f32; 4 * keys];
            for (head, look) in look.iter().enumerate() {
                weights[head * keys..(head + 1) * keys].fill(0.0);
                weights[head * keys + look(keys, mention)] = 1.0;
            }
            Arc::make_mut(&mut run.steps[index]).attention =
                Some(Attention { n_layers: 2, n_heads: 2, queries: 1, keys, weights });
        }
        run
    }

    #[test]
    fn heads_are_named_by_what_they_did() {
        let run = looking(4, 6, [|keys, _| keys - 2, |keys, mention| mention.map_or(keys - 1, |at| at + 1)]);
        let map = HeadMap::new(&run, 5).unwrap();
        assert_eq!((map.heads.len(), map.steps.len(), map.keys), (4, 6, 9));
        let habits: Vec<Habit> = map.heads.iter().map(|head| head.habit).collect();
        assert_eq!(habits, [Habit::Previous, Habit::Copies, Habit::Mixed, Habit::Mixed]);
        assert!((map.heads[2].itself - map.heads[2].previous).abs() < 1e-6, "evenly spread");
        let run = looking(4, 6, [|_, _| 0, |keys, _| keys - 1]);
        let habits: Vec<Habit> = HeadMap::new(&run, 5).unwrap().heads.iter().map(|head| head.habit).collect();
        assert_eq!(habits[..2], [Habit::First, Habit::Itself]);
    }

    #[test]
    fn only_tokens_that_stood_exactly_once_before_speak_for_copying() {
        let run = looking(4, 6, [|_, _| 0, |keys, mention| mention.map_or(keys - 1, |at| at + 1)]);
        let stood = |position: usize| (0..position).filter(|&at| run.token_at(at) == run.token_at(position)).count();
        let expected = (3..9).filter(|&position| stood(position) == 1).count();
        assert!((3..9).any(|position| stood(position) > 1), "the fixture has tokens that stood more often");
        assert_eq!(HeadMap::new(&run, 5).unwrap().heads[1].copies, Some((1.0, expected)));
    }

    #[test]
    fn one_mention_is_not_enough_and_what_was_not_seen_is_not_guessed() {
        let mut run = looking(4, 6, [|keys, _| keys - 2, |keys, mention| mention.map_or(keys - 1, |at| at + 1)]);
        let early = HeadMap::new(&run, 0).unwrap();
        assert_eq!([early.heads[0].habit, early.heads[1].habit], [Habit::Mixed; 2]);
        for step in &mut run.steps {
            Arc::make_mut(step).attention = None;
        }
        assert!(HeadMap::new(&run, 5).is_none());
    }
}
