//! *Work* is what a step must compute and move, counted from the model's shape. Nothing here is measured.

use serde::{Deserialize, Serialize};

use crate::{CacheLayout, ModelInfo};

/// Bytes of one stored number: weights and cache are f32.
pub const ELEMENT_BYTES: u64 = 4;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Work {
    /// Positions the model ran for.
    pub positions: u64,
    /// Floating-point operations of the matrix products, two for each multiplication (one multiply, one add), as in
    /// Kaplan et al. 2020, "Scaling Laws for Neural Language Models", table 1. Norms, softmax and activations are left
    /// out there and here; masked attention scores are not counted.
    pub flops: u64,
    /// Every weight, read once for the whole step.
    pub weight_bytes: u64,
    /// Keys and values that attention read from the cache.
    pub cache_bytes_read: u64,
    /// Keys and values that were kept for later steps.
    pub cache_bytes_written: u64,
}

impl Work {
    /// Counts a step that ran `positions` positions from `first_position` on and computed the logits of its last
    /// position only. Without a `cache`, keys and values live and die within the step.
    pub fn of_step(model: &ModelInfo, first_position: usize, positions: usize, cache: Option<&CacheLayout>) -> Self {
        let (first, n) = (first_position as u64, positions as u64);
        let n_layers = model.n_layers as u64;
        let end = first + n;
        // As many attention scores per head and layer as each position sees keys.
        let scores: u64 =
            (first..end).map(|position| cache.unwrap_or(&CacheLayout::Contiguous).seen_from(position)).sum();
        // Each score costs head_dim multiplications for q·k and as many for weight·v.
        let attention = 2 * scores * (model.n_heads * model.head_dim) as u64 * n_layers;
        let matrices = n * n_layers * model.layer_matrix_elements();
        let logits = (model.vocab_size * model.dim) as u64;
        Self {
            positions: n,
            flops: 2 * (matrices + attention + logits),
            weight_bytes: model.n_parameters() * ELEMENT_BYTES,
            cache_bytes_read: cache.map_or(0, |layout| layout.column_bytes(model) * layout.kept(end)),
            cache_bytes_written: cache.map_or(0, |layout| layout.column_bytes(model) * layout.kept(n)),
        }
    }
}

/// Bytes of cache for `positions` positions: 2 (key and value) · layers · kv heads · head_dim · positions · 4 bytes.
pub fn cache_bytes(model: &ModelInfo, positions: u64) -> u64 {
    2 * model.n_layers as u64 * model.kv_dim() as u64 * positions * ELEMENT_BYTES
}

/// Positions processed in all by a prefill of `prompt` tokens and the decode steps after it, `steps` steps together.
/// With the cache that grows linearly, P + (steps − 1); without it each step i runs P + i positions again.
pub fn positions_processed(prompt: u64, steps: u64, cached: bool) -> u64 {
    match (steps, cached) {
        (0, _) => 0,
        (_, true) => prompt + steps - 1,
        (_, false) => steps * prompt + steps * (steps - 1) / 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_agree_with_a_sum_over_steps() {
        for prompt in 1..20 {
            for steps in 0..30 {
                let cached: u64 = (0..steps).map(|i| if i == 0 { prompt } else { 1 }).sum();
                let uncached: u64 = (0..steps).map(|i| prompt + i).sum();
                assert_eq!(positions_processed(prompt, steps, true), cached);
                assert_eq!(positions_processed(prompt, steps, false), uncached);
            }
        }
    }
}
