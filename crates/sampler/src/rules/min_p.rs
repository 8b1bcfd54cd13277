use super::Rule;
use crate::{Candidates, Control, Scale};

/// Keeps the candidates that are at least p times as likely as the best one (Nguyen et al. 2024, "Turning Up the Heat:
/// Min-p Sampling for Creative and Coherent LLM Outputs").
pub struct MinP;

impl Rule for MinP {
    fn id(&self) -> &'static str {
        "min_p"
    }

    fn label(&self) -> &'static str {
        "Min-p"
    }

    fn explain(&self) -> &'static str {
        "Keeps only tokens at least p times as likely as the best one; 0 keeps them all."
    }

    fn control(&self, _vocab_size: usize) -> Control {
        Control { min: 0.0, max: 1.0, step: 0.01, default: 0.0, neutral: 0.0, scale: Scale::Linear }
    }

    fn apply(&self, value: f64, candidates: &mut Candidates) {
        // At 0 nothing is cut, and most runs are at 0.
        if value <= 0.0 {
            return;
        }
        for rank in 1..candidates.len() {
            if candidates.score(rank).exp() < value {
                candidates.cut(rank);
            }
        }
    }
}
