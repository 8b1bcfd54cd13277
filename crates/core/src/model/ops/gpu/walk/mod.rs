//! A *walk* takes one position of one sequence through a whole model in a single dispatch: one workgroup goes from the embedding
//! through all layers to the logits, and what lies between stays in its memory. A model of a million weights is bound by
//! dispatches and not by arithmetic, on software and on hardware alike.

mod kernel;

use std::sync::Arc;

use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Backend, Cube, backend_extension};
use burn::cubecl::prelude::{CubeCount, CubeDim};

use super::{argument, empty, owned};

/// Threads of the workgroup.
const UNITS: usize = 64;

/// Numbers that workgroup memory holds on every device.
const MEMORY: usize = 4096;

/// A model's shape, and where its parts begin in the arena, in numbers. Layers lie one after the other at equal distances.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Walk {
    pub n_layers: usize,
    pub dim: usize,
    pub hidden: usize,
    pub n_heads: usize,
    pub n_kv_heads: usize,
    pub head_dim: usize,
    pub vocab: usize,

    pub embedding: usize, // [dim, vocab]
    pub final_norm: usize,
    pub output: usize, // [dim, vocab]

    // Of the first layer.
    pub attention_norm: usize,
    pub qkv: usize,
    pub attention_output: usize,
    pub feed_forward_norm: usize,
    pub gate_up: usize,
    pub down: usize,
    /// From a part of one layer to the same part of the next.
    pub layer_stride: usize,
}

impl Walk {
    /// Whether the vectors of one position fit into workgroup memory.
    pub fn fits(&self) -> bool {
        self.dim + self.input() + self.output_width() + UNITS + UNITS <= MEMORY
    }

    /// Numbers of the longest vector that the model's narrow products read.
    fn input(&self) -> usize {
        self.dim.max(self.n_heads * self.head_dim)
    }

    /// Components of queries, keys and values.
    fn qkv_width(&self) -> usize {
        (self.n_heads + 2 * self.n_kv_heads) * self.head_dim
    }

    /// Numbers of the longest vector within a layer.
    fn output_width(&self) -> usize {
        self.qkv_width().max(self.hidden)
    }
}

/// The operation, which only GPUs have.
#[backend_extension(Cube: cfg(feature = "wgpu"))]
pub trait WalkOps: Backend {
    /// One position through the model whose weights are in `arena`. `cache` and `rotation` are as in
    /// [`DecoderOps`](crate::model::ops::DecoderOps), and so is `table`, for one position, with the token's id behind it:
    /// `[5 + keys + 1]`.
    ///
    /// Gives the logits `[1, vocab]`, the cache buffer, and the attention weights `[layer, n_heads, keys]`.
    fn walk(
        arena: FloatTensor<Self>,
        cache: FloatTensor<Self>,
        rotation: FloatTensor<Self>,
        table: IntTensor<Self>,
        levels: Option<f32>,
        walk: Arc<Walk>,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>);
}

impl WalkOps for Cube {
    fn walk(
        arena: FloatTensor<Self>,
        cache: FloatTensor<Self>,
        rotation: FloatTensor<Self>,
        table: IntTensor<Self>,
        levels: Option<f32>,
        walk: Arc<Walk>,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        assert!(walk.fits(), "{walk:?} does not fit into workgroup memory");
        let cache = owned(cache);
        let keys = table.meta.shape()[0] - 6;
        let logits = empty(&arena, [1, walk.vocab]);
        let attention = empty(&arena, [walk.n_layers, walk.n_heads, keys]);
        let n_slots = cache.meta.shape()[3];
        // SAFETY: the kernel checks its places in vectors; that the walk is the arena's, and what the table says, is the
        // caller's promise.
        unsafe {
            kernel::walk_kernel::launch_unchecked(
                &logits.client.clone(),
                CubeCount::Static(1, 1, 1),
                CubeDim::new_1d(UNITS as u32),
                argument(arena),
                argument(cache.clone()),
                argument(rotation),
                argument(table),
                argument(logits.clone()),
                argument(attention.clone()),
                n_slots,
                keys,
                levels.unwrap_or(0.0),
                (*walk).clone(),
            );
        }
        (logits, cache, attention)
    }
}
