//! The *quantised* layout: every key and value vector is rounded to a few bits a number before it is stored, with one scale a
//! vector. What comes back is what those bits can say. The buffer itself stays f32: it shows the effect on the text and the
//! loss; its bytes are counted as those of the bits.

use std::ops::Range;

use super::{Buffer, Layout, contiguous::Contiguous};
use crate::ModelError;

#[derive(Clone)]
pub struct Quantised {
    rounded: Contiguous,
    /// The largest whole number either way: 127 for 8 bits, 7 for 4.
    largest: f32,
}

impl Quantised {
    /// # Panics
    /// With fewer than 2 bits there is nothing to round to.
    pub fn new(buffer: Contiguous, bits: u32) -> Self {
        assert!((2..=16).contains(&bits), "{bits} bits");
        Self { rounded: buffer, largest: ((1 << (bits - 1)) - 1) as f32 }
    }
}

impl Layout for Quantised {
    fn len(&self) -> usize {
        self.rounded.len()
    }

    fn next_positions(&mut self, count: usize) -> Result<Range<usize>, ModelError> {
        self.rounded.next_positions(count)
    }

    fn slot(&self, position: usize) -> Option<usize> {
        self.rounded.slot(position)
    }

    fn levels(&self) -> Option<f32> {
        Some(self.largest)
    }

    fn buffer(&self) -> Buffer {
        self.rounded.buffer()
    }

    fn take_buffer(&mut self) -> Buffer {
        self.rounded.take_buffer()
    }

    fn put_buffer(&mut self, buffer: Buffer) {
        self.rounded.put_buffer(buffer);
    }

    fn commit(&mut self, positions: Range<usize>) {
        self.rounded.commit(positions);
    }

    fn truncate(&mut self, len: usize) {
        self.rounded.truncate(len);
    }

    fn fork(&self) -> Box<dyn Layout> {
        Box::new(self.clone())
    }
}
