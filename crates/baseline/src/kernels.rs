//! A *kernel* is an inner loop: numbers in, numbers out. All lengths are multiples of [`STRIDE`], or of four where it says
//! so, which spares every loop its remainder; [`Model::new`](crate::model::Model::new) sees to it.

use crate::lanes::Lanes;

/// How many numbers a dot product takes in one turn.
pub const STRIDE: usize = 2 * Lanes::COUNT;

/// Keeps the division defined for a vector of zeros; the value that llama2.c and the format's models use.
const EPSILON: f32 = 1e-5;

/// `matrix [out, in]` · `x [in]` → `y [out]`; `out` is a multiple of four.
pub fn matvec(matrix: &[f32], x: &[f32], y: &mut [f32]) {
    for (y, rows) in y.as_chunks_mut::<4>().0.iter_mut().zip(matrix.chunks_exact(4 * x.len())) {
        *y = four_dots(rows, x);
    }
}

/// `rows [4, in]` · `x [in]`. Four rows share what is loaded of x, and each has two sums, so that eight additions are under
/// way at a time and none waits for the one before.
#[inline(always)]
fn four_dots(rows: &[f32], x: &[f32]) -> [f32; 4] {
    let (a, rest) = rows.split_at(x.len());
    let (b, rest) = rest.split_at(x.len());
    let (c, d) = rest.split_at(x.len());
    let [a, b, c, d] = [a, b, c, d].map(|row| row.as_chunks::<STRIDE>().0);
    let mut even = [Lanes::splat(0.0); 4];
    let mut odd = even;
    for ((((x, a), b), c), d) in x.as_chunks::<STRIDE>().0.iter().zip(a).zip(b).zip(c).zip(d) {
        let (x_even, x_odd) = halves(x);
        for (row, weights) in [a, b, c, d].into_iter().enumerate() {
            let (w_even, w_odd) = halves(weights);
            even[row] = even[row] + w_even * x_even;
            odd[row] = odd[row] + w_odd * x_odd;
        }
    }
    let both = [even[0] + odd[0], even[1] + odd[1], even[2] + odd[2], even[3] + odd[3]];
    Lanes::sums(both).to_array()
}

fn halves(values: &[f32; STRIDE]) -> (Lanes, Lanes) {
    let [a, b, c, d, e, f, g, h] = *values;
    (Lanes::load(&[a, b, c, d]), Lanes::load(&[e, f, g, h]))
}

/// RMS norm: `x [dim]` brought to a root mean square of 1, times `weight [dim]`, into `y`.
pub fn rms_norm(x: &[f32], weight: &[f32], y: &mut [f32]) {
    let mut squares = Lanes::splat(0.0);
    for x in quads(x) {
        squares = squares + x * x;
    }
    let mean_square = total(squares) / x.len() as f32;
    let scale = Lanes::splat(1.0 / (mean_square + EPSILON).sqrt());
    for ((y, x), weight) in y.as_chunks_mut().0.iter_mut().zip(quads(x)).zip(quads(weight)) {
        *y = (x * scale * weight).to_array();
    }
}

/// Turns each pair of neighbours of `heads [head, head_dim]` by the angle whose `[cos, sin]` stands in `turns`, and scales.
pub fn rotate(heads: &mut [f32], turns: &[[f32; 2]], scale: f32) {
    for head in heads.chunks_exact_mut(2 * turns.len()) {
        for ([even, odd], [cos, sin]) in head.as_chunks_mut().0.iter_mut().zip(turns) {
            (*even, *odd) = ((*even * cos - *odd * sin) * scale, (*even * sin + *odd * cos) * scale);
        }
    }
}

/// `scores` of any length up to a multiple of four → weights that sum to 1. What stands behind `len` gets nothing.
pub fn softmax(scores: &mut [f32], len: usize) {
    scores[len..].fill(f32::NEG_INFINITY);
    let largest = quads(scores).reduce(Lanes::max).expect("at least one position");
    let largest = Lanes::splat(largest.to_array().into_iter().fold(f32::NEG_INFINITY, f32::max));
    let mut sum = Lanes::splat(0.0);
    for score in scores.as_chunks_mut::<4>().0 {
        let weight = (Lanes::load(score) - largest).exp();
        sum = sum + weight;
        *score = weight.to_array();
    }
    let share = Lanes::splat(1.0 / total(sum));
    for weight in scores.as_chunks_mut::<4>().0 {
        *weight = (Lanes::load(weight) * share).to_array();
    }
}

/// `weights [position]` · `values [position, head_dim]` → `mixed [head_dim]`. Eight components at a time stay in registers
/// over all positions, even and odd ones apart.
pub fn weighted_sum(weights: &[f32], values: &[f32], mixed: &mut [f32]) {
    let head_dim = mixed.len();
    for (group, mixed) in mixed.as_chunks_mut::<STRIDE>().0.iter_mut().enumerate() {
        let mut sums = [[Lanes::splat(0.0); 2]; 2];
        for (weights, pair) in weights.as_chunks::<2>().0.iter().zip(values.chunks_exact(2 * head_dim)) {
            for (sums, (&weight, value)) in sums.iter_mut().zip(weights.iter().zip(pair.chunks_exact(head_dim))) {
                let (low, high) = halves(&value.as_chunks().0[group]);
                let weight = Lanes::splat(weight);
                *sums = [sums[0] + low * weight, sums[1] + high * weight];
            }
        }
        let [even, odd] = sums;
        let [low, high] = [(even[0] + odd[0]).to_array(), (even[1] + odd[1]).to_array()];
        mixed[..4].copy_from_slice(&low);
        mixed[4..].copy_from_slice(&high);
    }
}

/// SwiGLU: `gate [hidden]` becomes silu(gate) · up.
pub fn swiglu(gate: &mut [f32], up: &[f32]) {
    let one = Lanes::splat(1.0);
    for (gate, up) in gate.as_chunks_mut::<4>().0.iter_mut().zip(quads(up)) {
        let x = Lanes::load(gate);
        let minus_x = Lanes::splat(0.0) - x;
        *gate = (x / (one + minus_x.exp()) * up).to_array();
    }
}

/// `x [dim]` += `y [dim]`.
pub fn add(x: &mut [f32], y: &[f32]) {
    for (x, y) in x.as_chunks_mut().0.iter_mut().zip(quads(y)) {
        *x = (Lanes::load(x) + y).to_array();
    }
}

fn quads(values: &[f32]) -> impl Iterator<Item = Lanes> {
    values.as_chunks().0.iter().map(Lanes::load)
}

fn total(lanes: Lanes) -> f32 {
    lanes.to_array().into_iter().sum()
}
