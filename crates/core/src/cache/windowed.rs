//! The *windowed* layout: the first few positions (*sinks*) and the newest ones (the *window*) stay, and the slots of those
//! between are used again (Xiao et al. 2023, "Efficient Streaming Language Models with Attention Sinks"). Here a key keeps the
//! rotation of the position it was written at, so this goes no further than the context that the model was trained for.

use std::ops::Range;

use burn::tensor::Device;
use inferscope_trace::ModelInfo;

use super::{Buffer, Layout, Seen, empty, moved, next_in_context};
use crate::ModelError;
use crate::device::Held;

#[derive(Clone)]
pub struct Windowed {
    buffer: Held<5>,
    /// Positions that are kept, ascending, and their slots.
    kept: Vec<(usize, usize)>,
    /// Slots of the positions that there is room for but that are not held yet.
    next: Vec<usize>,
    free: Vec<usize>,
    len: usize,
    sinks: usize,
    window: usize,
    context: usize,
}

impl Windowed {
    /// # Panics
    /// The newest position must be able to see itself.
    pub fn new(info: &ModelInfo, sinks: usize, window: usize, device: &Device) -> Self {
        assert!(window > 0, "an empty window");
        // A step's own position comes before the oldest one leaves.
        let slots = (sinks + window + 1).min(info.context);
        Self {
            buffer: Held::new(empty(info, slots, device)),
            kept: Vec::new(),
            next: Vec::new(),
            free: (0..slots).rev().collect(),
            len: 0,
            sinks,
            window,
            context: info.context,
        }
    }

    /// Makes the buffer longer, for a pass over many positions at once.
    fn grow(&mut self, more: usize) {
        if more == 0 {
            return;
        }
        let slots = self.buffer.get().dims()[3];
        let all: Vec<(usize, usize)> = (0..slots).map(|slot| (slot, slot)).collect();
        let longer = moved(self.buffer.take(), &all, slots + more);
        self.buffer.put(longer);
        self.free.splice(0..0, (slots..slots + more).rev());
    }

    /// Frees the slots of all positions that a query at `len` does not see, and of those from `len` on.
    fn keep_seen_by(&mut self, len: usize) {
        let seen = self.seen_by(len);
        let goes = |position: usize| position >= len || !seen.has(position);
        self.free.extend(self.kept.extract_if(.., |kept| goes(kept.0)).map(|kept| kept.1));
    }
}

impl Layout for Windowed {
    fn len(&self) -> usize {
        self.len
    }

    fn next_positions(&mut self, count: usize) -> Result<Range<usize>, ModelError> {
        let positions = next_in_context(self.len, count, self.context)?;
        // A pass that failed has left its slots behind.
        self.free.append(&mut self.next);
        self.grow(count.saturating_sub(self.free.len()));
        self.next = self.free.split_off(self.free.len() - count);
        Ok(positions)
    }

    fn slot(&self, position: usize) -> Option<usize> {
        match position.checked_sub(self.len) {
            Some(index) => self.next.get(index).copied(),
            None => self.kept.binary_search_by_key(&position, |kept| kept.0).ok().map(|index| self.kept[index].1),
        }
    }

    fn readable(&self, positions: &Range<usize>) -> Vec<usize> {
        self.kept.iter().map(|kept| kept.0).chain(positions.clone()).collect()
    }

    fn seen_by(&self, query: usize) -> Seen {
        Seen { sinks: self.sinks, from: (query + 1).saturating_sub(self.window) }
    }

    fn buffer(&self) -> Buffer {
        self.buffer.get().clone()
    }

    fn take_buffer(&mut self) -> Buffer {
        self.buffer.take()
    }

    fn put_buffer(&mut self, buffer: Buffer) {
        self.buffer.put(buffer);
    }

    fn commit(&mut self, positions: Range<usize>) {
        assert_eq!(positions.start, self.len, "positions are committed in order");
        let next = std::mem::take(&mut self.next);
        self.kept.extend(positions.clone().zip(next));
        self.len = positions.end;
        // What the next position will not see, no later one will.
        self.keep_seen_by(self.len);
    }

    fn truncate(&mut self, len: usize) {
        if len >= self.len {
            return;
        }
        // The columns that the position at `len` would see must still be there.
        let seen = self.seen_by(len);
        let kept = self.kept.iter().map(|kept| kept.0);
        let intact = kept.filter(|&it| it < len && seen.has(it)).eq((0..len).filter(|&it| seen.has(it)));
        self.len = if intact { len } else { 0 };
        self.keep_seen_by(self.len);
    }

    fn fork(&self) -> Box<dyn Layout> {
        Box::new(self.clone())
    }
}
