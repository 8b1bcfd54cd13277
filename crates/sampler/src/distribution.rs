//! The *distribution* is what one step's token is drawn from, with everything that made it so.

use inferscope_trace::{Candidate, Sampling, TokenId};

use crate::{Candidates, RULES};

/// The whole vocabulary as the sampler saw it at one step.
#[derive(Clone, Debug, PartialEq)]
pub struct Distribution {
    /// By descending logit, ties by id. Nothing is left out: candidates that a rule cut say which.
    pub candidates: Vec<Candidate>,
}

impl Distribution {
    /// Applies the rules in the registry's order. A rule without a value in `sampling` is neutral, a value out of range
    /// counts as the nearest in range, and values for rules that do not exist are ignored.
    ///
    /// `logits` is `[vocab]` and must not be empty. NaN counts as the lowest number, and infinities as the largest
    /// finite ones.
    pub fn new(logits: &[f32], sampling: &Sampling) -> Self {
        let mut candidates = Candidates::new(logits);
        let before = candidates.probabilities();
        apply_rules(&mut candidates, sampling);
        let after = candidates.probabilities();
        let candidates = candidates
            .entries()
            .zip(before.into_iter().zip(after))
            .map(|((id, logit, cut_by), (before, after))| Candidate {
                id,
                logit,
                before: before as f32,
                probability: after as f32,
                cut_by: cut_by.map(str::to_string),
            })
            .collect();
        Self { candidates }
    }

    /// The token that a uniform number in [0, 1) draws: the candidates' probabilities are laid end to end, best first,
    /// and the number is a point on that line. A candidate that was cut is never drawn.
    pub fn draw(&self, coin: f64) -> TokenId {
        pick(self.candidates.iter().map(|candidate| (candidate.id, candidate.probability)), coin)
    }

    /// Entropy after temperature and cuts, in nats: 0 when one candidate is certain, ln(n) when n are equally likely.
    pub fn entropy(&self) -> f64 {
        let terms = self.candidates.iter().map(|candidate| f64::from(candidate.probability)).filter(|&p| p > 0.0);
        // An empty or rounded sum can be −0, which reads as a negative entropy.
        terms.map(|p| -p * p.ln()).sum::<f64>().max(0.0) + 0.0
    }
}

/// The distribution that a token is drawn from, without the record of how it came about.
#[derive(Clone, Debug, PartialEq)]
pub struct Law {
    /// Ids with their probabilities, best first; those that were cut are not there.
    line: Vec<(TokenId, f32)>,
    vocab_size: usize,
}

impl Law {
    /// The same probabilities as [`Distribution::new`] gives.
    pub fn new(logits: &[f32], sampling: &Sampling) -> Self {
        let mut candidates = Candidates::new(logits);
        apply_rules(&mut candidates, sampling);
        Self { line: line(&candidates), vocab_size: logits.len() }
    }

    /// As [`Distribution::draw`].
    pub fn draw(&self, coin: f64) -> TokenId {
        pick(self.line.iter().copied(), coin)
    }

    /// `[vocab]`
    pub fn by_id(&self) -> Vec<f32> {
        let mut probabilities = vec![0.0; self.vocab_size];
        for &(id, probability) in &self.line {
            probabilities[id as usize] = probability;
        }
        probabilities
    }
}

/// What [`Distribution::draw`] returns, without the record of how it came about.
//
// A function of its own, because an engine's shell is compiled to be small, and so would be what is inlined into it.
#[inline(never)]
pub fn draw(logits: &[f32], sampling: &Sampling, coin: f64) -> TokenId {
    let mut candidates = Candidates::new(logits);
    apply_rules(&mut candidates, sampling);
    pick(line(&candidates).into_iter(), coin)
}

/// Ids with their probabilities, best first, without those that have none. Single precision, as in the record, so that both draw
/// the same.
fn line(candidates: &Candidates) -> Vec<(TokenId, f32)> {
    let kept = candidates.kept().into_iter();
    kept.map(|(rank, after)| (candidates.id(rank), after as f32)).filter(|(_, after)| *after > 0.0).collect()
}

fn apply_rules(candidates: &mut Candidates, sampling: &Sampling) {
    let vocab_size = candidates.len();
    assert!(vocab_size > 0, "there is no token to choose from");
    for (place, rule) in RULES.iter().enumerate() {
        let control = rule.control(vocab_size);
        let value = sampling.get(rule.id()).map_or(control.neutral, |value| control.clamp(value));
        candidates.begin(place);
        rule.apply(value, candidates);
    }
}

/// The id at a point of the line, of ids with their probabilities.
pub(crate) fn pick(line: impl Iterator<Item = (TokenId, f32)> + Clone, coin: f64) -> TokenId {
    let line = line.filter(|(_, probability)| *probability > 0.0);
    // Single-precision probabilities sum to 1 only nearly, so the line is as long as their sum.
    let length: f64 = line.clone().map(|(_, probability)| f64::from(probability)).sum();
    let point = coin * length;
    let mut end = 0.0;
    let mut last = None;
    for (id, probability) in line {
        end += f64::from(probability);
        last = Some(id);
        if point < end {
            break;
        }
    }
    last.expect("the best candidate is never cut")
}
