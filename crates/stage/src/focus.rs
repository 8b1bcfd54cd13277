//! The *focus* is one token that the reader picked out: which tokens it attends to, and which attend to it. A token can only
//! look back, so the first lie to its left and the second to its right.

use inferscope_trace::Trace;

use crate::{
    Moment, Selection, format,
    moment::{Beat, beat_progress},
};

#[derive(Clone, Debug, PartialEq)]
pub struct Focus {
    pub position: usize,
    pub token: String,
    /// Its share for each position from 0 to its own; None while nobody has looked, or the model has not run it.
    pub sees: Option<Vec<f32>>,
    /// The later positions that were looked at, with the share that each gives to this one.
    pub seen_by: Vec<(usize, f32)>,
    /// Whether the model has run it by now. A token is run in the step after the one that drew it.
    pub run: bool,
}

/// How many of the strongest are named.
const NAMED: usize = 3;

impl Focus {
    /// The token at `position` as of `moment`. None if there is no such token yet.
    pub fn new(trace: &Trace, moment: Moment, position: usize, selection: &Selection) -> Option<Self> {
        let shown = trace.steps.get(moment.step)?;
        let has_come = |beat| beat_progress(shown.phase, beat, moment.progress) > 0.0;
        let known = shown.end_position() + usize::from(has_come(Beat::Append));
        let token = trace.token_at(position).filter(|_| position < known)?;
        let before = moment.step.checked_sub(1).map_or(0, |step| trace.steps[step].end_position());
        let seen = if has_come(Beat::Attend) { shown.end_position() } else { before };
        let row = |query: usize| row_of(trace, moment.step, query, selection).filter(|_| query < seen);
        Some(Self {
            position,
            token: trace.vocabulary.label(token),
            sees: row(position),
            seen_by: (position + 1..seen).filter_map(|query| Some((query, row(query)?[position]))).collect(),
            run: position < seen,
        })
    }

    /// What the arrows say, in two sentences.
    pub fn words(&self, trace: &Trace) -> String {
        let name = |position: usize| {
            let label = trace.token_at(position).map(|id| trace.vocabulary.label(id)).unwrap_or_default();
            format!("“{}”", format::visible(&label))
        };
        let strongest = |mut shares: Vec<(usize, f32)>| {
            let named = (0..NAMED.min(shares.len())).map(|_| {
                // The first of the largest that are left: a sort for a few of them would be a lot of code.
                let largest =
                    (0..shares.len()).min_by(|a, b| shares[*b].1.total_cmp(&shares[*a].1)).unwrap_or_default();
                let (position, share) = shares.remove(largest);
                let itself = if position == self.position { "itself".to_string() } else { name(position) };
                format!("{itself} {}", format::percent(share))
            });
            named.collect::<Vec<_>>().join(", ")
        };
        let itself = format!("{} at position {}", name(self.position), self.position);
        let Some(sees) = &self.sees else {
            return match self.run {
                true => format!("{itself}: its attention has not been read back."),
                false => format!("{itself} has not been run yet: the next step does that."),
            };
        };
        let sees = strongest(sees.iter().copied().enumerate().collect());
        let seen = match self.seen_by.len() {
            0 => "No later token has looked back yet.".to_string(),
            n => format!(
                "Most attended to by {}, of {n} later token{}.",
                strongest(self.seen_by.clone()),
                if n == 1 { "" } else { "s" }
            ),
        };
        format!("{itself} attends most to {sees}. {seen}")
    }
}

/// How `position` attended, from the first step up to `step` that ran it while somebody looked.
fn row_of(trace: &Trace, step: usize, position: usize, selection: &Selection) -> Option<Vec<f32>> {
    let rows = trace.steps[..=step].iter().filter_map(|step| step.attention.as_ref());
    rows.filter_map(|attention| attention.mean(position, selection.layer, selection.head)).next()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use inferscope_trace::Attention;

    use super::*;
    use crate::fixture::trace;

    /// A run whose positions all give half of their attention to themselves, and share out the rest evenly.
    fn run() -> Trace {
        let mut run = trace(3, 4, true);
        for step in &mut run.steps {
            let step = Arc::make_mut(step);
            let (keys, queries) = (step.end_position(), step.positions);
            let row = |query: usize| {
                (0..keys).map(move |key| match key.cmp(&query) {
                    std::cmp::Ordering::Less => 0.5 / query as f32,
                    std::cmp::Ordering::Equal if query == 0 => 1.0,
                    std::cmp::Ordering::Equal => 0.5,
                    std::cmp::Ordering::Greater => 0.0,
                })
            };
            let weights = (0..4).flat_map(|_| (keys - queries..keys).flat_map(row)).collect();
            step.attention = Some(Attention { n_layers: 2, n_heads: 2, queries, keys, weights });
        }
        run
    }

    fn focus(run: &Trace, moment: Moment, position: usize) -> Option<Focus> {
        Focus::new(run, moment, position, &Selection { layer: Some(1), ..Selection::default() })
    }

    #[test]
    fn a_token_of_the_prompt_sees_what_is_before_it_and_is_seen_by_what_comes_after() {
        let run = run();
        let found = focus(&run, Moment::end_of(2), 1).unwrap();
        assert_eq!(found.sees, Some(vec![0.5, 0.5]));
        // Positions 2 (of the prompt), 3 and 4, each with half of its attention for those before it.
        assert_eq!(found.seen_by, [(2, 0.25), (3, 0.5 / 3.0), (4, 0.125)]);
        assert_eq!(
            found.words(&run),
            "“␣a” at position 1 attends most to “<s>” 50.0 %, itself 50.0 %. Most attended to by “␣b” 25.0 %, “␣a” 16.7 %, \
             “␣b” 12.5 %, of 3 later tokens."
        );
    }

    #[test]
    fn only_what_has_been_seen_by_now_counts() {
        let run = run();
        assert_eq!(focus(&run, Moment::START, 1).unwrap().sees, None);
        assert!(focus(&run, Moment::START, 3).is_none(), "nobody knows yet what will stand there");
        let newest = focus(&run, Moment::end_of(0), 3).unwrap();
        assert!(!newest.run && newest.sees.is_none() && newest.words(&run).contains("not been run yet"));
        let filling = Moment { step: 1, progress: 0.1 };
        assert_eq!(focus(&run, filling, 2).unwrap().seen_by, []);
        assert_eq!(focus(&run, Moment::end_of(1), 2).unwrap().seen_by.len(), 1);
    }

    #[test]
    fn what_nobody_looked_at_is_not_made_up() {
        let mut run = run();
        Arc::make_mut(&mut run.steps[0]).attention = None;
        let found = focus(&run, Moment::end_of(2), 1).unwrap();
        assert_eq!((found.sees.as_ref(), found.seen_by.len()), (None, 2));
        assert!(found.words(&run).contains("has not been read back"));
    }
}
