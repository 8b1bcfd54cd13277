//! A *block* is one layer of the decoder: attention over the positions so far, then a feed-forward network on each
//! position, both added to what came in.

use std::ops::Range;

use burn::tensor::activation::{silu, softmax};
use burn::tensor::{Device, Tensor, TensorData};
use inferscope_trace::{ModelInfo, Observe};

use super::norm::RmsNorm;
use super::rotation::Rotation;
use crate::LayerWeights;
use crate::cache::LayerCache;

/// Added to a score that must not count. The softmax of it is exactly 0, and unlike −∞ every shading language has it.
const MASKED: f32 = -1e9;

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

/// What all blocks of one forward pass share, and what is observed on the way through them.
pub(super) struct Pass {
    positions: Range<usize>,
    rotation: Tensor<3>,     // [position, head_dim, head_dim]
    mask: Option<Tensor<3>>, // [1, position · group, key]; a single position sees everything
    observe: Observe,
    attention: Vec<Tensor<3>>, // of each layer: [head, query, key]
    keys: Vec<Tensor<3>>,      // of each layer: [position, kv head, head_dim]
    values: Vec<Tensor<3>>,    // of each layer: [position, kv head, head_dim]
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

    /// `[position, dim]` → the same.
    pub fn forward(&self, x: Tensor<2>, cache: &mut LayerCache, pass: &mut Pass) -> Tensor<2> {
        let x = x.clone() + self.attention(self.attention_norm.forward(x), cache, pass);
        x.clone() + self.feed_forward(self.feed_forward_norm.forward(x))
    }

    /// Grouped-query attention (Ainslie et al. 2023, "GQA: Training Generalized Multi-Query Transformer Models from
    /// Multi-Head Checkpoints"): `n_heads / n_kv_heads` query heads share the keys and values of one head.
    fn attention(&self, x: Tensor<2>, cache: &mut LayerCache, pass: &mut Pass) -> Tensor<2> {
        let (n, n_heads, n_kv_heads, head_dim) = (pass.positions.len(), self.n_heads, self.n_kv_heads, self.head_dim);
        let group = n_heads / n_kv_heads;

        let qkv = x.matmul(self.qkv.clone()).reshape([n, n_heads + 2 * n_kv_heads, head_dim]);
        let values = qkv.clone().narrow(1, n_heads + n_kv_heads, n_kv_heads); // [position, kv head, head_dim]
        let rotated = qkv.narrow(1, 0, n_heads + n_kv_heads).matmul(pass.rotation.clone());
        let queries = rotated.clone().narrow(1, 0, n_heads); // [position, head, head_dim]
        let keys = rotated.narrow(1, n_heads, n_kv_heads); // [position, kv head, head_dim]

        pass.observe_columns(&keys, &values);
        cache.write(&pass.positions, keys, values);
        let (keys, values) = cache.read(0..pass.positions.end); // [kv head, key, head_dim]

        // The queries of a group are rows of one matrix, so that no key or value has to be repeated for them.
        let queries = queries.reshape([n, n_kv_heads, group, head_dim]).swap_dims(0, 1);
        let queries = queries.reshape([n_kv_heads, n * group, head_dim]) / (head_dim as f32).sqrt();
        let mut scores = queries.matmul(keys.transpose()); // [kv head, position · group, key]
        if let Some(mask) = &pass.mask {
            scores = scores + mask.clone();
        }
        let weights = softmax(scores, 2);
        pass.observe_weights(&weights, group);

        let mixed = weights.matmul(values).reshape([n_kv_heads, n, group, head_dim]);
        mixed.swap_dims(0, 1).reshape([n, n_heads * head_dim]).matmul(self.attention_output.clone())
    }

    /// SwiGLU (Shazeer 2020, "GLU Variants Improve Transformer").
    fn feed_forward(&self, x: Tensor<2>) -> Tensor<2> {
        let gate_up = x.matmul(self.gate_up.clone()); // [position, 2 hidden_dim]
        let gate = gate_up.clone().narrow(1, 0, self.hidden_dim);
        let up = gate_up.narrow(1, self.hidden_dim, self.hidden_dim);
        (silu(gate) * up).matmul(self.down.clone())
    }
}

impl Pass {
    pub fn new(
        info: &ModelInfo,
        rotation: &Rotation,
        positions: Range<usize>,
        observe: Observe,
        device: &Device,
    ) -> Self {
        Self {
            rotation: rotation.at(&positions),
            mask: (positions.len() > 1).then(|| causal_mask(&positions, info.group_size(), device)),
            positions,
            observe,
            attention: Vec::new(),
            keys: Vec::new(),
            values: Vec::new(),
        }
    }

    /// Both `[position, kv head, head_dim]`.
    fn observe_columns(&mut self, keys: &Tensor<3>, values: &Tensor<3>) {
        if self.observe.kv {
            self.keys.push(keys.clone());
            self.values.push(values.clone());
        }
    }

    /// `[kv head, position · group, key]`, of which the rows of the last positions are kept.
    fn observe_weights(&mut self, weights: &Tensor<3>, group: usize) {
        let queries = self.observe.attention.count(self.positions.len());
        if queries > 0 {
            let [n_kv_heads, rows, keys] = weights.dims();
            let last = weights.clone().narrow(1, rows - queries * group, queries * group);
            let by_head = last.reshape([n_kv_heads, queries, group, keys]).swap_dims(1, 2);
            self.attention.push(by_head.reshape([n_kv_heads * group, queries, keys]));
        }
    }

    /// Attention `[layer, head, query, key]`; keys and values, each `[layer, position, kv head, head_dim]`.
    pub fn into_observed(self) -> (Option<Tensor<4>>, Option<(Tensor<4>, Tensor<4>)>) {
        let attention = (!self.attention.is_empty()).then(|| Tensor::stack(self.attention, 0));
        let kv = self.observe.kv.then(|| (Tensor::stack(self.keys, 0), Tensor::stack(self.values, 0)));
        (attention, kv)
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

/// `[1, position · group, key]`: 0 where the position sees the key, [`MASKED`] where the key comes later.
fn causal_mask(positions: &Range<usize>, group: usize, device: &Device) -> Tensor<3> {
    let keys = positions.end;
    let mut mask = Vec::with_capacity(positions.len() * group * keys);
    for position in positions.clone() {
        for _ in 0..group {
            mask.extend((0..keys).map(|key| if key <= position { 0.0 } else { MASKED }));
        }
    }
    Tensor::from_data(TensorData::new(mask, [1, positions.len() * group, keys]), device)
}
