//! Whole models of noise: layer by layer with burn's operations, with the fused ones, and in a walk.

use std::sync::Arc;

use burn::backend::Dispatch;
use burn::tensor::activation::silu;
use burn::tensor::{Device, Tensor};

use super::{attend, check, device, integers, noise, norm, rotation, table};
use crate::model::ops::gpu::{Walk, WalkOps};
use crate::model::ops::{DecoderOps, Reach, Size};

const N_SLOTS: usize = 71;

/// Its parts in an arena, where the walk says.
pub struct Model {
    pub walk: Arc<Walk>,
    pub arena: Tensor<1>,
    pub rotation: Tensor<2>,
}

/// Logits `[position, vocab]`, the cache buffer, and attention weights `[layer, n_heads, position · keys]`.
type Results = (Tensor<2>, Tensor<5>, Tensor<3>);

impl Model {
    pub fn new(
        [n_layers, dim, hidden, n_heads, n_kv_heads, head_dim, vocab]: [usize; 7],
        context: usize,
        device: &Device,
    ) -> Self {
        let mut walk = Walk { n_layers, dim, hidden, n_heads, n_kv_heads, head_dim, vocab, ..Walk::default() };
        let mut end = 0;
        let mut take = |count: usize| {
            let start = end;
            end = (start + count).next_multiple_of(64);
            start
        };
        let width = n_heads * head_dim;
        walk.embedding = take(dim * vocab);
        walk.attention_norm = take(dim);
        walk.qkv = take(dim * (width + 2 * n_kv_heads * head_dim));
        walk.attention_output = take(width * dim);
        walk.feed_forward_norm = take(dim);
        walk.gate_up = take(dim * 2 * hidden);
        walk.down = take(hidden * dim);
        walk.layer_stride = take(0) - walk.attention_norm;
        take(walk.layer_stride * (n_layers - 1));
        walk.final_norm = take(dim);
        walk.output = take(dim * vocab);
        let numbers = take(0);
        let arena = noise([numbers], 5, device) * 0.3;
        Self { walk: Arc::new(walk), arena, rotation: rotation(context, head_dim, device) }
    }

    fn cache(&self) -> Tensor<5> {
        let walk = &self.walk;
        noise([walk.n_layers, 2, walk.n_kv_heads, N_SLOTS, walk.head_dim], 6, &self.arena.device())
    }

    fn width(&self) -> usize {
        self.walk.n_heads * self.walk.head_dim
    }

    fn qkv_width(&self) -> usize {
        self.width() + 2 * self.walk.n_kv_heads * self.walk.head_dim
    }

    fn reach(&self, layer: usize, table: &[i32], positions: usize, levels: Option<f32>) -> Reach {
        Reach {
            layer,
            n_heads: self.walk.n_heads,
            n_kv_heads: self.walk.n_kv_heads,
            head_dim: self.walk.head_dim,
            first_row: 0,
            positions,
            keys: table.len() - 5 * positions,
            observed: positions,
            levels,
        }
    }

    /// With burn's operations and [`attend`].
    fn plainly(&self, mut cache: Tensor<5>, tokens: &[i32], table: &[i32], levels: Option<f32>) -> Results {
        let walk = &self.walk;
        let part = |at: usize, n_in: usize, n_out: usize| {
            self.arena.clone().narrow(0, at, n_in * n_out).reshape([n_in, n_out])
        };
        let vector = |at: usize| self.arena.clone().narrow(0, at, walk.dim);
        let ids = integers(tokens, [tokens.len()], &self.arena.device());
        let mut x = part(walk.embedding, walk.dim, walk.vocab).transpose().select(0, ids);
        let mut attention = Vec::new();
        for layer in 0..walk.n_layers {
            let at = layer * walk.layer_stride;
            let qkv = part(at + walk.qkv, walk.dim, self.qkv_width());
            let qkv = norm(x.clone(), vector(at + walk.attention_norm)).matmul(qkv);
            let reach = self.reach(layer, table, tokens.len(), levels);
            let (mixed, written, weights) = attend(qkv, cache, self.rotation.clone(), table, reach);
            cache = written;
            attention.push(weights.reshape([1, walk.n_heads, tokens.len() * reach.keys]));
            x = x + mixed.matmul(part(at + walk.attention_output, self.width(), walk.dim));
            let gate_up = part(at + walk.gate_up, walk.dim, 2 * walk.hidden);
            let both = norm(x.clone(), vector(at + walk.feed_forward_norm)).matmul(gate_up);
            let gated = silu(both.clone().narrow(1, 0, walk.hidden)) * both.narrow(1, walk.hidden, walk.hidden);
            x = x + gated.matmul(part(at + walk.down, walk.hidden, walk.dim));
        }
        let logits = norm(x, vector(walk.final_norm)).matmul(part(walk.output, walk.dim, walk.vocab));
        (logits, cache, Tensor::cat(attention, 0))
    }

    /// With fused operations, whose weights are views of the arena.
    pub fn by_layers(&self, mut cache: Tensor<5>, tokens: &[i32], table: &[i32], levels: Option<f32>) -> Results {
        let walk = &self.walk;
        let (device, positions) = (&self.arena.device(), tokens.len());
        let part =
            |at: usize, count: usize| self.arena.clone().narrow(0, at, count.next_multiple_of(64)).into_dispatch();
        let size = |n_in: usize, n_out: usize| Size { n_in, n_out };
        let (width, qkv_width) = (self.width(), self.qkv_width());
        let rows = integers(table, [table.len()], device);
        let mut x = Dispatch::embed(
            part(walk.embedding, walk.dim * walk.vocab),
            integers(tokens, [positions], device).into_dispatch(),
            size(walk.dim, walk.vocab),
        );
        let mut attention = Vec::new();
        for layer in 0..walk.n_layers {
            let layer_part = |at: usize, count: usize| part(layer * walk.layer_stride + at, count);
            let norm = layer_part(walk.attention_norm, walk.dim);
            let matrix = layer_part(walk.qkv, walk.dim * qkv_width);
            let qkv = Dispatch::norm_product(x.clone(), norm, matrix, size(walk.dim, qkv_width));
            let (mixed, written, weights) = Dispatch::attend(
                qkv,
                Tensor::<2>::empty([positions, width], device).into_dispatch(),
                cache.into_dispatch(),
                self.rotation.clone().into_dispatch(),
                rows.clone().into_dispatch(),
                self.reach(layer, table, positions, levels),
            );
            cache = Tensor::from_dispatch(written);
            let weights = Tensor::<3>::from_dispatch(weights);
            attention.push(weights.reshape([1, walk.n_heads as i32, -1]));
            let matrix = layer_part(walk.attention_output, width * walk.dim);
            x = Dispatch::product_add(x, mixed, matrix, size(width, walk.dim));
            let norm = layer_part(walk.feed_forward_norm, walk.dim);
            let matrix = layer_part(walk.gate_up, walk.dim * 2 * walk.hidden);
            let gated = Dispatch::norm_gate(x.clone(), norm, matrix, size(walk.dim, 2 * walk.hidden));
            let matrix = layer_part(walk.down, walk.hidden * walk.dim);
            x = Dispatch::product_add(x, gated, matrix, size(walk.hidden, walk.dim));
        }
        let norm = part(walk.final_norm, walk.dim);
        let output = part(walk.output, walk.dim * walk.vocab);
        let logits = Dispatch::norm_product(x, norm, output, size(walk.dim, walk.vocab));
        (Tensor::from_dispatch(logits), cache, Tensor::cat(attention, 0))
    }

    pub fn walk(&self, cache: Tensor<5>, token: i32, table: &[i32], levels: Option<f32>) -> Results {
        let table = [table, &[token]].concat();
        let (logits, cache, attention) = Dispatch::walk(
            self.arena.clone().into_dispatch(),
            cache.into_dispatch(),
            self.rotation.clone().into_dispatch(),
            integers(&table, [table.len()], &self.arena.device()).into_dispatch(),
            levels,
            Arc::clone(&self.walk),
        );
        (Tensor::from_dispatch(logits), Tensor::from_dispatch(cache), Tensor::from_dispatch(attention))
    }
}

fn check_all(what: &str, found: Results, expected: Results) -> (Tensor<5>, Tensor<5>) {
    check(&format!("attention: {what}"), found.2, expected.2);
    check(&format!("cache: {what}"), found.1.clone(), expected.1.clone());
    check(&format!("logits: {what}"), found.0, expected.0);
    (found.1, expected.1)
}

#[test]
fn layers_and_walks_are_the_model() {
    let Some(device) = device() else { return };
    // Layers, dim, hidden, heads, kv heads, head_dim, vocab.
    let shapes = [
        [5, 128, 344, 8, 4, 16, 1024],
        [2, 10, 7, 3, 1, 2, 13],
        [1, 300, 520, 5, 5, 36, 1001],
        [2, 64, 96, 1, 1, 128, 99],
    ];
    for shape in shapes {
        let model = Model::new(shape, N_SLOTS, device);
        assert!(model.walk.fits());
        // A number half-way between two levels may be rounded either way: only where there are few is nothing half-way.
        let levels = (model.walk.head_dim == 2).then_some(7.0);
        for (seen, levels) in [([0, 500], None), ([2, 5], levels)] {
            let tokens: Vec<i32> = (0..20).map(|index| index * 5 % 13).collect();
            let numbers = table(0, tokens.len(), seen, N_SLOTS);
            let found = model.by_layers(model.cache(), &tokens, &numbers, levels);
            let expected = model.plainly(model.cache(), &tokens, &numbers, levels);
            let (mut cache, mut expected_cache) = check_all(&format!("layers of {shape:?}"), found, expected);
            for (position, token) in [(20, 5), (21, 12), (22, 0)] {
                let numbers = table(position, 1, seen, N_SLOTS);
                let found = model.walk(cache, token, &numbers, levels);
                let expected = model.plainly(expected_cache, &[token], &numbers, levels);
                (cache, expected_cache) = check_all(&format!("walk {position} of {shape:?}"), found, expected);
            }
        }
    }
}

#[test]
fn a_walk_needs_its_vectors_in_workgroup_memory() {
    let shape = |dim, hidden| Walk { dim, hidden, n_heads: 8, n_kv_heads: 8, head_dim: dim / 8, ..Walk::default() };
    assert!(shape(512, 2048).fits());
    assert!(!shape(1024, 2816).fits());
}
