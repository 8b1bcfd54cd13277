//! The *paged* layout: columns lie in blocks of a pool that many sequences share, wherever a block was free; a sequence has a
//! *block table* that says where its own are (Kwon et al. 2023, "Efficient Memory Management for Large Language Model Serving
//! with PagedAttention"). Sequences that begin alike share blocks; who writes into a shared block first takes a copy of it.

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;

use burn::tensor::{Device, Int, Tensor, TensorData, s};
use inferscope_trace::ModelInfo;

use super::Layout;
use crate::ModelError;

/// A block's number in its pool.
pub type BlockId = usize;

/// Memory for a fixed number of blocks. A clone is another handle to the same pool.
#[derive(Clone)]
pub struct BlockPool(Rc<RefCell<Pool>>);

struct Pool {
    /// Of each layer, keys and values: `[kv head, block · block_size, head_dim]`.
    layers: Vec<(Tensor<3>, Tensor<3>)>,
    block_size: usize,
    context: usize,
    device: Device,
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
        let buffer = || Tensor::zeros([info.n_kv_heads, blocks * block_size, info.head_dim], device);
        Self(Rc::new(RefCell::new(Pool {
            layers: (0..info.n_layers).map(|_| (buffer(), buffer())).collect(),
            block_size,
            context: info.context,
            device: device.clone(),
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
        let slots = blocks * self.block_size;
        for (keys, values) in &mut self.layers {
            for buffer in [keys, values] {
                let [heads, _, head_dim] = buffer.dims();
                let more = Tensor::zeros([heads, slots, head_dim], &self.device);
                buffer.inplace(|buffer| Tensor::cat(vec![buffer, more], 1));
            }
        }
        let first = self.references.len();
        self.free.extend((first..first + blocks).rev());
        self.references.resize(first + blocks, 0);
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

    fn slots(&self, block: BlockId) -> Range<usize> {
        block * self.block_size..(block + 1) * self.block_size
    }

    fn copy(&mut self, from: BlockId, to: BlockId) {
        let (source, target) = (self.slots(from), self.slots(to));
        for (keys, values) in &mut self.layers {
            for buffer in [keys, values] {
                let block = buffer.clone().slice(s![.., source.start..source.end, ..]);
                buffer.inplace(|buffer| buffer.slice_assign(s![.., target.start..target.end, ..], block));
            }
        }
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
    /// The slots of positions, for a gather.
    fn gather(&self, layer: usize, positions: Range<usize>) -> (Tensor<3>, Tensor<3>) {
        let pool = self.pool.0.borrow();
        let slot = |position: usize| {
            (self.table[position / pool.block_size] * pool.block_size + position % pool.block_size) as i32
        };
        let slots: Vec<i32> = positions.map(slot).collect();
        let slots: Tensor<1, Int> = Tensor::from_data(TensorData::from(slots.as_slice()), &pool.device);
        let (keys, values) = &pool.layers[layer];
        (keys.clone().select(1, slots.clone()), values.clone().select(1, slots))
    }

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

    fn write(&mut self, layer: usize, positions: &Range<usize>, keys: Tensor<3>, values: Tensor<3>) {
        let mut pool = self.pool.0.borrow_mut();
        let size = pool.block_size;
        let mut start = positions.start;
        while start < positions.end {
            let end = (start / size * size + size).min(positions.end);
            let slot = self.table[start / size] * size + start % size;
            let (slots, rows) =
                (s![.., slot..slot + end - start, ..], s![.., start - positions.start..end - positions.start, ..]);
            let (own_keys, own_values) = &mut pool.layers[layer];
            own_keys.inplace(|buffer| buffer.slice_assign(slots, keys.clone().slice(rows)));
            own_values.inplace(|buffer| buffer.slice_assign(slots, values.clone().slice(rows)));
            start = end;
        }
    }

    fn read(&self, layer: usize, positions: &Range<usize>) -> (Tensor<3>, Tensor<3>) {
        self.gather(layer, 0..positions.end)
    }

    fn columns(&self, layer: usize, positions: Range<usize>) -> Option<(Tensor<3>, Tensor<3>)> {
        (positions.end <= self.len).then(|| self.gather(layer, positions))
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
