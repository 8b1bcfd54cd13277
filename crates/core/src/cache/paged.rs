//! The *paged* layout: columns lie in blocks of a pool that many sequences share, wherever a block was free; a sequence has a
//! *block table* that says where its own are (Kwon et al. 2023, "Efficient Memory Management for Large Language Model Serving
//! with PagedAttention"). Sequences that begin alike share blocks; who writes into a shared block first takes a copy of it.

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;

use burn::tensor::Device;
use inferscope_trace::ModelInfo;

use super::{Buffer, Layout, empty, moved};
use crate::ModelError;
use crate::device::Held;

/// A block's number in its pool.
pub type BlockId = usize;

/// Memory for a fixed number of blocks. A clone is another handle to the same pool.
#[derive(Clone)]
pub struct BlockPool(Rc<RefCell<Pool>>);

struct Pool {
    /// Block after block, `block_size` slots each.
    buffer: Held<5>,
    block_size: usize,
    context: usize,
    /// The block to be given out next is the last.
    free: Vec<BlockId>,
    /// How many block tables name each block.
    references: Vec<usize>,
    copies: usize,
    /// More memory is taken when no block is free.
    grows: bool,
}

impl BlockPool {
    /// # Panics
    /// A block holds at least one position.
    pub fn new(info: &ModelInfo, blocks: usize, block_size: usize, device: &Device) -> Self {
        assert!(block_size > 0, "an empty block");
        Self(Rc::new(RefCell::new(Pool {
            buffer: Held::new(empty(info, blocks * block_size, device)),
            block_size,
            context: info.context,
            free: (0..blocks).rev().collect(),
            references: vec![0; blocks],
            copies: 0,
            grows: false,
        })))
    }

    /// As many blocks as one sequence can need, and more when it is forked.
    pub(super) fn for_one(info: &ModelInfo, block_size: usize, device: &Device) -> Self {
        let pool = Self::new(info, info.context.div_ceil(block_size.max(1)), block_size, device);
        pool.0.borrow_mut().grows = true;
        pool
    }

    /// An empty sequence in this pool.
    pub(crate) fn sequence(&self) -> Paged {
        Paged { pool: self.clone(), table: Vec::new(), len: 0 }
    }

    /// A sequence that begins with the first `len` positions of another, in the same blocks.
    pub(crate) fn sharing(&self, table: &[BlockId], len: usize) -> Paged {
        let mut pool = self.0.borrow_mut();
        let table = table[..len.div_ceil(pool.block_size)].to_vec();
        table.iter().for_each(|&block| pool.references[block] += 1);
        Paged { pool: self.clone(), table, len }
    }

    pub fn block_size(&self) -> usize {
        self.0.borrow().block_size
    }

    pub fn free_blocks(&self) -> usize {
        self.0.borrow().free.len()
    }

    /// How many block tables name each block.
    pub fn references(&self) -> Vec<usize> {
        self.0.borrow().references.clone()
    }

    /// How many blocks were copied because somebody wrote into a shared one.
    pub fn copies(&self) -> usize {
        self.0.borrow().copies
    }
}

impl Pool {
    /// Takes memory for so many blocks more.
    fn grow(&mut self, blocks: usize) {
        let first = self.references.len();
        self.free.extend((first..first + blocks).rev());
        self.references.resize(first + blocks, 0);
        let all: Vec<(usize, usize)> = (0..first * self.block_size).map(|slot| (slot, slot)).collect();
        let slots = self.references.len() * self.block_size;
        let changed = moved(self.buffer.take(), &all, slots);
        self.buffer.put(changed);
    }

    fn take(&mut self) -> Option<BlockId> {
        let block = self.free.pop()?;
        self.references[block] = 1;
        Some(block)
    }

    fn release(&mut self, block: BlockId) {
        self.references[block] -= 1;
        if self.references[block] == 0 {
            self.free.push(block);
        }
    }

    fn copy(&mut self, from: BlockId, to: BlockId) {
        let size = self.block_size;
        let slots = self.references.len() * size;
        let source = |slot: usize| if slot / size == to { from * size + slot % size } else { slot };
        let all: Vec<(usize, usize)> = (0..slots).map(|slot| (source(slot), slot)).collect();
        let changed = moved(self.buffer.take(), &all, slots);
        self.buffer.put(changed);
        self.copies += 1;
    }
}

/// One sequence's blocks. They go back to the pool with it.
pub(crate) struct Paged {
    pool: BlockPool,
    table: Vec<BlockId>,
    len: usize,
}

impl Paged {
    fn keep_blocks(&mut self, count: usize) {
        let mut pool = self.pool.0.borrow_mut();
        for block in self.table.drain(count.min(self.table.len())..) {
            pool.release(block);
        }
    }
}

impl Layout for Paged {
    fn len(&self) -> usize {
        self.len
    }

    fn next_positions(&mut self, count: usize) -> Result<Range<usize>, ModelError> {
        let mut pool = self.pool.0.borrow_mut();
        let positions = super::next_in_context(self.len, count, pool.context)?;
        let size = pool.block_size;
        // A block that others have too must not be written into.
        let shared = Some(self.len / size)
            .filter(|_| !self.len.is_multiple_of(size))
            .filter(|&index| pool.references[self.table[index]] > 1);
        let more = positions.end.div_ceil(size).saturating_sub(self.table.len());
        let needed = more + usize::from(shared.is_some());
        if needed > pool.free.len() && pool.grows {
            let as_many_again = pool.references.len().max(needed);
            pool.grow(as_many_again);
        }
        if needed > pool.free.len() {
            return Err(ModelError::OutOfBlocks { needed, free: pool.free.len() });
        }
        if let Some(index) = shared {
            let own = pool.take().expect("it was counted");
            let old = std::mem::replace(&mut self.table[index], own);
            pool.copy(old, own);
            pool.release(old);
        }
        for _ in 0..more {
            self.table.push(pool.take().expect("they were counted"));
        }
        Ok(positions)
    }

    fn slot(&self, position: usize) -> Option<usize> {
        let size = self.pool.block_size();
        self.table.get(position / size).map(|block| block * size + position % size)
    }

    fn buffer(&self) -> Buffer {
        self.pool.0.borrow().buffer.get().clone()
    }

    fn take_buffer(&mut self) -> Buffer {
        self.pool.0.borrow_mut().buffer.take()
    }

    fn put_buffer(&mut self, buffer: Buffer) {
        self.pool.0.borrow_mut().buffer.put(buffer);
    }

    fn commit(&mut self, positions: Range<usize>) {
        assert_eq!(positions.start, self.len, "positions are committed in order");
        self.len = positions.end;
    }

    fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
        let blocks = self.len.div_ceil(self.pool.block_size());
        self.keep_blocks(blocks);
    }

    fn blocks(&self) -> &[BlockId] {
        &self.table
    }

    fn fork(&self) -> Box<dyn Layout> {
        Box::new(self.pool.sharing(&self.table, self.len))
    }
}

impl Drop for Paged {
    fn drop(&mut self) {
        self.keep_blocks(0);
    }
}
