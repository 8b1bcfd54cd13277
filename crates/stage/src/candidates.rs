//! The *candidates frame* is the picture of one step's next-token distribution: the leading candidates with their
//! probability before and after temperature and cuts.

use inferscope_sampler::{Distribution, rule};
use inferscope_trace::{Candidate, Sampling, TokenId, Trace};

#[derive(Clone, Debug, PartialEq)]
pub struct Bar {
    pub id: TokenId,
    pub text: String,
    /// Place in the order of logits, from 0.
    pub rank: usize,
    pub logit: f32,
    /// Shares, 0 to 1.
    pub before: f32,
    pub after: f32,
    /// The label of the rule that cut it.
    pub cut_by: Option<&'static str>,
    /// The token that the step drew.
    pub drawn: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct CandidatesFrame {
    pub step: usize,
    pub bars: Vec<Bar>,
    /// Vocabulary entries not shown as bars.
    pub others: usize,
    pub kept: usize,
    pub vocab_size: usize,
    /// Of the distribution after temperature and cuts, in nats.
    pub entropy: f64,
    /// e^entropy: as if the draw were between this many equally likely tokens.
    pub effective_choices: f64,
    /// The rules shown are not those the token was drawn by.
    pub hypothetical: bool,
    /// With these rules and the step's recorded uniform number, the token that comes out.
    pub would_draw: TokenId,
    pub would_draw_text: String,
}

impl CandidatesFrame {
    /// The distribution of step `step` under `sampling`, from the step's recorded logits. `limit` bars at most, and the
    /// token that was drawn whatever its rank.
    pub fn new(trace: &Trace, step: usize, sampling: &Sampling, limit: usize) -> Option<Self> {
        let step = trace.steps.get(step)?;
        let distribution = Distribution::new(&step.logits, sampling);
        let all = &distribution.candidates;
        let mut bars: Vec<Bar> = Vec::with_capacity(limit + 1);
        for (rank, candidate) in all.iter().enumerate() {
            if rank < limit || candidate.id == step.token {
                bars.push(bar(trace, rank, candidate, candidate.id == step.token));
            }
        }
        let entropy = distribution.entropy();
        let would_draw = distribution.draw(step.coin);
        Some(Self {
            step: step.index,
            others: all.len() - bars.len(),
            kept: all.iter().filter(|candidate| candidate.kept()).count(),
            vocab_size: all.len(),
            entropy,
            effective_choices: entropy.exp(),
            hypothetical: *sampling != step.sampling,
            would_draw,
            would_draw_text: trace.vocabulary.label(would_draw),
            bars,
        })
    }
}

fn bar(trace: &Trace, rank: usize, candidate: &Candidate, drawn: bool) -> Bar {
    Bar {
        id: candidate.id,
        text: trace.vocabulary.label(candidate.id),
        rank,
        logit: candidate.logit,
        before: candidate.before,
        after: candidate.probability,
        cut_by: candidate.cut_by.as_deref().and_then(rule).map(|rule| rule.label()),
        drawn,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::trace;

    #[test]
    fn bars_follow_the_sliders_from_recorded_logits() {
        let trace = trace(3, 2, true);
        let recorded = CandidatesFrame::new(&trace, 0, &trace.steps[0].sampling, 4).unwrap();
        assert!(!recorded.hypothetical);
        assert_eq!((recorded.kept, recorded.bars[3].cut_by), (3, Some("Top-k")));
        let colder = Sampling::default().with("temperature", 0.5).with("top_k", 2.0);
        let colder = CandidatesFrame::new(&trace, 0, &colder, 4).unwrap();
        assert!(colder.hypothetical && colder.kept == 2);
        assert!(colder.bars[0].after > recorded.bars[0].after);
        assert_eq!(colder.bars[0].before, recorded.bars[0].before);
        assert!(colder.entropy < recorded.entropy);
    }

    #[test]
    fn the_drawn_token_has_a_bar_whatever_its_rank() {
        let trace = trace(3, 4, true);
        let frame = CandidatesFrame::new(&trace, 3, &Sampling::default(), 1).unwrap();
        assert_eq!(frame.bars.iter().filter(|bar| bar.drawn).count(), 1);
        assert_eq!(frame.bars.len() + frame.others, frame.vocab_size);
    }
}
