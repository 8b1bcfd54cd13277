//! A *model* here is a Llama-style decoder as one array of weights and buffers for one position: its pass allocates nothing.

use crate::kernels::{self, STRIDE};

/// The slowest pair of a head turns about this many times slower than the fastest.
const ROTARY_BASE: f32 = 10_000.0;

#[derive(Clone, Copy)]
pub struct Shape {
    pub dim: usize,
    pub hidden_dim: usize,
    pub n_layers: usize,
    pub n_heads: usize,
    pub n_kv_heads: usize,
    pub vocab_size: usize,
    pub context: usize,
}

impl Shape {
    fn head_dim(&self) -> usize {
        self.dim / self.n_heads
    }

    fn kv_dim(&self) -> usize {
        self.n_kv_heads * self.head_dim()
    }

    fn layer_weights(&self) -> usize {
        2 * self.dim * (self.dim + self.kv_dim() + 1) + 3 * self.dim * self.hidden_dim
    }

    /// How many weights there are. The embedding is also the output matrix.
    pub fn weights(&self) -> usize {
        self.vocab_size * self.dim + self.n_layers * self.layer_weights() + self.dim
    }
}

/// One layer's weights, within the array of all.
struct Layer<'a> {
    attention_norm: &'a [f32],    // [dim]
    query: &'a [f32],             // [dim, dim]
    key: &'a [f32],               // [kv_dim, dim]
    value: &'a [f32],             // [kv_dim, dim]
    attention_output: &'a [f32],  // [dim, dim]
    feed_forward_norm: &'a [f32], // [dim]
    gate: &'a [f32],              // [hidden_dim, dim]
    down: &'a [f32],              // [dim, hidden_dim]
    up: &'a [f32],                // [hidden_dim, dim]
}

impl<'a> Layer<'a> {
    fn of(shape: &Shape, mut weights: &'a [f32]) -> Self {
        let (dim, kv_dim, hidden_dim) = (shape.dim, shape.kv_dim(), shape.hidden_dim);
        let mut take = |len: usize| weights.split_off(..len).expect("the array has all weights");
        Self {
            attention_norm: take(dim),
            query: take(dim * dim),
            key: take(kv_dim * dim),
            value: take(kv_dim * dim),
            attention_output: take(dim * dim),
            feed_forward_norm: take(dim),
            gate: take(hidden_dim * dim),
            down: take(dim * hidden_dim),
            up: take(hidden_dim * dim),
        }
    }
}

pub struct Model {
    shape: Shape,
    /// In the order of the Inferscope format: the embedding, the layers, the final norm.
    weights: Vec<f32>,
    turns: Vec<[f32; 2]>, // [position, head_dim / 2], each a cosine and a sine
    keys: Vec<f32>,       // [layer, kv head, position, head_dim]
    values: Vec<f32>,     // [layer, kv head, position, head_dim]
    x: Vec<f32>,          // [dim], the residual stream
    normed: Vec<f32>,     // [dim]
    queries: Vec<f32>,    // [head, head_dim]
    column: Vec<f32>,     // [kv head, head_dim], keys or values of the position
    scores: Vec<f32>,     // [context]
    mixed: Vec<f32>,      // [head, head_dim]
    added: Vec<f32>,      // [dim]
    gate: Vec<f32>,       // [hidden_dim]
    up: Vec<f32>,         // [hidden_dim]
    logits: Vec<f32>,     // [vocab]
}

impl Model {
    /// # Panics
    /// When there are not as many weights as the shape asks for, or the kernels' loops do not fit the shape.
    pub fn new(shape: Shape, weights: Vec<f32>) -> Self {
        assert_eq!(weights.len(), shape.weights(), "as many weights as the shape asks for");
        let in_strides = [shape.dim, shape.hidden_dim, shape.head_dim(), shape.vocab_size, shape.context];
        assert!(in_strides.iter().all(|len| len % STRIDE == 0), "lengths are multiples of {STRIDE}: {in_strides:?}");
        let columns = shape.n_layers * shape.context * shape.kv_dim();
        let zeros = |len: usize| vec![0.0; len];
        Self {
            turns: turns(&shape),
            keys: zeros(columns),
            values: zeros(columns),
            x: zeros(shape.dim),
            normed: zeros(shape.dim),
            queries: zeros(shape.dim),
            column: zeros(shape.kv_dim()),
            scores: zeros(shape.context),
            mixed: zeros(shape.dim),
            added: zeros(shape.dim),
            gate: zeros(shape.hidden_dim),
            up: zeros(shape.hidden_dim),
            logits: zeros(shape.vocab_size),
            shape,
            weights,
        }
    }

    /// Runs one token at the position that follows those that were run before it, and keeps its keys and values.
    pub fn read(&mut self, token: usize, position: usize) {
        let shape = self.shape;
        let (dim, embedding) = (shape.dim, shape.vocab_size * shape.dim);
        self.x.copy_from_slice(&self.weights[token * dim..(token + 1) * dim]);
        for index in 0..shape.n_layers {
            // The weights are lent out while the buffers change, so they leave for the moment.
            let weights = std::mem::take(&mut self.weights);
            let layer = Layer::of(&shape, &weights[embedding + index * shape.layer_weights()..]);
            self.attention(&layer, index, position);
            self.feed_forward(&layer);
            self.weights = weights;
        }
    }

    /// The same, and then the logits `[vocab]` of what follows it.
    pub fn logits(&mut self, token: usize, position: usize) -> &[f32] {
        self.read(token, position);
        let Shape { dim, vocab_size, .. } = self.shape;
        let final_norm = &self.weights[self.weights.len() - dim..];
        kernels::rms_norm(&self.x, final_norm, &mut self.normed);
        kernels::matvec(&self.weights[..vocab_size * dim], &self.normed, &mut self.logits);
        &self.logits
    }

    /// Grouped-query attention: `n_heads / n_kv_heads` query heads share the keys and values of one head.
    fn attention(&mut self, layer: &Layer<'_>, index: usize, position: usize) {
        let Shape { n_heads, n_kv_heads, context, .. } = self.shape;
        let head_dim = self.shape.head_dim();
        let turns = &self.turns[position * head_dim / 2..(position + 1) * head_dim / 2];
        // Where each head's columns of this layer begin, and where this position's lies among them.
        let columns = |head: usize| (index * n_kv_heads + head) * context * head_dim;

        kernels::rms_norm(&self.x, layer.attention_norm, &mut self.normed);
        kernels::matvec(layer.query, &self.normed, &mut self.queries);
        kernels::rotate(&mut self.queries, turns, 1.0 / (head_dim as f32).sqrt());
        kernels::matvec(layer.key, &self.normed, &mut self.column);
        kernels::rotate(&mut self.column, turns, 1.0);
        for (head, key) in self.column.chunks_exact(head_dim).enumerate() {
            self.keys[columns(head) + position * head_dim..][..head_dim].copy_from_slice(key);
        }
        kernels::matvec(layer.value, &self.normed, &mut self.column);
        for (head, value) in self.column.chunks_exact(head_dim).enumerate() {
            self.values[columns(head) + position * head_dim..][..head_dim].copy_from_slice(value);
        }

        // Keys are read four at a time, with those behind the position that softmax then gives nothing.
        let len = position + 1;
        let padded = len.next_multiple_of(4);
        let heads = self.queries.chunks_exact(head_dim).zip(self.mixed.chunks_exact_mut(head_dim));
        for (head, (query, mixed)) in heads.enumerate() {
            let begin = columns(head / (n_heads / n_kv_heads));
            let past = begin..begin + padded * head_dim;
            let scores = &mut self.scores[..padded];
            kernels::matvec(&self.keys[past.clone()], query, scores);
            kernels::softmax(scores, len);
            kernels::weighted_sum(scores, &self.values[past], mixed);
        }
        kernels::matvec(layer.attention_output, &self.mixed, &mut self.added);
        kernels::add(&mut self.x, &self.added);
    }

    fn feed_forward(&mut self, layer: &Layer<'_>) {
        kernels::rms_norm(&self.x, layer.feed_forward_norm, &mut self.normed);
        kernels::matvec(layer.gate, &self.normed, &mut self.gate);
        kernels::matvec(layer.up, &self.normed, &mut self.up);
        kernels::swiglu(&mut self.gate, &self.up);
        kernels::matvec(layer.down, &self.gate, &mut self.added);
        kernels::add(&mut self.x, &self.added);
    }
}

/// The angle of each pair of neighbours at each position.
fn turns(shape: &Shape) -> Vec<[f32; 2]> {
    let head_dim = shape.head_dim();
    let pairs = (0..shape.context).flat_map(|position| (0..head_dim).step_by(2).map(move |even| (position, even)));
    pairs
        .map(|(position, even)| {
            let frequency = 1.0 / ROTARY_BASE.powf(even as f32 / head_dim as f32);
            let (sin, cos) = (position as f32 * frequency).sin_cos();
            [cos, sin]
        })
        .collect()
}
