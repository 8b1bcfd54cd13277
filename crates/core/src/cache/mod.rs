//! A *cache* holds the keys and values of the positions that a sequence has run, for every layer. They lie in a *buffer* of
//! *slots*, each of which has room for one position's column; which position lies in which slot is the cache's *layout*: a file
//! here and a line in [`Cache::new`] add one, and the tests that a cached run equals an uncached one run over all.
//!
//! It owns positions: it says where the next ones go, and nobody infers that from the length of anything else. A pass
//! asks for positions, writes each layer's columns, and commits them when all is well; until then the cache's length is
//! what it was, and whatever lies beyond it means nothing.

mod contiguous;
mod paged;
mod quantised;
mod windowed;

use std::ops::Range;

use burn::backend::Dispatch;
use burn::tensor::{Device, Tensor};
use inferscope_trace::{CacheLayout, ModelInfo};

use crate::device::{floats, integers};
use crate::model::ops::DecoderOps;
use crate::{ModelError, SequenceCache};

pub use paged::BlockPool;

/// `[layer, 2, kv head, slot, head_dim]`: keys, rotated, before values.
pub(crate) type Buffer = Tensor<5>;

/// Which keys a query sees, of those up to its own position: positions below `sinks`, and those from `from` on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    pub sinks: usize,
    pub from: usize,
}

impl Seen {
    /// Whether it sees a position up to its own.
    pub fn has(self, position: usize) -> bool {
        position < self.sinks || position >= self.from
    }
}

/// What a layout must be able to do.
pub(crate) trait Layout {
    /// Positions held or forgotten by design: where the next one goes.
    fn len(&self) -> usize;

    /// Makes room for the next `count` positions, which are not held until they are committed.
    fn next_positions(&mut self, count: usize) -> Result<Range<usize>, ModelError>;

    /// Where the column of a position lies that is held or that there is room for.
    fn slot(&self, position: usize) -> Option<usize>;

    /// The positions whose columns a pass over `positions` reads, ascending, with those of the pass itself at the end.
    fn readable(&self, positions: &Range<usize>) -> Vec<usize> {
        (0..positions.end).collect()
    }

    /// What a query at that position looks at.
    fn seen_by(&self, _query: usize) -> Seen {
        Seen::default()
    }

    /// Numbers are rounded to whole ones up to this before they are stored, times a scale for each vector.
    fn levels(&self) -> Option<f32> {
        None
    }

    fn buffer(&self) -> Buffer;

    /// Hands the buffer over to be written to, which happens in place where no other cache shares it. It must be put back.
    fn take_buffer(&mut self) -> Buffer;

    fn put_buffer(&mut self, buffer: Buffer);

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
            CacheLayout::Window { sinks, window } => Box::new(windowed::Windowed::new(info, sinks, window, device)),
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

/// A buffer with nothing in it yet.
fn empty(info: &ModelInfo, slots: usize, device: &Device) -> Buffer {
    let shape = [info.n_layers, 2, info.n_kv_heads, slots, info.head_dim];
    floats(vec![0.0; shape.iter().product()], shape, device)
}

/// A buffer of `slots` slots with columns of the old one: those of the slots in `moves`' first places, in their second.
fn moved(buffer: Buffer, moves: &[(usize, usize)], slots: usize) -> Buffer {
    let device = buffer.device();
    let places = |which: fn(&(usize, usize)) -> usize| moves.iter().map(move |it| which(it) as i32);
    let moves = integers(places(|it| it.0).chain(places(|it| it.1)).collect(), &device);
    Tensor::from_dispatch(Dispatch::moved(buffer.into_dispatch(), moves.into_dispatch(), slots))
}

/// The next `count` positions after `len`, if the context has them.
fn next_in_context(len: usize, count: usize, context: usize) -> Result<Range<usize>, ModelError> {
    let needed = len + count;
    if needed > context {
        return Err(ModelError::ContextFull { context, needed });
    }
    Ok(len..needed)
}
