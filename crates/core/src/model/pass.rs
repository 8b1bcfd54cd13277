//! A *pass* is one sequence's part of a run through all blocks: its new positions, what they may see, and what is observed of
//! them on the way. A *batch* is all passes that go through the blocks together.

use std::ops::Range;

use burn::backend::Dispatch;
use burn::tensor::{Int, Tensor};
use inferscope_trace::{ModelInfo, Observe};

use super::ops::{DecoderOps, Reach};
use crate::Cache;
use crate::cache::Layout;
use crate::device::{integers, room};

pub(super) struct Pass<'a> {
    pub cache: &'a mut Cache,
    pub positions: Range<usize>,
    /// The positions of the keys that are read; those of the pass are the last.
    pub keys_read: Vec<usize>,
    pub observe: Observe,
    /// What [`Table`](super::ops::Table) describes.
    pub numbers: Vec<i32>,
    /// Those numbers on the device, once a layer asks for them.
    table: Option<Tensor<1, Int>>,
    /// Layer after layer: `[head, query, key]`.
    pub attention: Vec<Tensor<3>>,
}

impl<'a> Pass<'a> {
    /// The positions are those that the cache gave for this pass.
    pub fn new(cache: &'a mut Cache, positions: Range<usize>, observe: Observe) -> Self {
        let keys_read = cache.layout().readable(&positions);
        let numbers = table(cache.layout(), &positions, &keys_read);
        Self { cache, positions, keys_read, observe, numbers, table: None, attention: Vec::new() }
    }

    pub fn observed(&self) -> usize {
        self.observe.attention.count(self.positions.len())
    }
}

/// What [`Table`](super::ops::Table) describes.
fn table(layout: &dyn Layout, positions: &Range<usize>, keys: &[usize]) -> Vec<i32> {
    let slot = |&position: &usize| layout.slot(position).expect("what is read or written has a slot") as i32;
    let all: Vec<usize> = positions.clone().collect();
    let before = |limit: usize| keys.partition_point(|&key| key < limit);
    let seen = |&query: &usize| {
        let (seen, end) = (layout.seen_by(query), before(query + 1));
        let sinks = before(seen.sinks).min(end);
        [sinks, before(seen.from).clamp(sinks, end), end]
    };
    let seen: Vec<[usize; 3]> = all.iter().map(seen).collect();
    let mut table: Vec<i32> = all.iter().map(|&position| position as i32).collect();
    table.extend(all.iter().map(slot));
    for column in 0..3 {
        table.extend(seen.iter().map(|seen| seen[column] as i32));
    }
    table.extend(keys.iter().map(slot));
    table
}

pub(super) struct Batch<'a> {
    pub passes: Vec<Pass<'a>>,
    info: &'a ModelInfo,
    rotation: &'a Tensor<2>, // [position, head_dim]
}

impl<'a> Batch<'a> {
    pub fn new(passes: Vec<Pass<'a>>, info: &'a ModelInfo, rotation: &'a Tensor<2>) -> Self {
        Self { passes, info, rotation }
    }

    /// Each sequence looks at its own past only. `qkv` is `[position, (n_heads + 2 n_kv_heads) · head_dim]`, of all passes one
    /// after the other; gives `[position, width]`.
    pub fn attend(&mut self, layer: usize, qkv: Tensor<2>, width: usize) -> Tensor<2> {
        let (rows, device) = (qkv.dims()[0], qkv.device());
        let mut mixed = room([rows, width], &device).into_dispatch();
        let mut first_row = 0;
        for pass in &mut self.passes {
            let reach = Reach {
                layer,
                n_heads: self.info.n_heads,
                n_kv_heads: self.info.n_kv_heads,
                head_dim: self.info.head_dim,
                first_row,
                positions: pass.positions.len(),
                keys: pass.keys_read.len(),
                observed: pass.observed(),
                levels: pass.cache.layout().levels(),
            };
            first_row += reach.positions;
            let (qkv, rotation) = (qkv.clone().into_dispatch(), self.rotation.clone().into_dispatch());
            let table =
                pass.table.get_or_insert_with(|| integers(pass.numbers.clone(), &device)).clone().into_dispatch();
            let layout = pass.cache.layout_mut();
            let buffer = layout.take_buffer().into_dispatch();
            let (filled, buffer, weights) = Dispatch::attend(qkv, mixed, buffer, rotation, table, reach);
            layout.put_buffer(Tensor::from_dispatch(buffer));
            mixed = filled;
            if reach.observed > 0 {
                pass.attention.push(Tensor::from_dispatch(weights));
            }
        }
        Tensor::from_dispatch(mixed)
    }
}
