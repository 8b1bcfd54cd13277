//! A *block* is one layer of the decoder: attention over the positions so far, then a feed-forward network on each
//! position, both added to what came in. Here it is written with burn's own operations, one by one.

use burn::tensor::activation::{silu, softmax};
use burn::tensor::{Device, Tensor, TensorData};
use inferscope_trace::ModelInfo;

use super::norm::RmsNorm;
use super::pass::Pass;
use crate::LayerWeights;

pub(super) struct Block {
    attention_norm: RmsNorm,
    qkv: Tensor<2>, // [dim, (n_heads + 2 n_kv_heads) · head_dim]: queries, keys and values side by side
    attention_output: Tensor<2>, // [n_heads · head_dim, dim]
    feed_forward_norm: RmsNorm,
    gate_up: Tensor<2>, // [dim, 2 hidden_dim]: gate and up side by side
    down: Tensor<2>,    // [hidden_dim, dim]
    n_heads: usize,
    n_kv_heads: usize,
    head_dim: usize,
    hidden_dim: usize,
}

impl Block {
    pub fn load(weights: &LayerWeights, info: &ModelInfo, device: &Device) -> Self {
        Self {
            attention_norm: RmsNorm::load(&weights.attention_norm, device),
            qkv: matrix(&[&weights.query, &weights.key, &weights.value], info.dim, device),
            attention_output: matrix(&[&weights.attention_output], info.n_heads * info.head_dim, device),
            feed_forward_norm: RmsNorm::load(&weights.feed_forward_norm, device),
            gate_up: matrix(&[&weights.gate, &weights.up], info.dim, device),
            down: matrix(&[&weights.down], info.hidden_dim, device),
            n_heads: info.n_heads,
            n_kv_heads: info.n_kv_heads,
            head_dim: info.head_dim,
            hidden_dim: info.hidden_dim,
        }
    }

    /// `[position, dim]`, the positions of all sequences one after the other → the same.
    pub fn forward(&self, x: Tensor<2>, layer: usize, pass: &mut Pass<'_>) -> Tensor<2> {
        let x = x.clone() + self.attention(self.attention_norm.forward(x), layer, pass);
        x.clone() + self.feed_forward(self.feed_forward_norm.forward(x))
    }

    /// Grouped-query attention (Ainslie et al. 2023, "GQA: Training Generalized Multi-Query Transformer Models from
    /// Multi-Head Checkpoints"): `n_heads / n_kv_heads` query heads share the keys and values of one head.
    fn attention(&self, x: Tensor<2>, layer: usize, pass: &mut Pass<'_>) -> Tensor<2> {
        let (n, n_heads, n_kv_heads) = (x.dims()[0], self.n_heads, self.n_kv_heads);
        let group = n_heads / n_kv_heads;

        let qkv = x.matmul(self.qkv.clone()).reshape([n, n_heads + 2 * n_kv_heads, self.head_dim]);
        let values = qkv.clone().narrow(1, n_heads + n_kv_heads, n_kv_heads); // [position, kv head, head_dim]
        let rotated = qkv.narrow(1, 0, n_heads + n_kv_heads).matmul(pass.rotation.clone());
        let queries = rotated.clone().narrow(1, 0, n_heads); // [position, head, head_dim]
        let keys = rotated.narrow(1, n_heads, n_kv_heads); // [position, kv head, head_dim]

        let (keys, values) = pass.through_cache(layer, keys.swap_dims(0, 1), values.swap_dims(0, 1)); // [kv head, key, head_dim]

        // The queries of a group are rows of one matrix, so that no key or value has to be repeated for them.
        let queries = queries.reshape([n, n_kv_heads, group, self.head_dim]).swap_dims(0, 1);
        let queries = queries.reshape([n_kv_heads, n * group, self.head_dim]) / (self.head_dim as f32).sqrt();
        let mut scores = queries.matmul(keys.transpose()); // [kv head, position · group, key]
        if let Some(mask) = &pass.mask {
            scores = scores + mask.clone();
        }
        let weights = softmax(scores, 2);
        pass.observe_weights(&weights, group);

        let mixed = weights.matmul(values).reshape([n_kv_heads, n, group, self.head_dim]);
        mixed.swap_dims(0, 1).reshape([n, n_heads * self.head_dim]).matmul(self.attention_output.clone())
    }

    /// SwiGLU (Shazeer 2020, "GLU Variants Improve Transformer").
    fn feed_forward(&self, x: Tensor<2>) -> Tensor<2> {
        let gate_up = x.matmul(self.gate_up.clone()); // [position, 2 hidden_dim]
        let gate = gate_up.clone().narrow(1, 0, self.hidden_dim);
        let up = gate_up.narrow(1, self.hidden_dim, self.hidden_dim);
        (silu(gate) * up).matmul(self.down.clone())
    }
}

/// Matrices of a checkpoint, each `[out, in]`, side by side as one of `[in, all outs]`.
pub(super) fn matrix(parts: &[&Vec<f32>], n_in: usize, device: &Device) -> Tensor<2> {
    let n_out = parts.iter().map(|part| part.len()).sum::<usize>() / n_in;
    let mut transposed = vec![0.0; n_in * n_out];
    for (out, row) in parts.iter().flat_map(|part| part.chunks_exact(n_in)).enumerate() {
        for (i, &weight) in row.iter().enumerate() {
            transposed[i * n_out + out] = weight;
        }
    }
    Tensor::from_data(TensorData::new(transposed, [n_in, n_out]), device)
}
