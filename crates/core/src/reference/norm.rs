//! The *RMS norm* brings every position's vector to a root mean square of 1, then scales its components by learnt
//! weights (Zhang & Sennrich 2019, "Root Mean Square Layer Normalization").

use burn::tensor::{Device, Tensor};

use crate::model::NORM_EPSILON;

pub(super) struct RmsNorm {
    weight: Tensor<2>, // [1, dim]
}

impl RmsNorm {
    pub fn load(weight: &[f32], device: &Device) -> Self {
        Self { weight: Tensor::<1>::from_data(weight, device).unsqueeze() }
    }

    /// `[position, dim]` → the same.
    pub fn forward(&self, x: Tensor<2>) -> Tensor<2> {
        let mean_square = x.clone().square().mean_dim(1); // [position, 1]
        x / (mean_square + NORM_EPSILON).sqrt() * self.weight.clone()
    }
}
