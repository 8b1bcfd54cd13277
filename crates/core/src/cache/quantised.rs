//! The *quantised* layout: every key and value vector is rounded to a few bits a number before it is stored, with one scale a
//! vector. What comes back is what those bits can say. The buffer itself stays f32: it shows the effect on the text and the
//! loss; its bytes are counted as those of the bits.

use std::ops::Range;

use burn::tensor::Tensor;

use super::{Layout, contiguous::Contiguous};
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

    /// `[kv head, position, head_dim]`, each vector on its own scale.
    fn round(&self, columns: Tensor<3>) -> Tensor<3> {
        // A vector of zeros has no scale of its own.
        let scale = columns.clone().abs().max_dim(2).clamp_min(1e-12) / self.largest;
        (columns / scale.clone()).round() * scale
    }
}

impl Layout for Quantised {
    fn len(&self) -> usize {
        self.rounded.len()
    }

    fn next_positions(&mut self, count: usize) -> Result<Range<usize>, ModelError> {
        self.rounded.next_positions(count)
    }

    fn write(&mut self, layer: usize, positions: &Range<usize>, keys: Tensor<3>, values: Tensor<3>) {
        let (keys, values) = (self.round(keys), self.round(values));
        self.rounded.write(layer, positions, keys, values);
    }

    fn read(&self, layer: usize, positions: &Range<usize>) -> (Tensor<3>, Tensor<3>) {
        self.rounded.read(layer, positions)
    }

    fn columns(&self, layer: usize, positions: Range<usize>) -> Option<(Tensor<3>, Tensor<3>)> {
        self.rounded.columns(layer, positions)
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
