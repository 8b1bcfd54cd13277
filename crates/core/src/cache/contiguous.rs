//! The *contiguous* layout: one buffer a layer, as long as the longest sequence may become, allocated once.

use std::ops::Range;

use burn::tensor::{Device, Tensor, s};
use inferscope_trace::ModelInfo;

use super::{Layout, next_in_context};
use crate::ModelError;

#[derive(Clone)]
pub struct Contiguous {
    layers: Vec<Buffers>,
    len: usize,
    capacity: usize,
}

/// One layer's part.
#[derive(Clone)]
struct Buffers {
    keys: Tensor<3>,   // [kv head, capacity, head_dim]
    values: Tensor<3>, // [kv head, capacity, head_dim]
}

impl Contiguous {
    pub fn new(info: &ModelInfo, capacity: usize, device: &Device) -> Self {
        let buffer = || Tensor::zeros([info.n_kv_heads, capacity, info.head_dim], device);
        let layers = (0..info.n_layers).map(|_| Buffers { keys: buffer(), values: buffer() }).collect();
        Self { layers, len: 0, capacity }
    }
}

impl Layout for Contiguous {
    fn len(&self) -> usize {
        self.len
    }

    fn next_positions(&mut self, count: usize) -> Result<Range<usize>, ModelError> {
        next_in_context(self.len, count, self.capacity)
    }

    fn write(&mut self, layer: usize, positions: &Range<usize>, keys: Tensor<3>, values: Tensor<3>) {
        let columns = s![.., positions.start..positions.end, ..];
        let buffers = &mut self.layers[layer];
        buffers.keys.inplace(|buffer| buffer.slice_assign(columns, keys));
        buffers.values.inplace(|buffer| buffer.slice_assign(columns, values));
    }

    fn read(&self, layer: usize, positions: &Range<usize>) -> (Tensor<3>, Tensor<3>) {
        let columns = s![.., 0..positions.end, ..];
        let buffers = &self.layers[layer];
        (buffers.keys.clone().slice(columns), buffers.values.clone().slice(columns))
    }

    fn columns(&self, layer: usize, positions: Range<usize>) -> Option<(Tensor<3>, Tensor<3>)> {
        if positions.end > self.len {
            return None;
        }
        let columns = s![.., positions.start..positions.end, ..];
        let buffers = &self.layers[layer];
        Some((buffers.keys.clone().slice(columns), buffers.values.clone().slice(columns)))
    }

    fn commit(&mut self, positions: Range<usize>) {
        assert_eq!(positions.start, self.len, "positions are committed in order");
        self.len = positions.end;
    }

    fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    fn fork(&self) -> Box<dyn Layout> {
        Box::new(self.clone())
    }
}
