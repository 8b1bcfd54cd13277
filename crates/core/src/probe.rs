//! A *probe* is work of a known amount, to measure what a device gives to an engine: products of matrices as the model makes
//! them, once bound by arithmetic and once by memory.

use burn::backend::Dispatch;
use burn::tensor::{Device, Tensor};

use crate::ModelError;
use crate::device::{ReadBack, floats, room};
use crate::model::ops::{DecoderOps, Size};

/// Side of the square matrices that are multiplied, in f32.
const SIDE: usize = 384;
/// Of the matrix that one row is multiplied with: 32 MiB, more than a processor's caches hold.
const WEIGHTS: Size = Size { n_in: 1024, n_out: 8192 };

/// One of two products, ready to be made any number of times.
pub struct Probe {
    x: Tensor<2>,      // [row, in]
    matrix: Tensor<1>, // [in, out]
    size: Size,
    rows: usize,
    device: Device,
}

impl Probe {
    /// A product of two matrices of 384 × 384 numbers.
    pub fn of_arithmetic(device: &Device) -> Self {
        Self::new(SIDE, Size { n_in: SIDE, n_out: SIDE }, device)
    }

    /// A product of one row with 32 MiB of weights, each of which is read once.
    pub fn of_memory(device: &Device) -> Self {
        Self::new(1, WEIGHTS, device)
    }

    fn new(rows: usize, size: Size, device: &Device) -> Self {
        let weights = size.n_in * size.n_out;
        Self {
            x: floats(vec![0.05; rows * size.n_in], [rows, size.n_in], device),
            matrix: floats(vec![0.05; weights], [weights], device),
            size,
            rows,
            device: device.clone(),
        }
    }

    /// FLOP of one product, two for each multiplication.
    pub fn flops(&self) -> f64 {
        2.0 * (self.rows * self.size.n_in * self.size.n_out) as f64
    }

    /// Bytes of the matrix.
    pub fn bytes(&self) -> f64 {
        4.0 * (self.size.n_in * self.size.n_out) as f64
    }

    /// Makes the product once and waits for it.
    ///
    /// # Errors
    /// When the device fails.
    pub async fn run(&self) -> Result<(), ModelError> {
        let residual = room([self.rows, self.size.n_out], &self.device).into_dispatch();
        let (x, matrix) = (self.x.clone().into_dispatch(), self.matrix.clone().into_dispatch());
        let y: Tensor<2> = Tensor::from_dispatch(Dispatch::product_add(residual, x, matrix, self.size));
        ReadBack::default().with(y).read().await.map(drop)
    }
}
