//! One layer of the decoder, forwards and backwards, over the rows of a batch.
//!
//! Rows (sequences) go through it one after the other, so that everything a row needs stays in a core's cache, and the
//! gradients of the weights are summed where they are. Kept for the backward pass is only what is dear to compute again.

use std::sync::Mutex;

use inferscope_trace::ModelInfo;

use super::attention::{self, Heads};
use super::matmul::{Destination::Add, Destination::Overwrite, Matrix, multiply};
use super::rotation::{Direction, RotationTable};
use super::{norm, swiglu};

/// Weights of one layer, or their gradients; matrices are `[in, out]`.
#[derive(Clone, Copy)]
pub struct Weights<'a> {
    /// `[dim]`
    pub attention_norm: &'a [f32],
    /// `[dim, (n_heads + 2 n_kv_heads) · head_dim]`
    pub qkv: &'a [f32],
    /// `[n_heads · head_dim, dim]`
    pub attention_output: &'a [f32],
    /// `[dim]`
    pub feed_forward_norm: &'a [f32],
    /// `[dim, 2 hidden]`
    pub gate_up: &'a [f32],
    /// `[hidden, dim]`
    pub down: &'a [f32],
}

/// Gradients of one layer's weights, shaped as in [`Weights`].
#[derive(Clone, Debug)]
pub struct Gradients {
    pub attention_norm: Vec<f32>,
    pub qkv: Vec<f32>,
    pub attention_output: Vec<f32>,
    pub feed_forward_norm: Vec<f32>,
    pub gate_up: Vec<f32>,
    pub down: Vec<f32>,
}

/// What the backward pass needs of the forward pass, over all rows.
#[derive(Debug)]
pub struct Saved {
    qkv: Vec<f32>,      // [row, position, (n_heads + 2 n_kv_heads) · head_dim], rotated
    mixed: Vec<f32>,    // [row, position, n_heads · head_dim]
    log_sums: Vec<f32>, // [row, head, position]
    middle: Vec<f32>,   // [row, position, dim], after attention was added
    gate_up: Vec<f32>,  // [row, position, 2 hidden]
}

/// What all layers of one shape share: the shape, the table of angles, and buffers that are used again and again.
#[derive(Debug)]
pub struct Plan {
    dim: usize,
    hidden: usize,
    heads: Heads,
    rotation: RotationTable,
    scratch: Mutex<Vec<Scratch>>,
    saved: Mutex<Vec<Saved>>,
}

/// Room for one row's passing values.
#[derive(Debug)]
struct Scratch {
    normed: Vec<f32>,              // [position, dim]
    activation: Vec<f32>,          // [position, hidden]
    normed_gradient: Vec<f32>,     // [position, dim]
    activation_gradient: Vec<f32>, // [position, hidden]
    gate_up_gradient: Vec<f32>,    // [position, 2 hidden]
    mixed_gradient: Vec<f32>,      // [position, n_heads · head_dim]
    qkv_gradient: Vec<f32>,        // [position, (n_heads + 2 n_kv_heads) · head_dim]
    attention: attention::Scratch,
}

impl Plan {
    /// For sequences of `positions` tokens.
    ///
    /// # Panics
    /// When the kernels do not know the shape; see [`Self::supports`].
    pub fn new(shape: &ModelInfo, positions: usize) -> Self {
        assert!(Self::supports(shape, positions), "the kernels do not know this shape");
        let (n_heads, n_kv_heads, head_dim) = (shape.n_heads, shape.n_kv_heads, shape.head_dim);
        Self {
            dim: shape.dim,
            hidden: shape.hidden_dim,
            heads: Heads { positions, n_heads, n_kv_heads, head_dim },
            rotation: RotationTable::new(positions, head_dim),
            scratch: Mutex::default(),
            saved: Mutex::default(),
        }
    }

    /// Whether there are kernels for heads of this width and sequences of this length.
    pub fn supports(shape: &ModelInfo, positions: usize) -> bool {
        attention::HEAD_DIMS.contains(&shape.head_dim) && positions.is_multiple_of(super::LANES)
    }

    /// `x` and `y`: `[row, position, dim]`. What is returned goes to [`Self::backward`], or back by [`Self::give_back`].
    pub fn forward(&self, weights: Weights, x: &[f32], y: &mut [f32]) -> Saved {
        let positions = self.heads.positions;
        let (dim, hidden, qkv_row, width) = (self.dim, self.hidden, self.heads.row(), self.width());
        let rows = x.len() / (positions * dim);
        let mut saved =
            take(&self.saved, |saved: &Saved| saved.middle.len() == x.len()).unwrap_or_else(|| self.new_saved(rows));
        let mut scratch = take(&self.scratch, |_| true).unwrap_or_else(|| self.new_scratch());
        let all = x
            .chunks_exact(positions * dim)
            .zip(y.chunks_exact_mut(positions * dim))
            .zip(saved.qkv.chunks_exact_mut(positions * qkv_row))
            .zip(saved.mixed.chunks_exact_mut(positions * width))
            .zip(saved.log_sums.chunks_exact_mut(positions * self.heads.n_heads))
            .zip(saved.middle.chunks_exact_mut(positions * dim))
            .zip(saved.gate_up.chunks_exact_mut(positions * 2 * hidden));
        for ((((((x, y), qkv), mixed), log_sums), middle), gate_up) in all {
            let s = &mut scratch;
            norm::forward(x, weights.attention_norm, &mut s.normed);
            multiply(qkv, Overwrite, Matrix::new(&s.normed, dim), Matrix::new(weights.qkv, qkv_row));
            self.rotation.rotate(qkv, qkv_row, self.rotated_heads(), Direction::Forward);
            attention::forward(self.heads, qkv, mixed, log_sums, &mut s.attention);
            middle.copy_from_slice(x);
            let attention_output = Matrix::new(weights.attention_output, dim);
            multiply(middle, Add, Matrix::new(mixed, width), attention_output);
            norm::forward(middle, weights.feed_forward_norm, &mut s.normed);
            let gate_up_weights = Matrix::new(weights.gate_up, 2 * hidden);
            multiply(gate_up, Overwrite, Matrix::new(&s.normed, dim), gate_up_weights);
            swiglu::forward(gate_up, &mut s.activation, hidden);
            y.copy_from_slice(middle);
            let down = Matrix::new(weights.down, dim);
            multiply(y, Add, Matrix::new(&s.activation, hidden), down);
        }
        give(&self.scratch, scratch);
        saved
    }

    /// From the gradient of `y`: that of `x`, `[row, position, dim]`, and those of the weights.
    pub fn backward(&self, weights: Weights, x: &[f32], saved: &Saved, y_gradient: &[f32]) -> (Vec<f32>, Gradients) {
        let positions = self.heads.positions;
        let (dim, hidden, qkv_row, width) = (self.dim, self.hidden, self.heads.row(), self.width());
        let zeros = |like: &[f32]| vec![0.0; like.len()];
        let mut gradients = Gradients {
            attention_norm: zeros(weights.attention_norm),
            qkv: zeros(weights.qkv),
            attention_output: zeros(weights.attention_output),
            feed_forward_norm: zeros(weights.feed_forward_norm),
            gate_up: zeros(weights.gate_up),
            down: zeros(weights.down),
        };
        let mut x_gradient = y_gradient.to_vec();
        let mut scratch = take(&self.scratch, |_| true).unwrap_or_else(|| self.new_scratch());
        let all = x
            .chunks_exact(positions * dim)
            .zip(y_gradient.chunks_exact(positions * dim))
            .zip(x_gradient.chunks_exact_mut(positions * dim))
            .zip(saved.qkv.chunks_exact(positions * qkv_row))
            .zip(saved.mixed.chunks_exact(positions * width))
            .zip(saved.log_sums.chunks_exact(positions * self.heads.n_heads))
            .zip(saved.middle.chunks_exact(positions * dim))
            .zip(saved.gate_up.chunks_exact(positions * 2 * hidden));
        for (((((((x, dy), dx), qkv), mixed), log_sums), middle), gate_up) in all {
            let s = &mut scratch;
            let g = &mut gradients;

            // y = middle + down(swiglu(gate_up(norm(middle)))); dx holds ∂y, and ∂middle after this part.
            swiglu::forward_with_slopes(gate_up, &mut s.activation, &mut s.gate_up_gradient, hidden);
            multiply(&mut g.down, Add, Matrix::new(&s.activation, hidden).transposed(), Matrix::new(dy, dim));
            let down = Matrix::new(weights.down, dim);
            multiply(&mut s.activation_gradient, Overwrite, Matrix::new(dy, dim), down.transposed());
            swiglu::backward(&mut s.gate_up_gradient, &s.activation_gradient, hidden);
            norm::forward(middle, weights.feed_forward_norm, &mut s.normed);
            let gate_up_gradient = Matrix::new(&s.gate_up_gradient, 2 * hidden);
            multiply(&mut g.gate_up, Add, Matrix::new(&s.normed, dim).transposed(), gate_up_gradient);
            let gate_up_weights = Matrix::new(weights.gate_up, 2 * hidden);
            multiply(&mut s.normed_gradient, Overwrite, gate_up_gradient, gate_up_weights.transposed());
            norm::backward(middle, weights.feed_forward_norm, &s.normed_gradient, dx, &mut g.feed_forward_norm);

            // middle = x + output(attention(qkv(norm(x)))); dx becomes ∂x.
            multiply(&mut g.attention_output, Add, Matrix::new(mixed, width).transposed(), Matrix::new(dx, dim));
            let attention_output = Matrix::new(weights.attention_output, dim);
            multiply(&mut s.mixed_gradient, Overwrite, Matrix::new(dx, dim), attention_output.transposed());
            let known = attention::Known { qkv, mixed, log_sums, mixed_gradient: &s.mixed_gradient };
            attention::backward(self.heads, known, &mut s.qkv_gradient, &mut s.attention);
            self.rotation.rotate(&mut s.qkv_gradient, qkv_row, self.rotated_heads(), Direction::Back);
            norm::forward(x, weights.attention_norm, &mut s.normed);
            let qkv_gradient = Matrix::new(&s.qkv_gradient, qkv_row);
            multiply(&mut g.qkv, Add, Matrix::new(&s.normed, dim).transposed(), qkv_gradient);
            let qkv_weights = Matrix::new(weights.qkv, qkv_row);
            multiply(&mut s.normed_gradient, Overwrite, qkv_gradient, qkv_weights.transposed());
            norm::backward(x, weights.attention_norm, &s.normed_gradient, dx, &mut g.attention_norm);
        }
        give(&self.scratch, scratch);
        (x_gradient, gradients)
    }

    /// Takes buffers back, for the next forward pass.
    pub fn give_back(&self, saved: Saved) {
        give(&self.saved, saved);
    }

    /// Width of all query heads.
    fn width(&self) -> usize {
        self.heads.n_heads * self.heads.head_dim
    }

    /// Queries and keys are rotated, values are not.
    fn rotated_heads(&self) -> usize {
        self.heads.n_heads + self.heads.n_kv_heads
    }

    fn new_saved(&self, rows: usize) -> Saved {
        let positions = rows * self.heads.positions;
        Saved {
            qkv: vec![0.0; positions * self.heads.row()],
            mixed: vec![0.0; positions * self.width()],
            log_sums: vec![0.0; positions * self.heads.n_heads],
            middle: vec![0.0; positions * self.dim],
            gate_up: vec![0.0; positions * 2 * self.hidden],
        }
    }

    fn new_scratch(&self) -> Scratch {
        let positions = self.heads.positions;
        Scratch {
            normed: vec![0.0; positions * self.dim],
            activation: vec![0.0; positions * self.hidden],
            normed_gradient: vec![0.0; positions * self.dim],
            activation_gradient: vec![0.0; positions * self.hidden],
            gate_up_gradient: vec![0.0; positions * 2 * self.hidden],
            mixed_gradient: vec![0.0; positions * self.width()],
            qkv_gradient: vec![0.0; positions * self.heads.row()],
            attention: attention::Scratch::new(self.heads),
        }
    }
}

/// A buffer that fits, from those that are free.
fn take<T>(free: &Mutex<Vec<T>>, fits: impl Fn(&T) -> bool) -> Option<T> {
    let mut free = free.lock().expect("no thread panics while it holds a buffer list");
    let index = free.iter().rposition(fits)?;
    Some(free.swap_remove(index))
}

fn give<T>(free: &Mutex<Vec<T>>, buffer: T) {
    free.lock().expect("no thread panics while it holds a buffer list").push(buffer);
}
