use super::Rule;
use crate::{Candidates, Control, Scale};

/// Keeps the k best candidates (Fan, Lewis & Dauphin 2018, "Hierarchical Neural Story Generation").
pub struct TopK;

impl Rule for TopK {
    fn id(&self) -> &'static str {
        "top_k"
    }

    fn label(&self) -> &'static str {
        "Top-k"
    }

    fn explain(&self) -> &'static str {
        "Keeps only the k most likely tokens; the size of the vocabulary keeps them all."
    }

    fn control(&self, vocab_size: usize) -> Control {
        let all = vocab_size as f64;
        Control { min: 1.0, max: all, step: 1.0, default: all.min(40.0), neutral: all, scale: Scale::Log }
    }

    fn apply(&self, value: f64, candidates: &mut Candidates) {
        let k = value.round() as usize;
        (k..candidates.len()).for_each(|rank| candidates.cut(rank));
    }
}
