//! The *growth frame* is the chart of positions processed against tokens generated, with the cache and without it.

use inferscope_trace::{Trace, positions_processed};

use crate::{Moment, Plan};

#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// With the cache.
    pub cached: bool,
    /// This way was run; the other is counted from the formula.
    pub run: bool,
    /// `(tokens generated, positions processed)`, from no token to all that the run plans.
    pub points: Vec<(u64, u64)>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct GrowthFrame {
    /// The cached curve, then the uncached.
    pub curves: [Curve; 2],
    /// How many of the points of the curve that was run are on screen.
    pub shown: usize,
    pub max_tokens: u64,
    pub max_positions: u64,
}

impl GrowthFrame {
    pub fn new(trace: &Trace, moment: Moment) -> Self {
        let prompt = trace.prompt.tokens.len() as u64;
        let steps = if trace.finish.is_some() { trace.steps.len() } else { Plan::of(trace).steps() } as u64;
        let mut ran = vec![(0, 0)];
        for step in &trace.steps {
            let so_far = ran[ran.len() - 1].1;
            ran.push((step.index as u64 + 1, so_far + step.work.positions));
        }
        // What is still to come of the run on screen follows the same formula.
        let ahead = |from: u64, cached| (from..=steps).map(move |n| (n, positions_processed(prompt, n, cached)));
        let curve = |cached: bool| {
            let run = cached == trace.settings.cache;
            let points = if run {
                ran.iter().copied().chain(ahead(trace.steps.len() as u64 + 1, cached)).collect()
            } else {
                ahead(0, cached).collect()
            };
            Curve { cached, run, points }
        };
        Self {
            curves: [curve(true), curve(false)],
            shown: moment.steps_complete().min(trace.steps.len()),
            max_tokens: steps,
            max_positions: positions_processed(prompt, steps, false),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::trace;

    #[test]
    fn the_curve_that_was_run_comes_from_the_steps_and_meets_the_formula() {
        for cached in [true, false] {
            let frame = GrowthFrame::new(&trace(3, 4, cached), Moment::end_of(3));
            let [with, without] = &frame.curves;
            assert_eq!((with.run, without.run), (cached, !cached));
            assert_eq!(with.points, [(0, 0), (1, 3), (2, 4), (3, 5), (4, 6), (5, 7), (6, 8)]);
            assert_eq!(without.points, [(0, 0), (1, 3), (2, 7), (3, 12), (4, 18), (5, 25), (6, 33)]);
            assert_eq!((frame.max_tokens, frame.max_positions, frame.shown), (6, 33, 4));
        }
    }
}
