//! The *candidates* are the whole vocabulary, best first, while the rules work on it.

use inferscope_trace::TokenId;

use crate::RULES;

#[derive(Clone, Copy)]
struct Entry {
    /// Orders like the logit, the lower the higher that is.
    key: u32,
    id: TokenId,
}

impl Entry {
    fn new(id: TokenId, logit: f32) -> Self {
        let finite = if logit.is_nan() { f32::MIN } else { logit.clamp(f32::MIN, f32::MAX) };
        // Finite floats compare like their bits, once the negative ones are turned about. Adding 0 makes the two zeros one.
        let bits = (finite + 0.0).to_bits();
        let ascending = if finite < 0.0 { !bits } else { bits | SIGN };
        Self { key: !ascending, id }
    }

    fn logit(self) -> f32 {
        let ascending = !self.key;
        f32::from_bits(if ascending < SIGN { !ascending } else { ascending & !SIGN })
    }
}

const SIGN: u32 = 1 << 31;

/// Cut by no rule.
const KEPT: u8 = 0;

/// The vocabulary sorted by descending logit, with ties in order of id. Rules address candidates by rank, 0 being the
/// best, and may rescale the scores or cut candidates. The best can not be cut, so something is always left to draw.
pub struct Candidates {
    entries: Vec<Entry>,
    /// The rule that cut each entry, as its place in [`RULES`] counted from 1; 0 if none did.
    cut_by: Vec<u8>,
    /// What the differences of logits are divided by.
    divisor: f64,
    /// The rule at work, which signs its cuts.
    rule: u8,
}

impl Candidates {
    /// `logits` is `[vocab]`. NaN and −∞ become the lowest finite number and +∞ the highest, so that every sum of
    /// probabilities is a number.
    pub(crate) fn new(logits: &[f32]) -> Self {
        let mut entries: Vec<Entry> = logits.iter().zip(0..).map(|(&logit, id)| Entry::new(id, logit)).collect();
        // Digit by digit, which leaves equal keys in order of id and is several times quicker than comparing: sorting is most of
        // the work of a draw.
        radsort::sort_by_key(&mut entries, |entry| entry.key);
        Self { cut_by: vec![KEPT; entries.len()], entries, divisor: 1.0, rule: KEPT }
    }

    /// The cuts that follow are those of the rule at that place in [`RULES`].
    pub(crate) fn begin(&mut self, rule: usize) {
        self.rule = u8::try_from(rule + 1).expect("a handful of rules");
    }

    /// All candidates, cut or not.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub fn is_kept(&self, rank: usize) -> bool {
        self.cut_by[rank] == KEPT
    }

    /// Natural logarithm of the candidate's probability divided by the best one's; at most 0, and 0 for the best.
    pub fn score(&self, rank: usize) -> f64 {
        (f64::from(self.entries[rank].logit()) - f64::from(self.entries[0].logit())) / self.divisor
    }

    /// Divides every score by `divisor`, which must be above 0.
    pub fn divide_scores(&mut self, divisor: f64) {
        self.divisor *= divisor;
    }

    /// Cuts a candidate in the name of the rule at work. The best candidate and those already cut stay as they are.
    pub fn cut(&mut self, rank: usize) {
        if rank > 0 && self.is_kept(rank) {
            self.cut_by[rank] = self.rule;
        }
    }

    /// `[rank]` → probability among the candidates that are left, 0 for those cut. Sums to 1.
    pub fn probabilities(&self) -> Vec<f64> {
        let mut probabilities = vec![0.0; self.len()];
        for (rank, probability) in self.kept() {
            probabilities[rank] = probability;
        }
        probabilities
    }

    /// Rank and probability of the candidates that are left, best first.
    pub(crate) fn kept(&self) -> Vec<(usize, f64)> {
        // They are found before any exponential is taken: of all candidates those would cost more than the sorting.
        let kept: Vec<usize> = (0..self.len()).filter(|&rank| self.is_kept(rank)).collect();
        let powers: Vec<f64> = kept.iter().map(|&rank| self.score(rank).exp()).collect();
        let total: f64 = powers.iter().sum();
        kept.into_iter().zip(powers).map(|(rank, power)| (rank, power / total)).collect()
    }

    pub(crate) fn id(&self, rank: usize) -> TokenId {
        self.entries[rank].id
    }

    /// Id, logit and the rule that cut it, of every candidate, best first.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (TokenId, f32, Option<&'static str>)> + Clone {
        let rule = |place: u8| RULES.get(usize::from(place).checked_sub(1)?).map(|rule| rule.id());
        self.entries.iter().zip(&self.cut_by).map(move |(entry, &cut_by)| (entry.id, entry.logit(), rule(cut_by)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_orders_like_its_logit_and_gives_it_back() {
        let descending = [f32::MAX, 3.5, 1.0, f32::MIN_POSITIVE, 1e-40, 0.0, -1e-40, -1.0, -3.5, f32::MIN];
        let entries = descending.map(|logit| Entry::new(0, logit));
        assert_eq!(entries.map(Entry::logit), descending);
        assert!(entries.is_sorted_by(|better, worse| better.key < worse.key));
    }

    #[test]
    fn what_is_no_finite_number_counts_as_the_nearest_that_is() {
        let as_finite = |logit| Entry::new(0, logit).key;
        assert_eq!(as_finite(f32::INFINITY), as_finite(f32::MAX));
        assert_eq!(as_finite(f32::NEG_INFINITY), as_finite(f32::MIN));
        assert_eq!(as_finite(f32::NAN), as_finite(f32::MIN));
        assert_eq!(as_finite(-0.0), as_finite(0.0), "the two zeros are a tie");
    }
}
