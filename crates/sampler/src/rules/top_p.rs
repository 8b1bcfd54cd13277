use super::Rule;
use crate::{Candidates, Control, Scale};

/// Keeps the fewest candidates, best first, whose probabilities sum to at least p (Holtzman et al. 2020, "The Curious
/// Case of Neural Text Degeneration"). Probabilities are those among the candidates that earlier rules left.
pub struct TopP;

impl Rule for TopP {
    fn id(&self) -> &'static str {
        "top_p"
    }

    fn label(&self) -> &'static str {
        "Top-p"
    }

    fn explain(&self) -> &'static str {
        "Keeps the fewest tokens, best first, whose probabilities sum to at least p; 1 keeps them all."
    }

    fn control(&self, _vocab_size: usize) -> Control {
        Control { min: 0.0, max: 1.0, step: 0.01, default: 1.0, neutral: 1.0, scale: Scale::Linear }
    }

    fn apply(&self, value: f64, candidates: &mut Candidates) {
        // At 1 nothing is cut, but a rounded sum can reach 1 before the last candidate.
        if value >= 1.0 {
            return;
        }
        let mut sum = 0.0;
        for (rank, probability) in candidates.probabilities().into_iter().enumerate() {
            if sum >= value {
                candidates.cut(rank);
            }
            sum += probability;
        }
    }
}
