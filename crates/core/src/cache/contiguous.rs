//! The *contiguous* layout: a slot for each position, in their order, as many as the longest sequence may need, allocated once.

use std::ops::Range;

use burn::tensor::Device;
use inferscope_trace::ModelInfo;

use super::{Buffer, Layout, empty, next_in_context};
use crate::ModelError;
use crate::device::Held;

#[derive(Clone)]
pub struct Contiguous {
    buffer: Held<5>,
    len: usize,
    capacity: usize,
}

impl Contiguous {
    pub fn new(info: &ModelInfo, capacity: usize, device: &Device) -> Self {
        Self { buffer: Held::new(empty(info, capacity, device)), len: 0, capacity }
    }
}

impl Layout for Contiguous {
    fn len(&self) -> usize {
        self.len
    }

    fn next_positions(&mut self, count: usize) -> Result<Range<usize>, ModelError> {
        next_in_context(self.len, count, self.capacity)
    }

    fn slot(&self, position: usize) -> Option<usize> {
        (position < self.capacity).then_some(position)
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
        self.len = positions.end;
    }

    fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    fn fork(&self) -> Box<dyn Layout> {
        Box::new(self.clone())
    }
}
