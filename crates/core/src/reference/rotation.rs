//! The *rotation* marks a position in queries and keys: each pair of neighbouring components (2i, 2i + 1) is turned by
//! an angle that grows with the position, so that the product of a query and a key depends on their distance (Su et al.
//! 2021, "RoFormer: Enhanced Transformer with Rotary Position Embedding").
//!
//! It is written as that paper's equation 15, a matrix for each position that holds a 2 × 2 rotation for every pair: one
//! small matrix product is quicker on either kind of device than the handful of operations on pairs that equal it.

use std::ops::Range;

use burn::tensor::{Device, Tensor, TensorData};

use crate::model::ROTARY_BASE;

pub(super) struct Rotation {
    matrices: Tensor<3>, // [position, head_dim in, head_dim out]
}

impl Rotation {
    pub fn new(context: usize, head_dim: usize, device: &Device) -> Self {
        let mut matrices = vec![0.0; context * head_dim * head_dim];
        for (position, matrix) in matrices.chunks_exact_mut(head_dim * head_dim).enumerate() {
            for even in (0..head_dim).step_by(2) {
                let frequency = 1.0 / ROTARY_BASE.powf(even as f32 / head_dim as f32);
                let (sin, cos) = (position as f32 * frequency).sin_cos();
                let odd = even + 1;
                matrix[even * head_dim + even] = cos;
                matrix[even * head_dim + odd] = sin;
                matrix[odd * head_dim + even] = -sin;
                matrix[odd * head_dim + odd] = cos;
            }
        }
        Self { matrices: Tensor::from_data(TensorData::new(matrices, [context, head_dim, head_dim]), device) }
    }

    /// `[position, head_dim, head_dim]`
    pub fn at(&self, positions: &Range<usize>) -> Tensor<3> {
        self.matrices.clone().narrow(0, positions.start, positions.len())
    }
}
