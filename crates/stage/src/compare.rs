//! A *comparison* sets a run beside the last one that differed from it only in the use of the cache.

use inferscope_trace::Trace;

#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// Leading tokens that agree, of how many both runs have.
    pub same_tokens: usize,
    pub tokens: usize,
    /// `[with cache, without]`.
    pub positions: [u64; 2],
    pub milliseconds: [f64; 2],
}

impl Comparison {
    /// None unless the two ran the same prompt on the same model and engine, with the same seed and rules, one with the
    /// cache and one without it. Only the steps both have are compared.
    pub fn new(a: &Trace, b: &Trace) -> Option<Self> {
        let (with, without) = if a.settings.cache { (a, b) } else { (b, a) };
        let pairs = || with.steps.iter().zip(&without.steps);
        let comparable = with.settings.cache
            && !without.settings.cache
            && with.prompt == without.prompt
            && with.model == without.model
            && with.backend.kind == without.backend.kind
            && with.settings.seed == without.settings.seed
            && pairs().all(|(a, b)| a.sampling == b.sampling && a.chosen == b.chosen);
        let tokens = pairs().count();
        (comparable && tokens > 0).then(|| Self {
            same_tokens: pairs().take_while(|(a, b)| a.token == b.token).count(),
            tokens,
            positions: [
                pairs().map(|(step, _)| step.work.positions).sum(),
                pairs().map(|(_, step)| step.work.positions).sum(),
            ],
            milliseconds: [
                pairs().map(|(step, _)| step.milliseconds).sum(),
                pairs().map(|(_, step)| step.milliseconds).sum(),
            ],
        })
    }

    pub fn identical(&self) -> bool {
        self.same_tokens == self.tokens
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::trace;

    #[test]
    fn a_run_with_and_one_without_the_cache_compare_whichever_came_first() {
        let (with, without) = (trace(3, 4, true), trace(3, 4, false));
        let comparison = Comparison::new(&without, &with).unwrap();
        assert_eq!(Comparison::new(&with, &without).as_ref(), Some(&comparison));
        assert!(comparison.identical());
        assert_eq!(comparison.positions, [6, 18]);
    }

    #[test]
    fn runs_that_differ_in_more_than_the_cache_do_not_compare() {
        let with = trace(3, 4, true);
        assert!(Comparison::new(&with, &trace(3, 4, true)).is_none());
        assert!(Comparison::new(&with, &trace(4, 4, false)).is_none());
        let mut branch = trace(3, 4, true);
        std::sync::Arc::make_mut(&mut branch.steps[2]).chosen = true;
        assert!(Comparison::new(&branch, &trace(3, 4, false)).is_none(), "a reader put a token there");
        let mut reseeded = trace(3, 4, false);
        reseeded.settings.seed += 1;
        assert!(Comparison::new(&with, &reseeded).is_none());
    }
}
