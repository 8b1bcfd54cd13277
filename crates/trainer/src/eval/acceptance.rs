//! The *acceptance* of a draft model: how often a token that it proposes is kept by its target in speculative sampling
//! (Leviathan et al. 2023, "Fast Inference from Transformers via Speculative Decoding"). At a position where the target
//! expects p and the draft q, that is the sum over the vocabulary of min(p, q).

use std::rc::Rc;

use anyhow::Result;
use inferscope_core::{Model, Tokenizer};
use inferscope_trace::Sampling;

use super::reading::read;
use super::writing;

/// The mean over all positions of texts that the target writes by itself at temperature 1.
pub fn acceptance(target: &Rc<Model>, draft: &Model, tokenizer: &Tokenizer, texts: u32) -> Result<f64> {
    let sampling = Sampling::default().with("temperature", 1.0);
    let (mut sum, mut positions) = (0.0, 0);
    for seed in 0..texts {
        let (prompt, written) = writing::tokens(target, tokenizer, "", 240, sampling.clone(), seed)?;
        let tokens = [prompt, written].concat();
        for (p, q) in read(target, &tokens, false)?.iter().zip(&read(draft, &tokens, false)?) {
            sum += overlap(&p.probabilities, &q.probabilities);
            positions += 1;
        }
    }
    Ok(sum / f64::from(positions))
}

fn overlap(p: &[f32], q: &[f32]) -> f64 {
    p.iter().zip(q).map(|(p, q)| f64::from(p.min(*q))).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlap_is_one_for_equals_and_zero_for_strangers() {
        assert_eq!(overlap(&[0.25, 0.75], &[0.25, 0.75]), 1.0);
        assert_eq!(overlap(&[1.0, 0.0], &[0.0, 1.0]), 0.0);
        assert_eq!(overlap(&[0.5, 0.5], &[0.75, 0.25]), 0.75);
    }
}
