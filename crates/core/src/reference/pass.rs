//! A *pass* is a sequence's run through all blocks: its new positions, what they may see, and what is observed on the way.

use std::ops::Range;

use burn::tensor::{Device, Tensor, TensorData, s};
use inferscope_trace::{ModelInfo, Observe};

use crate::Cache;
use crate::cache::Buffer;
use crate::device::integers;

/// Added to a score that must not count. The softmax of it is exactly 0, and unlike −∞ every shading language has it.
const MASKED: f32 = -1e9;

pub(super) struct Pass<'a> {
    pub cache: &'a mut Cache,
    /// The positions of the keys that are read; those of the pass are the last.
    pub keys_read: Vec<usize>,
    pub mask: Option<Tensor<3>>, // [1, position · group, key]; None where everything that is read may be seen
    pub rotation: Tensor<3>,     // [position, head_dim, head_dim]
    /// Of each layer: `[head, query, key]`.
    pub attention: Vec<Tensor<3>>,
    positions: Range<usize>,
    observe: Observe,
}

impl<'a> Pass<'a> {
    /// The positions are those that the cache gave for this pass; the rotation is theirs.
    pub fn new(
        info: &ModelInfo,
        cache: &'a mut Cache,
        positions: Range<usize>,
        rotation: Tensor<3>,
        observe: Observe,
    ) -> Self {
        let layout = cache.layout();
        let keys_read = layout.readable(&positions);
        let seen = |query: usize, key: usize| key <= query && layout.seen_by(query).has(key);
        let hidden = positions.clone().any(|query| keys_read.iter().any(|&key| !seen(query, key)));
        let mask = hidden.then(|| mask(&positions, &keys_read, info.group_size(), seen, &rotation.device()));
        Self { cache, keys_read, mask, rotation, attention: Vec::new(), positions, observe }
    }

    /// Writes one layer's new columns and reads all that the pass sees, each `[kv head, position, head_dim]`.
    pub fn through_cache(&mut self, layer: usize, keys: Tensor<3>, values: Tensor<3>) -> (Tensor<3>, Tensor<3>) {
        let layout = self.cache.layout_mut();
        let levels = layout.levels();
        let [keys, values] = [keys, values].map(|columns| match levels {
            Some(levels) => round(columns, levels),
            None => columns,
        });
        let slot = |position: &usize| layout.slot(*position).expect("what is read or written has a slot");
        let own: Vec<usize> = self.positions.clone().map(|position| slot(&position)).collect();
        let read: Vec<usize> = self.keys_read.iter().map(slot).collect();
        let mut buffer = layout.take_buffer();
        for (from, slots) in runs(&own) {
            for (kind, columns) in [(0, &keys), (1, &values)] {
                let columns = columns.clone().slice(s![.., from..from + slots.len(), ..]);
                let columns = columns.unsqueeze_dims::<5>(&[0, 1]);
                buffer = buffer.slice_assign(s![layer, kind, .., slots.clone(), ..], columns);
            }
        }
        layout.put_buffer(buffer);
        let all = layout.buffer();
        (columns(&all, layer, 0, &read), columns(&all, layer, 1, &read))
    }

    pub fn observed(&self) -> usize {
        self.observe.attention.count(self.positions.len())
    }

    /// `[kv head, position · group, key]`, of which the rows of the last positions are kept.
    pub fn observe_weights(&mut self, weights: &Tensor<3>, group: usize) {
        let queries = self.observed();
        if queries > 0 {
            let [n_kv_heads, rows, keys] = weights.dims();
            let last = weights.clone().narrow(1, rows - queries * group, queries * group);
            let by_head = last.reshape([n_kv_heads, queries, group, keys]).swap_dims(1, 2);
            self.attention.push(by_head.reshape([n_kv_heads * group, queries, keys]));
        }
    }
}

/// `[kv head, slot, head_dim]` of one layer's keys (0) or values (1).
fn columns(buffer: &Buffer, layer: usize, kind: usize, slots: &[usize]) -> Tensor<3> {
    let of_layer = buffer.clone().slice(s![layer, kind, .., .., ..]).squeeze_dims(&[0, 1]);
    match &runs(slots)[..] {
        [(_, all)] => of_layer.slice(s![.., all.clone(), ..]),
        _ => {
            let device = of_layer.device();
            of_layer.select(1, integers(slots.iter().map(|&slot| slot as i32).collect(), &device))
        }
    }
}

/// Neighbouring slots as ranges, each with where it begins in the list.
fn runs(slots: &[usize]) -> Vec<(usize, Range<usize>)> {
    let mut runs: Vec<(usize, Range<usize>)> = Vec::new();
    for (index, &slot) in slots.iter().enumerate() {
        match runs.last_mut() {
            Some((_, run)) if run.end == slot => run.end += 1,
            _ => runs.push((index, slot..slot + 1)),
        }
    }
    runs
}

/// `[kv head, position, head_dim]`, each vector on its own scale.
fn round(columns: Tensor<3>, levels: f32) -> Tensor<3> {
    // A vector of zeros has no scale of its own.
    let scale = columns.clone().abs().max_dim(2).clamp_min(1e-12) / levels;
    (columns / scale.clone()).round() * scale
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
