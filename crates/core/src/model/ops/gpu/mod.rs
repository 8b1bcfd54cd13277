//! The fused operations on a *GPU*, as CubeCL kernels: WGSL in a browser, and natively what the driver takes.
//!
//! Kernels keep to what every WebGPU device has: no subgroups, 16 KiB of workgroup memory, eight buffers. Lengths are arguments
//! and not part of a kernel, so that a short warm-up meets every pipeline there is: two of each product (for one row and for
//! many), two of attention, three that copy, and one [`walk`] for each shape of a model.

mod attention;
mod lookup;
mod matrix;
mod walk;

#[cfg(test)]
mod tests;

use burn::backend::Cube;
use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::cubecl::prelude::BufferArg;
use burn::tensor::Shape;

use super::{DecoderOps, Reach, Size};
use matrix::Product;

pub use attention::{MAX_HEAD_DIM, MAX_KEYS};
pub use walk::{Walk, WalkOps};

/// A tensor of either kind, as the backend holds it.
type Buffer = FloatTensor<Cube>;

impl DecoderOps for Cube {
    fn embed(embedding: FloatTensor<Self>, ids: IntTensor<Self>, size: Size) -> FloatTensor<Self> {
        lookup::embed(embedding, ids, size)
    }

    fn rows(x: FloatTensor<Self>, ids: IntTensor<Self>) -> FloatTensor<Self> {
        lookup::rows(x, ids)
    }

    fn norm_product(
        x: FloatTensor<Self>,
        norm: FloatTensor<Self>,
        matrix: FloatTensor<Self>,
        size: Size,
    ) -> FloatTensor<Self> {
        matrix::product(x, norm, matrix, size, Product::Normed)
    }

    fn product_add(
        residual: FloatTensor<Self>,
        x: FloatTensor<Self>,
        matrix: FloatTensor<Self>,
        size: Size,
    ) -> FloatTensor<Self> {
        matrix::product(x, residual, matrix, size, Product::Added)
    }

    fn norm_gate(
        x: FloatTensor<Self>,
        norm: FloatTensor<Self>,
        gate_up: FloatTensor<Self>,
        size: Size,
    ) -> FloatTensor<Self> {
        matrix::product(x, norm, gate_up, size, Product::Gated)
    }

    fn attend(
        qkv: FloatTensor<Self>,
        mixed: FloatTensor<Self>,
        cache: FloatTensor<Self>,
        rotation: FloatTensor<Self>,
        table: IntTensor<Self>,
        reach: Reach,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        attention::attend(qkv, mixed, cache, rotation, table, reach)
    }

    fn columns(cache: FloatTensor<Self>, slots: IntTensor<Self>) -> FloatTensor<Self> {
        lookup::columns(cache, slots)
    }

    fn moved(cache: FloatTensor<Self>, moves: IntTensor<Self>, slots: usize) -> FloatTensor<Self> {
        lookup::moved(cache, moves, slots)
    }
}

/// A tensor of no particular content, on the device of another and of its kind. Memory for one number is there even where the
/// shape has none, since nothing less can be bound.
fn empty(like: &Buffer, shape: impl Into<Shape>) -> Buffer {
    let shape = shape.into();
    let bytes = shape.num_elements().max(1) * like.dtype.size();
    Buffer::new_contiguous(like.client.clone(), like.device.clone(), shape, like.client.empty(bytes), like.dtype)
}

/// The same tensor where nobody else holds it, or else a copy.
fn owned(tensor: Buffer) -> Buffer {
    if tensor.can_mut() { tensor } else { tensor.copy() }
}

/// A tensor as a kernel takes it: number after number.
fn argument(tensor: Buffer) -> BufferArg {
    debug_assert!(tensor.is_contiguous(), "{tensor:?}");
    tensor.into_buffer_arg()
}
