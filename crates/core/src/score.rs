//! The *score* of a text is how well a model foresees it: the mean surprise of its tokens.

use inferscope_trace::{CacheLayout, TokenId};

use crate::{LanguageModel, ModelError, Sequence};

/// Mean −ln p of every token after the first, in nats, with the cache in `layout`. All tokens are run in one pass; a layout
/// that drops or rounds columns does so within it as it would step by step. 0 for a text of one token.
///
/// # Errors
/// When the text does not fit into the context, or the device fails.
pub async fn score<M: LanguageModel>(model: &M, tokens: &[TokenId], layout: &CacheLayout) -> Result<f64, ModelError> {
    let Some((_, known)) = tokens.split_last().filter(|(_, known)| !known.is_empty()) else { return Ok(0.0) };
    let mut cache = model.new_cache(layout);
    let mut all = [Sequence { tokens: known, cache: &mut cache, logits: known.len() }];
    let logits = model.forward_batch(&mut all).await?.remove(0);
    let surprise = logits.iter().zip(&tokens[1..]).map(|(logits, &next)| {
        let best = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let total: f64 = logits.iter().map(|logit| f64::from(logit - best).exp()).sum();
        total.ln() - f64::from(logits[next as usize] - best)
    });
    Ok(surprise.sum::<f64>() / known.len() as f64)
}
