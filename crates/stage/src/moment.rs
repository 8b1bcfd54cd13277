//! A *moment* is a place in a trace: a step, and how far its picture has come. A *beat* is one part of a step that
//! shows one idea. Moments know no clock; the player moves them.

use inferscope_trace::{Phase, Step, Trace};

/// `step` is the step on screen and `progress` runs from 0 (nothing of it visible) to 1 (all of it).
/// The start of a trace is step 0 at progress 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Moment {
    pub step: usize,
    pub progress: f32,
}

impl Moment {
    pub const START: Self = Self { step: 0, progress: 0.0 };

    /// The moment when step `step` is complete.
    pub fn end_of(step: usize) -> Self {
        Self { step, progress: 1.0 }
    }

    /// Steps that are visible at least in part.
    pub fn steps_shown(&self) -> usize {
        if self.progress > 0.0 { self.step + 1 } else { self.step }
    }

    /// Steps that are complete.
    pub fn steps_complete(&self) -> usize {
        if self.progress >= 1.0 { self.step + 1 } else { self.step }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beat {
    /// Keys and values of the step's positions are computed.
    Fill,
    /// The newest position reads the columns.
    Attend,
    /// Logits become probabilities.
    Predict,
    /// The drawn token joins the text, and a new column stays in the cache.
    Append,
}

/// The beats of a step with the progress at which each ends.
pub fn beats(phase: Phase) -> [(Beat, f32); 4] {
    match phase {
        Phase::Prefill => [(Beat::Fill, 0.4), (Beat::Attend, 0.65), (Beat::Predict, 0.85), (Beat::Append, 1.0)],
        Phase::Decode => [(Beat::Fill, 0.15), (Beat::Attend, 0.5), (Beat::Predict, 0.75), (Beat::Append, 1.0)],
    }
}

/// The part of a beat in which nothing moves any more, so that the eye can arrive.
const HOLD: f32 = 0.3;

/// How far `beat` has come at `progress`, from 0 to 1, eased at both ends; it is there before the beat ends, and holds.
pub fn beat_progress(phase: Phase, beat: Beat, progress: f32) -> f32 {
    let mut start = 0.0;
    for (each, end) in beats(phase) {
        if each == beat {
            let linear = ((progress - start) / (end - start) / (1.0 - HOLD)).clamp(0.0, 1.0);
            return linear * linear * (3.0 - 2.0 * linear);
        }
        start = end;
    }
    1.0
}

/// The step whose prediction is on screen: until the step at `moment` predicts, it is the one before.
pub fn predicted_step(trace: &Trace, moment: Moment) -> Option<usize> {
    let step = trace.steps.get(moment.step)?;
    let predicts = beat_progress(step.phase, Beat::Predict, moment.progress) > 0.0;
    if predicts { Some(moment.step) } else { moment.step.checked_sub(1) }
}

/// How long a step's picture takes at speed 1. The prefill comes once and explains more, so it is slower.
pub fn duration_ms(step: &Step) -> f32 {
    match step.phase {
        Phase::Prefill => 1600.0,
        Phase::Decode => 800.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::trace;

    #[test]
    fn beats_follow_one_another_and_the_last_ends_with_the_step() {
        for phase in [Phase::Prefill, Phase::Decode] {
            let mut start = 0.0;
            for (beat, end) in beats(phase) {
                assert!(end > start);
                assert_eq!((beat_progress(phase, beat, start), beat_progress(phase, beat, end)), (0.0, 1.0));
                assert_eq!(beat_progress(phase, beat, end - 0.25 * (end - start)), 1.0, "it holds at its end");
                start = end;
            }
            assert_eq!(start, 1.0);
        }
    }

    #[test]
    fn a_prediction_stays_until_the_next_one() {
        let trace = trace(3, 2, true);
        assert_eq!(predicted_step(&trace, Moment { step: 0, progress: 0.1 }), None);
        assert_eq!(predicted_step(&trace, Moment::end_of(0)), Some(0));
        assert_eq!(predicted_step(&trace, Moment { step: 1, progress: 0.4 }), Some(0));
        assert_eq!(predicted_step(&trace, Moment { step: 1, progress: 0.6 }), Some(1));
    }
}
