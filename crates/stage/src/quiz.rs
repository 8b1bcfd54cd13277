//! A *question* asks the reader for a number before a beat; the run itself gives the answer.
//!
//! It knows only the plan of the run to come, and what it expects is checked by the run's own steps.

use inferscope_trace::{Trace, positions_processed};

use crate::{Plan, format};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// Before the prefill: how many columns will it fill?
    Prefill,
    /// Before the first decode step: how many columns will it add?
    Decode,
    /// Before a run without the cache: how many positions will it run in all?
    Uncached,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    pub ask: Ask,
    pub text: String,
}

/// What the reader said, beside what the run did.
#[derive(Clone, Debug, PartialEq)]
pub struct Reveal {
    pub ask: Ask,
    pub guess: u64,
    pub answer: u64,
    pub text: String,
}

impl Ask {
    /// The first question of a run.
    pub fn first(cached: bool) -> Self {
        if cached { Self::Prefill } else { Self::Uncached }
    }

    /// The question that follows once `steps` steps are on screen.
    pub fn after(steps: usize, cached: bool) -> Option<Self> {
        (cached && steps == 1).then_some(Self::Decode)
    }

    pub fn question(self, plan: Plan) -> Question {
        let text = match self {
            Self::Prefill => format!(
                "The prompt is {} tokens long. How many columns of the cache will the first step fill?",
                plan.prompt
            ),
            Self::Decode => "The next step adds one token. How many columns will it compute?".into(),
            Self::Uncached => format!(
                "Without the cache, writing {} tokens after a prompt of {}: how many positions will the model run for, all \
                 steps together?",
                plan.steps(),
                plan.prompt
            ),
        };
        Question { ask: self, text }
    }

    /// How many steps of the run have to be on screen until the answer is.
    pub fn revealed_after(self, plan: Plan) -> usize {
        match self {
            Self::Prefill => 1,
            Self::Decode => 2,
            Self::Uncached => plan.steps(),
        }
    }

    /// The answer that the run gave, or None while it has not come so far.
    pub fn reveal(self, guess: u64, trace: &Trace, steps_complete: usize) -> Option<Reveal> {
        let plan = Plan::of(trace);
        let ended = trace.finish.is_some() && steps_complete >= trace.steps.len();
        if steps_complete < self.revealed_after(plan) && !ended {
            return None;
        }
        let positions = |steps: &[std::sync::Arc<inferscope_trace::Step>]| {
            steps.iter().map(|step| step.work.positions).sum::<u64>()
        };
        let (answer, why) = match self {
            Self::Prefill => (
                positions(trace.steps.get(..1)?),
                "prefill reads the whole prompt at once, and keeps a column for each of its tokens.".to_string(),
            ),
            Self::Decode => (
                positions(trace.steps.get(1..2)?),
                "the old columns are still there, so only the newest token had to be run.".to_string(),
            ),
            Self::Uncached => {
                let (prompt, steps) = (plan.prompt as u64, trace.steps.len() as u64);
                let with = positions_processed(prompt, steps, true);
                let why = format!(
                    "each of the {steps} steps ran the whole text again. With the cache it is {}.",
                    format::grouped(with)
                );
                (positions(&trace.steps), why)
            }
        };
        let verdict =
            if guess == answer { "Right".to_string() } else { format!("You said {}", format::grouped(guess)) };
        let text = format!("{verdict}: it was {}, {why}", format::grouped(answer));
        Some(Reveal { ask: self, guess, answer, text })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::trace;

    #[test]
    fn a_cached_run_asks_before_the_prefill_and_before_the_first_decode_step() {
        assert_eq!(
            (Ask::first(true), Ask::after(1, true), Ask::after(2, true)),
            (Ask::Prefill, Some(Ask::Decode), None)
        );
        let run = trace(3, 3, true);
        assert_eq!(Ask::Prefill.reveal(1, &run, 0), None);
        let prefill = Ask::Prefill.reveal(1, &run, 1).unwrap();
        assert!(prefill.answer == 3 && prefill.text.starts_with("You said 1: it was 3,"));
        assert_eq!(Ask::Decode.reveal(1, &run, 1), None);
        let decode = Ask::Decode.reveal(1, &run, 2).unwrap();
        assert!(decode.answer == 1 && decode.text.starts_with("Right: it was 1,"));
        assert!(Ask::Prefill.question(Plan::of(&run)).text.contains("3 tokens"));
    }

    #[test]
    fn a_run_without_the_cache_asks_once_and_is_counted_from_its_steps() {
        assert_eq!((Ask::first(false), Ask::after(1, false)), (Ask::Uncached, None));
        let mut run = trace(3, 6, false);
        assert_eq!(Ask::Uncached.reveal(8, &run, 5), None);
        let reveal = Ask::Uncached.reveal(8, &run, 6).unwrap();
        // 3 + 4 + 5 + 6 + 7 + 8, and with the cache 3 + 5.
        assert!(reveal.answer == 33 && reveal.text.contains("it was 33,") && reveal.text.ends_with("it is 8."));
        // A text that ends early is counted as far as it went.
        run.steps.truncate(2);
        run.finish = Some(inferscope_trace::Finish::EndOfText);
        assert_eq!(Ask::Uncached.reveal(8, &run, 2).unwrap().answer, 7);
    }
}
