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
    /// Place on a unit-wide line, to scale.
    pub x: f64,
    pub width: f64,
    /// Reached by the moment.
    pub reached: bool,
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
    pub fn new(trace: &Trace, moment: Moment) -> Option<Self> {
        let first = trace.steps.first()?;
        let total: f64 = trace.steps.iter().map(|step| step.milliseconds).sum();
        let scale = 1.0 / total.max(f64::MIN_POSITIVE);
        let mut start = 0.0;
        let mut steps = Vec::with_capacity(trace.steps.len());
        for step in &trace.steps {
            steps.push(TimelineStep {
                index: step.index,
                phase: step.phase,
                start,
                milliseconds: step.milliseconds,
                positions: step.positions,
                x: start * scale,
                width: step.milliseconds * scale,
                reached: step.index < moment.steps_shown(),
            });
            start += step.milliseconds;
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
        let frame = TimelineFrame::new(&trace(3, 4, true), Moment::end_of(1)).unwrap();
        assert_eq!((frame.total, frame.time_to_first_token, frame.time_per_token), (10.0, 1.0, Some(3.0)));
        assert!((frame.steps[3].x - 0.6).abs() < 1e-9 && (frame.steps[3].width - 0.4).abs() < 1e-9);
        assert_eq!(frame.steps.iter().filter(|step| step.reached).count(), 2);
        assert!(TimelineFrame::new(&trace(3, 0, true), Moment::START).is_none());
    }
}
