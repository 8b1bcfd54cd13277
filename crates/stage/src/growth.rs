//! The *growth frame* is the chart of work against tokens generated, with the cache and without it: positions that the model
//! ran for, or pairs of positions that attention compared.

use inferscope_trace::Trace;

use crate::{Comparison, Moment, Plan};

/// What is counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Measure {
    /// The weight matrices' work goes with these: linear in the tokens with the cache, quadratic without.
    #[default]
    Positions,
    /// Queries with the keys they can see, in one head of one layer: quadratic with the cache, cubic without.
    Pairs,
}

impl Measure {
    /// Of a step that runs `positions` positions from `first` on: position p sees p + 1 keys.
    fn of_step(self, first: u64, positions: u64) -> u64 {
        match self {
            Self::Positions => positions,
            Self::Pairs => positions * first + positions * (positions + 1) / 2,
        }
    }

    /// How the whole grows with the tokens.
    pub fn growth(self, cached: bool) -> &'static str {
        match (self, cached) {
            (Self::Positions, true) => "linear",
            (Self::Positions, false) | (Self::Pairs, true) => "quadratic",
            (Self::Pairs, false) => "cubic",
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// With the cache.
    pub cached: bool,
    /// How many of its points come from steps that were run; the others are counted ahead.
    pub run: usize,
    /// `(tokens generated, work in all)`, from no token to all that the run plans.
    pub points: Vec<(u64, u64)>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct GrowthFrame {
    /// The cached curve, then the uncached.
    pub curves: [Curve; 2],
    /// How many of the points are on screen.
    pub shown: usize,
    pub max_tokens: u64,
    pub max_work: u64,
}

impl GrowthFrame {
    /// `other` is the last run of the other way, which counts if it differs in nothing but the cache.
    pub fn new(trace: &Trace, other: Option<&Trace>, moment: Moment, measure: Measure) -> Self {
        let prompt = trace.prompt.tokens.len() as u64;
        let steps = if trace.finish.is_some() { trace.steps.len() } else { Plan::of(trace).steps() } as u64;
        let other = other.filter(|other| Comparison::new(trace, other).is_some());
        let curve = |cached: bool| {
            let ran = if cached == trace.settings.cache { Some(trace) } else { other };
            let mut points = vec![(0, 0)];
            for index in 0..steps {
                let step = ran.and_then(|trace| trace.steps.get(index as usize));
                let (first, positions) = match (step, cached, index) {
                    (Some(step), ..) => (step.first_position as u64, step.work.positions),
                    (None, true, 1..) => (prompt + index - 1, 1),
                    (None, ..) => (0, prompt + index),
                };
                points.push((index + 1, points[index as usize].1 + measure.of_step(first, positions)));
            }
            Curve { cached, run: ran.map_or(0, |trace| trace.steps.len().min(steps as usize)), points }
        };
        let curves = [curve(true), curve(false)];
        Self {
            shown: moment.steps_complete().min(trace.steps.len()),
            max_tokens: steps,
            max_work: curves[1].points.last().map_or(0, |point| point.1),
            curves,
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
            let frame = GrowthFrame::new(&trace(3, 4, cached), None, Moment::end_of(3), Measure::Positions);
            let [with, without] = &frame.curves;
            assert_eq!([with.run, without.run], if cached { [4, 0] } else { [0, 4] });
            assert_eq!(with.points, [(0, 0), (1, 3), (2, 4), (3, 5), (4, 6), (5, 7), (6, 8)]);
            assert_eq!(without.points, [(0, 0), (1, 3), (2, 7), (3, 12), (4, 18), (5, 25), (6, 33)]);
            assert_eq!((frame.max_tokens, frame.max_work, frame.shown), (6, 33, 4));
        }
    }

    #[test]
    fn both_ways_are_shown_as_run_when_they_were() {
        let (with, without) = (trace(3, 4, true), trace(3, 4, false));
        let frame = GrowthFrame::new(&with, Some(&without), Moment::end_of(1), Measure::Positions);
        assert_eq!([frame.curves[0].run, frame.curves[1].run, frame.shown], [4, 4, 2]);
        let longer = trace(4, 4, false);
        assert_eq!(GrowthFrame::new(&with, Some(&longer), Moment::START, Measure::Positions).curves[1].run, 0);
    }

    #[test]
    fn pairs_are_those_that_attention_compares() {
        let frame = GrowthFrame::new(&trace(3, 4, true), None, Moment::START, Measure::Pairs);
        let by_hand = |runs: &[(u64, u64)]| -> u64 {
            runs.iter().map(|&(first, n)| (first..first + n).map(|position| position + 1).sum::<u64>()).sum()
        };
        let with = by_hand(&[(0, 3), (3, 1), (4, 1), (5, 1), (6, 1), (7, 1)]);
        let without = by_hand(&[(0, 3), (0, 4), (0, 5), (0, 6), (0, 7), (0, 8)]);
        assert_eq!([frame.curves[0].points[6].1, frame.curves[1].points[6].1], [with, without]);
    }

    #[test]
    fn curves_grow_as_they_are_called() {
        // Of a long run the last differences of the right order are constant: one for linear, two for quadratic, and so on.
        let mut run = trace(3, 1, true);
        run.settings.max_new_tokens = 200;
        std::sync::Arc::make_mut(&mut run.model).context = 1000;
        for measure in [Measure::Positions, Measure::Pairs] {
            let frame = GrowthFrame::new(&run, None, Moment::START, measure);
            for curve in &frame.curves {
                let order =
                    ["", "linear", "quadratic", "cubic"].iter().position(|name| *name == measure.growth(curve.cached));
                let mut values: Vec<i64> = curve.points[1..].iter().map(|point| point.1 as i64).collect();
                for _ in 0..order.unwrap() {
                    assert!(values.windows(2).any(|pair| pair[0] != pair[1]), "{measure:?} {}", curve.cached);
                    values = values.windows(2).map(|pair| pair[1] - pair[0]).collect();
                }
                assert!(values.windows(2).all(|pair| pair[0] == pair[1]), "{measure:?} {}: {values:?}", curve.cached);
            }
        }
    }
}
