//! A *pass* is one sequence's part of a run through all blocks: its new positions, what they may see, and what is observed of
//! them on the way. A *batch* is all passes that go through the blocks together.

use std::ops::Range;

use burn::tensor::{Device, Tensor, TensorData};
use inferscope_trace::{ModelInfo, Observe};

use super::rotation::Rotation;
use crate::Cache;

/// Added to a score that must not count. The softmax of it is exactly 0, and unlike −∞ every shading language has it.
const MASKED: f32 = -1e9;

pub(super) struct Pass<'a> {
    pub cache: &'a mut Cache,
    pub positions: Range<usize>,
    /// The positions of the keys that are read; those of the pass are the last.
    pub keys_read: Vec<usize>,
    pub mask: Option<Tensor<3>>, // [1, position · group, key]; None where everything that is read may be seen
    observe: Observe,
    attention: Vec<Tensor<3>>, // of each layer: [head, query, key]
    keys: Vec<Tensor<3>>,      // of each layer: [position, kv head, head_dim]
    values: Vec<Tensor<3>>,    // of each layer: [position, kv head, head_dim]
}

impl<'a> Pass<'a> {
    /// The positions are those that the cache gave for this pass.
    pub fn new(
        info: &ModelInfo,
        cache: &'a mut Cache,
        positions: Range<usize>,
        observe: Observe,
        device: &Device,
    ) -> Self {
        let layout = cache.layout();
        let keys_read = layout.readable(&positions);
        let seen = |query: usize, key: usize| key <= query && layout.sees(query, key);
        let hidden = positions.clone().any(|query| keys_read.iter().any(|&key| !seen(query, key)));
        let mask = hidden.then(|| mask(&positions, &keys_read, info.group_size(), seen, device));
        Self { cache, positions, keys_read, mask, observe, attention: Vec::new(), keys: Vec::new(), values: Vec::new() }
    }

    /// Both `[position, kv head, head_dim]`.
    pub fn observe_columns(&mut self, keys: &Tensor<3>, values: &Tensor<3>) {
        if self.observe.kv {
            self.keys.push(keys.clone());
            self.values.push(values.clone());
        }
    }

    /// `[kv head, position · group, key]`, of which the rows of the last positions are kept.
    pub fn observe_weights(&mut self, weights: &Tensor<3>, group: usize) {
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

/// `[1, position · group, key]`: 0 where the position sees the key, [`MASKED`] where it does not.
fn mask(
    positions: &Range<usize>,
    keys: &[usize],
    group: usize,
    seen: impl Fn(usize, usize) -> bool,
    device: &Device,
) -> Tensor<3> {
    let mut mask = Vec::with_capacity(positions.len() * group * keys.len());
    for position in positions.clone() {
        for _ in 0..group {
            mask.extend(keys.iter().map(|&key| if seen(position, key) { 0.0 } else { MASKED }));
        }
    }
    Tensor::from_data(TensorData::new(mask, [1, positions.len() * group, keys.len()]), device)
}

pub(super) struct Batch<'a> {
    pub passes: Vec<Pass<'a>>,
    pub rotation: Tensor<3>, // [position, head_dim, head_dim], of all passes one after the other
}

impl<'a> Batch<'a> {
    pub fn new(passes: Vec<Pass<'a>>, rotation: &Rotation) -> Self {
        let rotation = match &passes[..] {
            [only] => rotation.at(&only.positions),
            _ => Tensor::cat(passes.iter().map(|pass| rotation.at(&pass.positions)).collect(), 0),
        };
        Self { passes, rotation }
    }

    /// Cuts tensors of all positions, `[position, head, head_dim]`, into those of each pass, and joins what comes of them,
    /// `[position, n_heads · head_dim]`.
    pub fn for_each_sequence(
        &mut self,
        tensors: [Tensor<3>; 3],
        mut attend: impl FnMut(&mut Pass<'a>, [Tensor<3>; 3]) -> Tensor<2>,
    ) -> Tensor<2> {
        if let [only] = &mut self.passes[..] {
            return attend(only, tensors);
        }
        let mut start = 0;
        let parts = self.passes.iter_mut().map(|pass| {
            let n = pass.positions.len();
            let own = tensors.clone().map(|tensor| tensor.narrow(0, start, n));
            start += n;
            attend(pass, own)
        });
        Tensor::cat(parts.collect(), 0)
    }
}
