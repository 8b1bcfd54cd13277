//! What a decode step costs at several batch sizes, measured: the weights are read once for all sequences of a step.

use inferscope_core::{LanguageModel, Model, ModelError, Sequence};
use inferscope_trace::TokenId;

const SIZES: [usize; 6] = [1, 2, 4, 8, 16, 32];
/// Positions that each sequence has behind it.
const BEFORE: usize = 32;
const STEPS: usize = 21;

/// Each size with the median milliseconds of a step. `clock` gives milliseconds.
pub async fn measure(model: &Model, clock: &impl Fn() -> f64) -> Result<Vec<(usize, f64)>, ModelError> {
    let before = BEFORE.min(model.info().context.saturating_sub(STEPS + 1)).max(1);
    let filler: Vec<TokenId> = (0..before).map(|at| (at % model.info().vocab_size) as TokenId).collect();
    let mut points = Vec::new();
    for size in SIZES {
        let mut caches: Vec<_> = (0..size).map(|_| model.reserved_cache(before + STEPS + 1)).collect();
        pass(model, &mut caches, &filler).await?;
        // The first step of a size prepares what the others then have.
        pass(model, &mut caches, &filler[..1]).await?;
        let mut times = Vec::new();
        for _ in 0..STEPS.min(model.info().context - before) - 1 {
            let begin = clock();
            pass(model, &mut caches, &filler[..1]).await?;
            times.push(clock() - begin);
        }
        times.sort_by(f64::total_cmp);
        points.push((size, times.get(times.len() / 2).copied().unwrap_or(0.0)));
    }
    Ok(points)
}

async fn pass(model: &Model, caches: &mut [inferscope_core::Cache], tokens: &[TokenId]) -> Result<(), ModelError> {
    let mut all: Vec<_> = caches.iter_mut().map(|cache| Sequence { tokens, cache, logits: 1 }).collect();
    model.forward_batch(&mut all).await.map(drop)
}
