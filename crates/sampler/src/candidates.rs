//! The *candidates* are the whole vocabulary, best first, while the rules work on it.

use inferscope_trace::TokenId;

struct Entry {
    id: TokenId,
    logit: f32,
    /// Logarithm of the probability relative to the best candidate's, so the best has 0 and the others less.
    score: f64,
    cut_by: Option<&'static str>,
}

/// The vocabulary sorted by descending logit, with ties in order of id. Rules address candidates by rank, 0 being the
/// best, and may rescale the scores or cut candidates. The best can not be cut, so something is always left to draw.
pub struct Candidates {
    entries: Vec<Entry>,
    /// Id of the rule at work, which signs its cuts.
    rule: &'static str,
}

impl Candidates {
    /// `logits` is `[vocab]`. NaN and −∞ become the lowest finite number and +∞ the highest, so that every sum of
    /// probabilities is a number.
    pub(crate) fn new(logits: &[f32]) -> Self {
        let finite = |logit: f32| if logit.is_nan() { f32::MIN } else { logit.clamp(f32::MIN, f32::MAX) };
        let mut order: Vec<(u32, TokenId)> =
            logits.iter().zip(0..).map(|(&it, id)| (sort_key(finite(it)), id)).collect();
        // Digit by digit, which leaves equal keys in order of id and is several times quicker than comparing: sorting is most of
        // the work of a draw.
        radsort::sort_by_key(&mut order, |&(key, _)| key);
        let best = order.first().map_or(0.0, |&(_, id)| f64::from(finite(logits[id as usize])));
        let entry = |(_, id): (u32, TokenId)| {
            let logit = finite(logits[id as usize]);
            Entry { id, logit, score: f64::from(logit) - best, cut_by: None }
        };
        Self { entries: order.into_iter().map(entry).collect(), rule: "" }
    }

    /// The cuts that follow are `rule`'s.
    pub(crate) fn begin(&mut self, rule: &'static str) {
        self.rule = rule;
    }

    /// All candidates, cut or not.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub fn is_kept(&self, rank: usize) -> bool {
        self.entries[rank].cut_by.is_none()
    }

    /// Natural logarithm of the candidate's probability divided by the best one's; at most 0, and 0 for the best.
    pub fn score(&self, rank: usize) -> f64 {
        self.entries[rank].score
    }

    /// Divides every score by `divisor`, which must be above 0.
    pub fn divide_scores(&mut self, divisor: f64) {
        for entry in &mut self.entries {
            entry.score /= divisor;
        }
    }

    /// Cuts a candidate in the name of the rule at work. The best candidate and those already cut stay as they are.
    pub fn cut(&mut self, rank: usize) {
        let rule = self.rule;
        if rank > 0 {
            self.entries[rank].cut_by.get_or_insert(rule);
        }
    }

    /// `[rank]` → probability among the candidates that are left, 0 for those cut. Sums to 1.
    pub fn probabilities(&self) -> Vec<f64> {
        // An exponential is dear, and of most candidates none is needed.
        let weight = |entry: &Entry| if entry.cut_by.is_none() { entry.score.exp() } else { 0.0 };
        let mut weights: Vec<f64> = self.entries.iter().map(weight).collect();
        let total: f64 = weights.iter().sum();
        weights.iter_mut().for_each(|weight| *weight /= total);
        weights
    }

    /// Id, logit and the rule that cut it, of every candidate, best first.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (TokenId, f32, Option<&'static str>)> + Clone {
        self.entries.iter().map(|entry| (entry.id, entry.logit, entry.cut_by))
    }
}

/// The lower of two keys is that of the higher logit.
fn sort_key(logit: f32) -> u32 {
    // Finite floats compare like their bits, once the negative ones are turned about. Adding 0 makes the two zeros one.
    let bits = (logit + 0.0).to_bits();
    let ascending = if logit < 0.0 { !bits } else { bits | 1 << 31 };
    !ascending
}
