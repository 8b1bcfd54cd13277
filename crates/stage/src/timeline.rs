//! The *timeline frame* is the run against time as the engine measured it: the prefill bar, then a tick a decode step.

use inferscope_trace::{Phase, Trace};

use crate::Moment;

#[derive(Clone, Debug, PartialEq)]
pub struct TimelineStep {
    pub index: usize,
    pub phase: Phase,
    /// Milliseconds of computing before this step began, and in it.
    pub start: f64,
    pub milliseconds: f64,
    pub positions: usize,
    /// Place on a unit-wide line, to the chosen scale.
    pub x: f64,
    pub width: f64,
    /// Reached by the moment.
    pub reached: bool,
}

/// How a step's time becomes a width.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TimeScale {
    #[default]
    Linear,
    /// The logarithm of 1 + time / shortest time, so that the shortest step keeps a width beside the longest.
    Log,
}

impl TimeScale {
    fn width(self, milliseconds: f64, shortest: f64) -> f64 {
        match self {
            Self::Linear => milliseconds,
            Self::Log => (1.0 + milliseconds / shortest).ln(),
        }
    }
}

/// All times are the engine's computing times: what the reader spent looking is not in them.
#[derive(Clone, Debug, PartialEq)]
pub struct TimelineFrame {
    pub steps: Vec<TimelineStep>,
    /// The step on screen.
    pub current: usize,
    pub total: f64,
    pub time_to_first_token: f64,
    /// Median of the decode steps recorded, if there are any.
    pub time_per_token: Option<f64>,
    pub tokens_per_second: Option<f64>,
}

impl TimelineFrame {
    pub fn new(trace: &Trace, moment: Moment, scale: TimeScale) -> Option<Self> {
        let first = trace.steps.first()?;
        let total: f64 = trace.steps.iter().map(|step| step.milliseconds).sum();
        let times = || trace.steps.iter().map(|step| step.milliseconds);
        let shortest = times().filter(|&time| time > 0.0).fold(f64::INFINITY, f64::min);
        let width = |time: f64| scale.width(time, shortest);
        let whole = times().map(width).sum::<f64>().max(f64::MIN_POSITIVE);
        let (mut start, mut x) = (0.0, 0.0);
        let mut steps = Vec::with_capacity(trace.steps.len());
        for step in &trace.steps {
            steps.push(TimelineStep {
                index: step.index,
                phase: step.phase,
                start,
                milliseconds: step.milliseconds,
                positions: step.positions,
                x,
                width: width(step.milliseconds) / whole,
                reached: step.index < moment.steps_shown(),
            });
            start += step.milliseconds;
            x += width(step.milliseconds) / whole;
        }
        let mut decode: Vec<f64> = trace.steps.iter().skip(1).map(|step| step.milliseconds).collect();
        decode.sort_by(f64::total_cmp);
        let time_per_token = (!decode.is_empty()).then(|| decode[decode.len() / 2]);
        Some(Self {
            steps,
            current: moment.step,
            total,
            time_to_first_token: first.milliseconds,
            time_per_token,
            tokens_per_second: time_per_token.filter(|&time| time > 0.0).map(|time| 1000.0 / time),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::trace;

    #[test]
    fn steps_stand_end_to_end_and_to_scale() {
        // The fixture's steps take 1, 2, 3 and 4 ms.
        let frame = TimelineFrame::new(&trace(3, 4, true), Moment::end_of(1), TimeScale::Linear).unwrap();
        assert_eq!((frame.total, frame.time_to_first_token, frame.time_per_token), (10.0, 1.0, Some(3.0)));
        assert!((frame.steps[3].x - 0.6).abs() < 1e-9 && (frame.steps[3].width - 0.4).abs() < 1e-9);
        assert_eq!(frame.steps.iter().filter(|step| step.reached).count(), 2);
        assert!(TimelineFrame::new(&trace(3, 0, true), Moment::START, TimeScale::Linear).is_none());
    }

    #[test]
    fn on_the_logarithmic_scale_the_shortest_step_stays_visible() {
        let mut run = trace(3, 4, true);
        std::sync::Arc::make_mut(&mut run.steps[0]).milliseconds = 10_000.0;
        let widths = |scale| {
            TimelineFrame::new(&run, Moment::START, scale).unwrap().steps.iter().map(|it| it.width).collect::<Vec<_>>()
        };
        let (linear, log) = (widths(TimeScale::Linear), widths(TimeScale::Log));
        assert!(linear[1] < 0.001 && log[1] > 0.05 && log[0] > log[3] && log[3] > log[1]);
        assert!((log.iter().sum::<f64>() - 1.0).abs() < 1e-9);
    }
}
