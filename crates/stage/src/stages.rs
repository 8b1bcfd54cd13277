//! The *stages frame* follows one step's distribution through the sampler: logits, then what is left after each rule, in
//! their order, and the line on which the draw is a point.
//!
//! All of it is computed from the step's recorded logits, so no engine is asked while a slider moves.

use inferscope_sampler::{Distribution, RULES, Rule, coin};
use inferscope_trace::{Candidate, Sampling, TokenId, Trace};

use crate::format;

/// One candidate's way through the stages.
#[derive(Clone, Debug, PartialEq)]
pub struct Lane {
    pub id: TokenId,
    pub text: String,
    /// Place in the order of logits, from 0.
    pub rank: usize,
    pub logit: f32,
    /// Share after each stage, 0 to 1: first before any rule, then after each rule.
    pub shares: Vec<f32>,
    /// The stage that cut it, as an index into `stages`.
    pub cut_at: Option<usize>,
    /// The step drew it.
    pub drawn: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Stage {
    /// The rule's id; empty for the model's own probabilities.
    pub id: &'static str,
    pub label: &'static str,
    /// The rule's value, as written beside its slider.
    pub value: String,
    /// It changed nothing.
    pub neutral: bool,
    /// Candidates left after it.
    pub kept: usize,
    /// Probability that the candidates which it cut had before it, in all.
    pub removed: f32,
    /// In nats, and e to that power.
    pub entropy: f64,
    pub effective_choices: f64,
}

/// A kept candidate's place on the line of the draw, from 0 to 1.
#[derive(Clone, Debug, PartialEq)]
pub struct Segment {
    pub id: TokenId,
    pub text: String,
    pub from: f64,
    pub to: f64,
}

#[derive(Clone, Debug, PartialEq)]
pub struct StagesFrame {
    pub step: usize,
    pub stages: Vec<Stage>,
    pub lanes: Vec<Lane>,
    /// Candidates without a lane.
    pub others: usize,
    /// The uniform number that the step drew with, and what it draws from this distribution.
    pub coin: f64,
    pub draws: TokenId,
    pub draws_text: String,
    /// The widest kept candidates; what is not on the line is the rest's.
    pub line: Vec<Segment>,
}

/// The line names at most so many candidates, and none that is narrower than this.
const SEGMENTS: usize = 40;
const NARROWEST: f64 = 0.001;

impl StagesFrame {
    /// Step `step` under `sampling`, with lanes for the `limit` best candidates and the one that was drawn.
    pub fn new(trace: &Trace, step: usize, sampling: &Sampling, limit: usize) -> Option<Self> {
        let step = trace.steps.get(step)?;
        let label = |id: TokenId| trace.vocabulary.label(id);
        // The first stage has no rule, each one after it one rule more than the stage before.
        let upto = |rules: &[&dyn Rule]| {
            let values = rules.iter().filter_map(|rule| Some((rule.id(), sampling.get(rule.id())?)));
            let partial = values.fold(Sampling::default(), |sampling, (id, value)| sampling.with(id, value));
            Distribution::new(&step.logits, &partial)
        };
        let passes: Vec<Distribution> = (0..=RULES.len()).map(|n| upto(&RULES[..n])).collect();
        let vocab_size = step.logits.len();
        let mut stages = Vec::with_capacity(passes.len());
        for (index, pass) in passes.iter().enumerate() {
            let kept = pass.candidates.iter().filter(|candidate| candidate.kept()).count();
            let before = index.checked_sub(1).map(|before| &passes[before]);
            let removed = before.map_or(0.0, |before| removed(before, pass));
            let entropy = pass.entropy();
            let rule = index.checked_sub(1).map(|rule| RULES[rule]);
            let control = rule.map(|rule| rule.control(vocab_size));
            let value = rule
                .zip(control)
                .map(|(rule, control)| control.clamp(sampling.get(rule.id()).unwrap_or(control.neutral)));
            stages.push(Stage {
                id: rule.map_or("", |rule| rule.id()),
                label: rule.map_or("Model", |rule| rule.label()),
                value: value.map_or(String::new(), |value| written(value, control.is_some_and(|it| it.step >= 1.0))),
                neutral: control.zip(value).is_none_or(|(control, value)| value == control.neutral),
                kept,
                removed,
                entropy,
                effective_choices: entropy.exp(),
            });
        }
        let last = passes.last().expect("there is the first stage at least");
        let lanes: Vec<Lane> = last
            .candidates
            .iter()
            .enumerate()
            .filter(|(rank, candidate)| *rank < limit || candidate.id == step.token)
            .map(|(rank, candidate)| Lane {
                id: candidate.id,
                text: label(candidate.id),
                rank,
                logit: candidate.logit,
                // All passes are in the order of logits.
                shares: passes.iter().map(|pass| pass.candidates[rank].probability).collect(),
                cut_at: passes.iter().position(|pass| !pass.candidates[rank].kept()),
                drawn: candidate.id == step.token,
            })
            .collect();
        let draws = last.draw(step.coin);
        Some(Self {
            step: step.index,
            stages,
            others: vocab_size - lanes.len(),
            lanes,
            coin: step.coin,
            draws,
            draws_text: label(draws),
            line: line(&last.candidates, label),
        })
    }
}

fn written(value: f64, whole: bool) -> String {
    if whole { format::grouped(value as u64) } else { format!("{value:.2}") }
}

/// What the candidates that `after` lacks had in `before`.
fn removed(before: &Distribution, after: &Distribution) -> f32 {
    let pairs = before.candidates.iter().zip(&after.candidates);
    pairs.filter(|(_, after)| !after.kept()).map(|(before, _)| before.probability).sum()
}

fn line(candidates: &[Candidate], label: impl Fn(TokenId) -> String) -> Vec<Segment> {
    let mut at = 0.0;
    let mut segments = Vec::new();
    for candidate in candidates.iter().filter(|candidate| candidate.kept()) {
        let width = f64::from(candidate.probability);
        if segments.len() == SEGMENTS || width < NARROWEST {
            break;
        }
        segments.push(Segment { id: candidate.id, text: label(candidate.id), from: at, to: at + width });
        at += width;
    }
    segments
}

/// The step whose own probabilities, before any rule, are the most open, and their entropy in nats.
pub fn most_open_step(trace: &Trace) -> Option<(usize, f64)> {
    let entropy = |logits: &[f32]| Distribution::new(logits, &Sampling::default()).entropy();
    let steps = trace.steps.iter().map(|step| (step.index, entropy(&step.logits)));
    steps.max_by(|(_, a), (_, b)| a.total_cmp(b))
}

/// How often each candidate comes out of many draws.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Draws {
    pub count: u64,
    /// `[vocab]`, by token.
    pub times: Vec<u64>,
}

impl Draws {
    /// `more` draws from step `step` under `sampling`, added to those there are. Draw i has the uniform number `coin(seed, i)`,
    /// counted on from the draws there are.
    pub fn more(&mut self, trace: &Trace, step: usize, sampling: &Sampling, seed: u32, more: u64) {
        let Some(step) = trace.steps.get(step) else { return };
        let distribution = Distribution::new(&step.logits, sampling);
        self.times.resize(step.logits.len(), 0);
        for draw in self.count..self.count + more {
            self.times[distribution.draw(coin(seed, draw as usize)) as usize] += 1;
        }
        self.count += more;
    }

    /// How often a token came out, as a share of all draws.
    pub fn share(&self, token: TokenId) -> f32 {
        let times = self.times.get(token as usize).copied().unwrap_or(0);
        times as f32 / self.count.max(1) as f32
    }
}

/// Candidates whose text has `query` in it, best first; their rank is among the whole vocabulary.
pub fn find_candidates(
    trace: &Trace,
    step: usize,
    sampling: &Sampling,
    query: &str,
    limit: usize,
) -> Vec<(usize, Candidate)> {
    let Some(step) = trace.steps.get(step).filter(|_| !query.is_empty()) else { return Vec::new() };
    let query = query.to_lowercase();
    let distribution = Distribution::new(&step.logits, sampling);
    let ranked = distribution.candidates.into_iter().enumerate();
    ranked
        .filter(|(_, candidate)| trace.vocabulary.label(candidate.id).to_lowercase().contains(&query))
        .take(limit)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::trace;

    fn sampling() -> Sampling {
        Sampling::default().with("temperature", 0.5).with("top_k", 4.0).with("top_p", 0.9)
    }

    #[test]
    fn the_first_stage_is_the_models_and_the_last_is_what_is_drawn_from() {
        let trace = trace(3, 2, true);
        let frame = StagesFrame::new(&trace, 0, &sampling(), 6).unwrap();
        let [own, last] = [Sampling::default(), sampling()].map(|it| Distribution::new(&trace.steps[0].logits, &it));
        assert_eq!(frame.stages.len(), RULES.len() + 1);
        for lane in &frame.lanes {
            assert_eq!(lane.shares[0], own.candidates[lane.rank].probability);
            assert_eq!(*lane.shares.last().unwrap(), last.candidates[lane.rank].probability);
            assert_eq!(lane.cut_at.is_some(), !last.candidates[lane.rank].kept());
        }
        assert_eq!(frame.stages.last().unwrap().entropy, last.entropy());
        assert_eq!(frame.draws, last.draw(trace.steps[0].coin));
    }

    #[test]
    fn each_stage_shares_out_one_and_cuts_in_its_own_name() {
        let trace = trace(3, 2, true);
        let frame = StagesFrame::new(&trace, 0, &sampling(), 6).unwrap();
        for stage in 0..frame.stages.len() {
            let sum: f32 = frame.lanes.iter().map(|lane| lane.shares[stage]).sum();
            assert!((sum - 1.0).abs() < 1e-5);
            let kept = frame.lanes.iter().filter(|lane| lane.cut_at.is_none_or(|cut| cut > stage)).count();
            assert_eq!(frame.stages[stage].kept, kept);
        }
        let cut: Vec<Option<&str>> =
            frame.lanes.iter().map(|lane| lane.cut_at.map(|stage| frame.stages[stage].id)).collect();
        // At temperature 0.5 the shares are 0.866, 0.117, 0.016, 0.002 and less: k leaves four, and two of them hold 0.9.
        assert_eq!(cut, [None, None, Some("top_p"), Some("top_p"), Some("top_k"), Some("top_k")]);
        let by_p = frame.stages.iter().find(|stage| stage.id == "top_p").unwrap();
        let had: f32 = frame.lanes.iter().filter(|lane| lane.cut_at == Some(3)).map(|lane| lane.shares[2]).sum();
        assert!((by_p.removed - had).abs() < 1e-6 && by_p.removed > 0.01);
        assert!(!by_p.neutral && frame.stages[4].neutral && frame.stages[4].removed == 0.0);
    }

    #[test]
    fn the_coin_falls_on_what_it_draws() {
        for index in 0..4 {
            let trace = trace(3, 4, true);
            let frame = StagesFrame::new(&trace, index, &Sampling::default(), 6).unwrap();
            let hit = frame.line.iter().find(|it| (it.from..it.to).contains(&frame.coin)).unwrap();
            assert_eq!((hit.id, hit.text.clone()), (frame.draws, frame.draws_text.clone()));
            assert!(frame.line.windows(2).all(|pair| pair[0].to == pair[1].from && pair[0].to > pair[0].from));
        }
    }

    #[test]
    fn many_draws_settle_on_the_shares_and_can_be_continued() {
        let trace = trace(3, 2, true);
        let sampling = sampling();
        let frame = StagesFrame::new(&trace, 0, &sampling, 6).unwrap();
        let mut draws = Draws::default();
        draws.more(&trace, 0, &sampling, 7, 1000);
        let (mut at_once, mut by_parts) = (draws.clone(), draws);
        at_once.more(&trace, 0, &sampling, 7, 9000);
        (0..9).for_each(|_| by_parts.more(&trace, 0, &sampling, 7, 1000));
        assert_eq!(at_once, by_parts);
        assert_eq!(at_once.times.iter().sum::<u64>(), 10_000);
        for lane in &frame.lanes {
            let expected = *lane.shares.last().unwrap();
            let error = (expected * (1.0 - expected) / 10_000.0).sqrt();
            assert!((at_once.share(lane.id) - expected).abs() <= 4.0 * error, "{}", lane.text);
        }
    }

    #[test]
    fn any_token_can_be_found_with_its_place_and_its_fate() {
        let trace = trace(3, 2, true);
        let found = find_candidates(&trace, 0, &sampling(), "C", 5);
        assert_eq!(found.len(), 1);
        assert_eq!(trace.vocabulary.label(found[0].1.id), " c");
        assert!(find_candidates(&trace, 0, &sampling(), "", 5).is_empty());
        assert!(find_candidates(&trace, 9, &sampling(), "c", 5).is_empty());
    }

    #[test]
    fn the_most_open_step_is_the_one_with_the_flattest_logits() {
        let mut trace = trace(3, 3, true);
        std::sync::Arc::make_mut(&mut trace.steps[1]).logits = vec![1.0; 6];
        let (step, entropy) = most_open_step(&trace).unwrap();
        assert_eq!(step, 1);
        assert!((entropy - 6f64.ln()).abs() < 1e-6);
    }
}
