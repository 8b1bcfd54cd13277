use super::Rule;
use crate::{Candidates, Control, Scale};

/// Divides the logits by the temperature before the softmax (Ackley, Hinton & Sejnowski 1985). At 0, the limit of that,
/// only the best candidate is left.
pub struct Temperature;

impl Rule for Temperature {
    fn id(&self) -> &'static str {
        "temperature"
    }

    fn label(&self) -> &'static str {
        "Temperature"
    }

    fn explain(&self) -> &'static str {
        "Divides every logit: below 1 the likely tokens gain, above 1 the unlikely ones do, and 0 always takes the best."
    }

    fn control(&self, _vocab_size: usize) -> Control {
        Control { min: 0.0, max: 2.0, step: 0.05, default: 0.8, neutral: 1.0, scale: Scale::Linear }
    }

    fn apply(&self, value: f64, candidates: &mut Candidates) {
        if value == 0.0 {
            (1..candidates.len()).for_each(|rank| candidates.cut(rank));
        } else {
            candidates.divide_scores(value);
        }
    }
}
