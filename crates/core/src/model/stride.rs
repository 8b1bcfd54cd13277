//! A *stride* is a decode step in one operation: on a GPU, one position of one sequence walks through all layers at once, where
//! the model's shape allows it. Everything else goes through the blocks.

use std::sync::Arc;

use burn::backend::Dispatch;
use burn::tensor::Tensor;
use inferscope_trace::{ModelInfo, TokenId};

use super::ops::{Packing, Walk, WalkOps};
use super::pass::Pass;
use super::weights::{Arena, packing};
use crate::device::integers;

pub(super) struct Stride {
    arena: Tensor<1>,
    walk: Arc<Walk>,
}

impl Stride {
    /// None where the device or the shape of the model does not allow it.
    pub fn new(arena: &Arena, info: &ModelInfo) -> Option<Self> {
        let first = arena.parts.layers.first()?;
        let second = arena.parts.layers.get(1).unwrap_or(first);
        let walk = Walk {
            n_layers: info.n_layers,
            dim: info.dim,
            hidden: info.hidden_dim,
            n_heads: info.n_heads,
            n_kv_heads: info.n_kv_heads,
            head_dim: info.head_dim,
            vocab: info.vocab_size,
            embedding: arena.parts.embedding.start,
            final_norm: arena.parts.final_norm.start,
            output: arena.parts.output.start,
            attention_norm: first.attention_norm.start,
            qkv: first.qkv.start,
            attention_output: first.attention_output.start,
            feed_forward_norm: first.feed_forward_norm.start,
            gate_up: first.gate_up.start,
            down: first.down.start,
            layer_stride: second.attention_norm.start - first.attention_norm.start,
        };
        let possible = packing(&arena.numbers.device()) == Packing::Rows && walk.fits();
        possible.then(|| Self { arena: arena.numbers.clone(), walk: Arc::new(walk) })
    }

    /// The pass of one position: its logits, `[1, vocab]`. `rotation` is `[position, head_dim]`.
    pub fn run(&self, token: TokenId, pass: &mut Pass<'_>, rotation: &Tensor<2>) -> Tensor<2> {
        let numbers = pass.numbers.iter().copied().chain([token as i32]).collect();
        let table = integers(numbers, &rotation.device());
        let layout = pass.cache.layout_mut();
        let levels = layout.levels();
        let (logits, buffer, attention) = Dispatch::walk(
            self.arena.clone().into_dispatch(),
            layout.take_buffer().into_dispatch(),
            rotation.clone().into_dispatch(),
            table.into_dispatch(),
            levels,
            self.walk.clone(),
        );
        layout.put_buffer(Tensor::from_dispatch(buffer));
        if pass.observed() > 0 {
            // `[layer, head, key]` of one query: all layers in one.
            pass.attention.push(Tensor::from_dispatch(attention));
        }
        Tensor::from_dispatch(logits)
    }
}
