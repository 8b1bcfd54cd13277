//! A *cache* holds the keys and values of the positions that a sequence has run, for every layer. How they lie in memory is
//! its *layout*: a file here and a line in [`Cache::new`] add one, and the tests that a cached run equals an uncached one run
//! over all.
//!
//! It owns positions: it says where the next ones go, and nobody infers that from the length of anything else. A pass
//! asks for positions, writes each layer's columns, and commits them when all is well; until then the cache's length is
//! what it was, and whatever lies beyond it means nothing.

mod contiguous;
mod paged;
mod quantised;
mod windowed;

use std::ops::Range;

use burn::tensor::{Device, Tensor};
use inferscope_trace::{CacheLayout, ModelInfo};

use crate::{ModelError, SequenceCache};

pub use paged::BlockPool;

/// What a layout must be able to do. Tensors of columns are `[kv head, position, head_dim]`, keys rotated.
pub(crate) trait Layout {
    /// Positions held or forgotten by design: where the next one goes.
    fn len(&self) -> usize;

    /// Makes room for the next `count` positions, which are not held until they are committed.
    fn next_positions(&mut self, count: usize) -> Result<Range<usize>, ModelError>;

    fn write(&mut self, layer: usize, positions: &Range<usize>, keys: Tensor<3>, values: Tensor<3>);

    /// The positions whose columns a pass over `positions` reads, ascending, with those of the pass itself at the end.
    fn readable(&self, positions: &Range<usize>) -> Vec<usize> {
        (0..positions.end).collect()
    }

    /// Whether `query` may look at `key`, an earlier position or its own.
    fn sees(&self, _query: usize, _key: usize) -> bool {
        true
    }

    /// The columns of [`readable`](Self::readable), in that order.
    fn read(&self, layer: usize, positions: &Range<usize>) -> (Tensor<3>, Tensor<3>);

    /// The columns of `positions`, or None if one of them is not held.
    fn columns(&self, layer: usize, positions: Range<usize>) -> Option<(Tensor<3>, Tensor<3>)>;

    /// Holds positions whose columns every layer has written.
    fn commit(&mut self, positions: Range<usize>);

    /// Forgets every position from `len` on; a layout that has dropped columns which would be needed then forgets all.
    fn truncate(&mut self, len: usize);

    /// The blocks of a pool that it lies in, in the order of its positions; empty where there are none.
    fn blocks(&self) -> &[usize] {
        &[]
    }

    /// A second, independent cache with the same content.
    fn fork(&self) -> Box<dyn Layout>;
}

/// Keys and values of one sequence. Cloning copies no buffer until one of the clones writes.
pub struct Cache(Box<dyn Layout>);

impl Cache {
    /// An empty cache of that layout.
    pub(crate) fn new(layout: &CacheLayout, info: &ModelInfo, device: &Device) -> Self {
        Self(match *layout {
            CacheLayout::Contiguous => Box::new(contiguous::Contiguous::new(info, info.context, device)),
            CacheLayout::Paged { block } => Box::new(BlockPool::for_one(info, block, device).sequence()),
            CacheLayout::Window { sinks, window } => Box::new(windowed::Windowed::new(info, sinks, window)),
            CacheLayout::Quantised { bits } => {
                Box::new(quantised::Quantised::new(contiguous::Contiguous::new(info, info.context, device), bits))
            }
        })
    }

    /// An empty cache with room for `capacity` positions side by side.
    pub(crate) fn reserved(info: &ModelInfo, capacity: usize, device: &Device) -> Self {
        Self(Box::new(contiguous::Contiguous::new(info, capacity.min(info.context), device)))
    }

    pub(crate) fn layout(&self) -> &dyn Layout {
        self.0.as_ref()
    }

    pub(crate) fn layout_mut(&mut self) -> &mut dyn Layout {
        self.0.as_mut()
    }
}

impl<L: Layout + 'static> From<L> for Cache {
    fn from(layout: L) -> Self {
        Self(Box::new(layout))
    }
}

impl Clone for Cache {
    fn clone(&self) -> Self {
        Self(self.0.fork())
    }
}

impl SequenceCache for Cache {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn truncate(&mut self, len: usize) {
        self.0.truncate(len);
    }
}

/// The next `count` positions after `len`, if the context has them.
fn next_in_context(len: usize, count: usize, context: usize) -> Result<Range<usize>, ModelError> {
    let needed = len + count;
    if needed > context {
        return Err(ModelError::ContextFull { context, needed });
    }
    Ok(len..needed)
}
