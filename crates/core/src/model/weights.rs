//! *Weights* on a device lie in one buffer, the *arena*, part after part, as the device's fused operations read them. Each part
//! begins at a multiple of 256 bytes, so that a GPU can bind it by itself.

use std::ops::Range;

use burn::tensor::{Device, Tensor};
use inferscope_trace::ModelInfo;

use super::ops::Packing;
use crate::config::n_weights;
use crate::device::{self, floats};
use crate::{Checkpoint, LayerWeights};

/// Numbers that a part's place is a multiple of.
const ALIGNMENT: usize = 64;

/// The parts of a layer, or whatever there is one of for each.
#[derive(Clone, Debug)]
pub struct LayerParts<T> {
    pub attention_norm: T,    // [dim]
    pub qkv: T,               // [dim, (n_heads + 2 n_kv_heads) · head_dim]: queries, keys and values side by side
    pub attention_output: T,  // [n_heads · head_dim, dim]
    pub feed_forward_norm: T, // [dim]
    pub gate_up: T,           // [dim, 2 hidden_dim]: gate and up side by side
    pub down: T,              // [hidden_dim, dim]
}

/// The parts of a model, or whatever there is one of for each.
#[derive(Clone, Debug)]
pub struct Parts<T> {
    pub embedding: T, // [dim, vocab]: a token's vector is a column
    pub layers: Vec<LayerParts<T>>,
    pub final_norm: T, // [dim]
    pub output: T,     // [dim, vocab]
}

pub struct Arena {
    pub numbers: Tensor<1>,
    pub parts: Parts<Range<usize>>,
}

impl Arena {
    pub fn load(checkpoint: &Checkpoint, device: &Device) -> Self {
        let info = &checkpoint.shape;
        // Room for all of it and for what fills it up, so that nothing is copied on the way.
        let room = n_weights(info) as usize * 17 / 16 + ALIGNMENT * 16 * info.n_layers;
        let mut packer = Packer { numbers: Vec::with_capacity(room), packing: packing(device) };
        let embedding = packer.matrix(&[&checkpoint.embedding], info.dim);
        let output = checkpoint.output.as_ref();
        let parts = Parts {
            output: output.map_or_else(|| embedding.clone(), |output| packer.matrix(&[output], info.dim)),
            embedding,
            layers: checkpoint.layers.iter().map(|layer| packer.layer(layer, info)).collect(),
            final_norm: packer.vector(&checkpoint.final_norm),
        };
        let size = packer.numbers.len();
        Self { numbers: floats(packer.numbers, [size], device), parts }
    }

    /// The part at that place, in the arena's own memory.
    pub fn view(&self, place: &Range<usize>) -> Tensor<1> {
        device::view(&self.numbers, place)
    }

    pub fn layer(&self, index: usize) -> LayerParts<Tensor<1>> {
        let places = &self.parts.layers[index];
        LayerParts {
            attention_norm: self.view(&places.attention_norm),
            qkv: self.view(&places.qkv),
            attention_output: self.view(&places.attention_output),
            feed_forward_norm: self.view(&places.feed_forward_norm),
            gate_up: self.view(&places.gate_up),
            down: self.view(&places.down),
        }
    }
}

/// How matrices must lie for the device's fused operations.
pub fn packing(device: &Device) -> Packing {
    #[cfg(feature = "cpu")]
    if matches!(device.as_dispatch(), burn::backend::DispatchDevice::Flex(_)) {
        return Packing::Panels;
    }
    let _ = device;
    Packing::Rows
}

struct Packer {
    numbers: Vec<f32>,
    packing: Packing,
}

impl Packer {
    fn layer(&mut self, weights: &LayerWeights, info: &ModelInfo) -> LayerParts<Range<usize>> {
        LayerParts {
            attention_norm: self.vector(&weights.attention_norm),
            qkv: self.matrix(&[&weights.query, &weights.key, &weights.value], info.dim),
            attention_output: self.matrix(&[&weights.attention_output], info.n_heads * info.head_dim),
            feed_forward_norm: self.vector(&weights.feed_forward_norm),
            gate_up: self.matrix(&[&weights.gate, &weights.up], info.dim),
            down: self.matrix(&[&weights.down], info.hidden_dim),
        }
    }

    fn vector(&mut self, numbers: &[f32]) -> Range<usize> {
        let start = self.numbers.len();
        self.numbers.extend(numbers);
        self.close(start)
    }

    /// Matrices of a checkpoint, each `[out, in]`, as one of `[in, all outs]`.
    fn matrix(&mut self, matrices: &[&Vec<f32>], n_in: usize) -> Range<usize> {
        let start = self.numbers.len();
        let outputs: Vec<&[f32]> = matrices.iter().flat_map(|matrix| matrix.chunks_exact(n_in)).collect();
        let panel = match self.packing {
            #[cfg(feature = "cpu")]
            Packing::Panels => super::ops::PANEL,
            Packing::Rows => outputs.len(),
        };
        for outputs in outputs.chunks(panel) {
            let place = self.numbers.len();
            self.numbers.resize(place + n_in * panel, 0.0);
            place_side_by_side(outputs, panel, &mut self.numbers[place..]);
        }
        self.close(start)
    }

    /// The part from `start` on is complete; the next one begins at the next multiple.
    fn close(&mut self, start: usize) -> Range<usize> {
        let end = self.numbers.len().next_multiple_of(ALIGNMENT);
        self.numbers.resize(end, 0.0);
        start..end
    }
}

/// Vectors of weights as the columns of `[in, width]`; columns that are left over stay as they are. A function of its own, called
/// for each panel: a browser has a quick version of it after some panels, and none of a loop that it entered once.
#[inline(never)]
fn place_side_by_side(columns: &[&[f32]], width: usize, to: &mut [f32]) {
    for (index, column) in columns.iter().enumerate() {
        for (row, &weight) in to.chunks_exact_mut(width).zip(*column) {
            row[index] = weight;
        }
    }
}
