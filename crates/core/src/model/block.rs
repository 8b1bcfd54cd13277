//! A *block* is one layer of the decoder: attention over the positions so far, then a feed-forward network on each
//! position, both added to what came in. Here it is five fused operations; `crate::reference` spells them out.

use burn::backend::Dispatch;
use burn::tensor::Tensor;
use inferscope_trace::ModelInfo;

use super::ops::{DecoderOps, Size};
use super::pass::Batch;
use super::weights::LayerParts;

pub(super) struct Block {
    weights: LayerParts<Tensor<1>>,
    dim: usize,
    width: usize, // n_heads · head_dim
    qkv: usize,   // (n_heads + 2 n_kv_heads) · head_dim
    hidden: usize,
}

impl Block {
    pub fn new(weights: LayerParts<Tensor<1>>, info: &ModelInfo) -> Self {
        let width = info.n_heads * info.head_dim;
        Self { weights, dim: info.dim, width, qkv: width + 2 * info.kv_dim(), hidden: info.hidden_dim }
    }

    /// `[position, dim]`, the positions of all sequences one after the other → the same.
    pub fn forward(&self, x: Tensor<2>, layer: usize, batch: &mut Batch<'_>) -> Tensor<2> {
        let x = self.add_attention(x, layer, batch);
        self.add_feed_forward(x)
    }

    /// x + attention(norm(x)). Grouped-query attention (Ainslie et al. 2023, "GQA: Training Generalized Multi-Query
    /// Transformer Models from Multi-Head Checkpoints"): `n_heads / n_kv_heads` query heads share the keys and values of one
    /// head.
    fn add_attention(&self, x: Tensor<2>, layer: usize, batch: &mut Batch<'_>) -> Tensor<2> {
        let weights = &self.weights;
        let qkv = norm_product(x.clone(), &weights.attention_norm, &weights.qkv, self.dim, self.qkv);
        let mixed = batch.attend(layer, qkv, self.width); // [position, n_heads · head_dim]
        product_add(x, mixed, &weights.attention_output, self.width, self.dim)
    }

    /// x + feed_forward(norm(x)), a SwiGLU (Shazeer 2020, "GLU Variants Improve Transformer").
    fn add_feed_forward(&self, x: Tensor<2>) -> Tensor<2> {
        let weights = &self.weights;
        let gated = Tensor::from_dispatch(Dispatch::norm_gate(
            x.clone().into_dispatch(),
            weights.feed_forward_norm.clone().into_dispatch(),
            weights.gate_up.clone().into_dispatch(),
            Size { n_in: self.dim, n_out: 2 * self.hidden },
        )); // [position, hidden_dim]
        product_add(x, gated, &weights.down, self.hidden, self.dim)
    }
}

/// `[position, in]` → `[position, out]`
pub(super) fn norm_product(x: Tensor<2>, norm: &Tensor<1>, matrix: &Tensor<1>, n_in: usize, n_out: usize) -> Tensor<2> {
    let (norm, matrix) = (norm.clone().into_dispatch(), matrix.clone().into_dispatch());
    Tensor::from_dispatch(Dispatch::norm_product(x.into_dispatch(), norm, matrix, Size { n_in, n_out }))
}

fn product_add(residual: Tensor<2>, x: Tensor<2>, matrix: &Tensor<1>, n_in: usize, n_out: usize) -> Tensor<2> {
    let (residual, x, matrix) = (residual.into_dispatch(), x.into_dispatch(), matrix.clone().into_dispatch());
    Tensor::from_dispatch(Dispatch::product_add(residual, x, matrix, Size { n_in, n_out }))
}
