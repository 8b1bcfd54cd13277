//! *Fused operations* are operations of our own on burn's tensors. Each does what a handful of burn's would do, without the
//! tensors in between: a block of the decoder is five of them. They are written once for each kind of device, in `cpu` and in
//! `gpu`, and know nothing of layouts, sequences or observation; the reference model computes the same with burn's operations.
//!
//! A matrix of `[in, out]` weights lies as its device reads it best, which [`Packing`] says.

#[cfg(feature = "cpu")]
mod cpu;
#[cfg(feature = "wgpu")]
mod gpu;
#[cfg(feature = "wgpu")]
pub use gpu::{MAX_HEAD_DIM, MAX_KEYS, Walk, WalkOps};

use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Backend, backend_extension};

/// How the weights of a matrix lie in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    /// `[in, out]`: neighbouring threads of a GPU read neighbouring outputs.
    Rows,
    /// `[out / 32, in, 32]`, the last panel filled up with zeros: a processor keeps 32 sums in its vector registers, and reads
    /// the weights in one go.
    #[cfg(feature = "cpu")]
    Panels,
}

/// Outputs of a panel.
#[cfg(feature = "cpu")]
pub const PANEL: usize = 32;

/// Components into a matrix, and out of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    pub n_in: usize,
    pub n_out: usize,
}

/// One sequence's part of one layer's attention.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reach {
    pub layer: usize,
    pub n_heads: usize,
    pub n_kv_heads: usize,
    pub head_dim: usize,
    /// The sequence's first row among those of all sequences, and how many it has: its new positions.
    pub first_row: usize,
    pub positions: usize,
    /// How many keys are read, those of the new positions at the end.
    pub keys: usize,
    /// Of how many of the last positions the attention weights are wanted.
    pub observed: usize,
    /// Keys and values are rounded before they are stored: to whole numbers up to this one, times a scale for each vector.
    pub levels: Option<f32>,
}

/// What a pass's table of numbers says about each new position, one row after the other, and then about the keys.
///
/// `[5 · positions + keys]` of i32: for each position its place in the text (which the rotation depends on), the slot that its
/// column goes to, and the keys it sees as indices into those that are read: `0..sinks` and `from..end`. Then the slot of each
/// key that is read. A GPU's kernels read the numbers where they lie.
#[cfg(any(feature = "cpu", test))]
pub struct Table<'a> {
    pub positions: &'a [i32],
    pub slots: &'a [i32],
    pub sinks: &'a [i32],
    pub from: &'a [i32],
    pub end: &'a [i32],
    pub keys: &'a [i32],
}

#[cfg(any(feature = "cpu", test))]
impl<'a> Table<'a> {
    pub fn new(numbers: &'a [i32], positions: usize) -> Self {
        let (rows, keys) = numbers.split_at(5 * positions);
        let row = |index: usize| &rows[index * positions..][..positions];
        Self { positions: row(0), slots: row(1), sinks: row(2), from: row(3), end: row(4), keys }
    }
}

/// The operations. A *cache buffer* is `[layer, 2, kv head, slot, head_dim]`, keys before values; it is written in place where
/// nobody else holds it, and else in a copy.
#[backend_extension(Flex: cfg(feature = "cpu"), Cube: cfg(feature = "wgpu"))]
pub trait DecoderOps: Backend {
    /// The columns of a `[dim, vocab]` matrix that `ids`, `[position]` of i32, name: `[position, dim]`.
    fn embed(embedding: FloatTensor<Self>, ids: IntTensor<Self>, size: Size) -> FloatTensor<Self>;

    /// The rows of `x`, `[row, dim]`, that `ids`, `[position]` of i32, name: `[position, dim]`.
    fn rows(x: FloatTensor<Self>, ids: IntTensor<Self>) -> FloatTensor<Self>;

    /// The RMS norm of each row of `x`, times a matrix: `[row, in]` → `[row, out]`.
    fn norm_product(
        x: FloatTensor<Self>,
        norm: FloatTensor<Self>,
        matrix: FloatTensor<Self>,
        size: Size,
    ) -> FloatTensor<Self>;

    /// `residual` and the product of `x` and a matrix: `[row, in]` → `[row, out]`.
    fn product_add(
        residual: FloatTensor<Self>,
        x: FloatTensor<Self>,
        matrix: FloatTensor<Self>,
        size: Size,
    ) -> FloatTensor<Self>;

    /// The gated first half of a SwiGLU: silu(norm(x) · gate) · (norm(x) · up). `gate_up` is both matrices side by side,
    /// `[dim, 2 hidden]`; `[row, dim]` → `[row, hidden]`.
    fn norm_gate(
        x: FloatTensor<Self>,
        norm: FloatTensor<Self>,
        gate_up: FloatTensor<Self>,
        size: Size,
    ) -> FloatTensor<Self>;

    /// Attention of one sequence. Of its rows in `qkv`, `[row, (n_heads + 2 n_kv_heads) · head_dim]`, it rotates queries and
    /// keys, writes keys and values into the cache buffer, and fills the same rows of `mixed`, `[row, n_heads · head_dim]`.
    /// `rotation` is `[position, head_dim]`, cosine and sine of each pair's angle; `table` is a [`Table`] of i32.
    ///
    /// Gives `mixed`, the cache buffer, and the weights `[n_heads, observed, keys]` (of no particular content where nothing is
    /// observed).
    fn attend(
        qkv: FloatTensor<Self>,
        mixed: FloatTensor<Self>,
        cache: FloatTensor<Self>,
        rotation: FloatTensor<Self>,
        table: IntTensor<Self>,
        reach: Reach,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>);

    /// The columns in slots, `[position]` of i32: `[layer, 2, position, kv head, head_dim]`.
    fn columns(cache: FloatTensor<Self>, slots: IntTensor<Self>) -> FloatTensor<Self>;

    /// A cache buffer with `slots` slots, which holds the old one's columns at other places: `moves` is `[2, columns]` of i32,
    /// the slots from which and to which. Other slots mean nothing.
    fn moved(cache: FloatTensor<Self>, moves: IntTensor<Self>, slots: usize) -> FloatTensor<Self>;
}
