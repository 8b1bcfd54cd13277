//! A *cache* holds the keys and values of the positions that a sequence has run so far, for every layer, in buffers as
//! long as the context that are allocated once.
//!
//! It owns positions: it says where the next ones go, and nobody infers that from the length of anything else. A pass
//! asks for positions, writes each layer's columns, and commits them when all is well; until then the cache's length is
//! what it was, and whatever lies beyond it means nothing.

use std::ops::Range;

use burn::tensor::{Device, Tensor, s};
use inferscope_trace::ModelInfo;

use crate::{ModelError, SequenceCache};

/// Keys and values of one sequence. Cloning copies no buffer until one of the clones writes.
#[derive(Clone)]
pub struct Cache {
    layers: Vec<LayerCache>,
    len: usize,
    context: usize,
}

/// One layer's part. Keys are stored rotated.
#[derive(Clone)]
pub(crate) struct LayerCache {
    keys: Tensor<3>,   // [kv head, context, head_dim]
    values: Tensor<3>, // [kv head, context, head_dim]
}

impl Cache {
    pub(crate) fn new(info: &ModelInfo, device: &Device) -> Self {
        let buffer = || Tensor::zeros([info.n_kv_heads, info.context, info.head_dim], device);
        let layers = (0..info.n_layers).map(|_| LayerCache { keys: buffer(), values: buffer() }).collect();
        Self { layers, len: 0, context: info.context }
    }

    /// The next `count` positions, which are not held until they are committed.
    pub(crate) fn next_positions(&self, count: usize) -> Result<Range<usize>, ModelError> {
        let needed = self.len + count;
        if needed > self.context {
            return Err(ModelError::ContextFull { context: self.context, needed });
        }
        Ok(self.len..needed)
    }

    /// Holds positions whose columns every layer has written.
    pub(crate) fn commit(&mut self, positions: Range<usize>) {
        assert_eq!(positions.start, self.len, "positions are committed in order");
        self.len = positions.end;
    }

    pub(crate) fn layers(&self) -> &[LayerCache] {
        &self.layers
    }

    pub(crate) fn layers_mut(&mut self) -> &mut [LayerCache] {
        &mut self.layers
    }
}

impl SequenceCache for Cache {
    fn len(&self) -> usize {
        self.len
    }

    fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }
}

impl LayerCache {
    /// Writes the columns of `positions`. Both tensors are `[position, kv head, head_dim]`.
    pub(crate) fn write(&mut self, positions: &Range<usize>, keys: Tensor<3>, values: Tensor<3>) {
        let columns = s![.., positions.start..positions.end, ..];
        self.keys.inplace(|buffer| buffer.slice_assign(columns, keys.swap_dims(0, 1)));
        self.values.inplace(|buffer| buffer.slice_assign(columns, values.swap_dims(0, 1)));
    }

    /// Keys and values of `positions`, each `[kv head, position, head_dim]`.
    pub(crate) fn read(&self, positions: Range<usize>) -> (Tensor<3>, Tensor<3>) {
        let columns = s![.., positions.start..positions.end, ..];
        (self.keys.clone().slice(columns), self.values.clone().slice(columns))
    }
}
