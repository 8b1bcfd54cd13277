//! Causal attention of one sequence and its gradient, with grouped queries (Ainslie et al. 2023).
//!
//! Neither pass stores the weights: both go through the queries in blocks of [`QUERIES`], whose scores lie in the nearest
//! cache, and the backward pass makes them again from the logarithm of their sum (Dao et al. 2022, "FlashAttention").
//! Keys that come later than a block are never touched, which halves the work.
//!
//! Products are written with the vectors of the pulp crate: a compiler left to itself takes numbers of several queries for
//! a vector, which have to be gathered one by one.

use pulp::{Arch, Simd, WithSimd};

use super::{LANES, exp, largest, sum};

/// Queries that are worked on together: each key is loaded once for all of them.
const QUERIES: usize = 8;

/// Widths of a head that the kernels are compiled for: whole vectors of every processor.
pub const HEAD_DIMS: [usize; 2] = [16, 32];

/// The shape of one sequence. `positions` must be a multiple of [`LANES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heads {
    pub positions: usize,
    pub n_heads: usize,
    pub n_kv_heads: usize,
    pub head_dim: usize,
}

impl Heads {
    /// Width of a position's row of queries, keys and values.
    pub fn row(&self) -> usize {
        (self.n_heads + 2 * self.n_kv_heads) * self.head_dim
    }

    fn key_column(&self, kv_head: usize) -> usize {
        (self.n_heads + kv_head) * self.head_dim
    }

    fn value_column(&self, kv_head: usize) -> usize {
        (self.n_heads + self.n_kv_heads + kv_head) * self.head_dim
    }
}

/// Room to work in; its contents mean nothing between two calls.
#[derive(Debug, Default)]
pub struct Scratch {
    keys: Vec<f32>,              // [position, head_dim]
    values: Vec<f32>,            // [position, head_dim]
    keys_transposed: Vec<f32>,   // [head_dim, position]
    values_transposed: Vec<f32>, // [head_dim, position]
    key_gradient: Vec<f32>,      // [position, head_dim]
    value_gradient: Vec<f32>,    // [position, head_dim]
    weights: Vec<f32>,           // [QUERIES, position]
    score_gradient: Vec<f32>,    // [QUERIES, position]
}

impl Scratch {
    pub fn new(heads: Heads) -> Self {
        let per_head = || vec![0.0; heads.positions * heads.head_dim];
        let per_block = || vec![0.0; QUERIES * heads.positions];
        Self {
            keys: per_head(),
            values: per_head(),
            keys_transposed: per_head(),
            values_transposed: per_head(),
            key_gradient: per_head(),
            value_gradient: per_head(),
            weights: per_block(),
            score_gradient: per_block(),
        }
    }
}

/// `qkv`: `[position, (n_heads + 2 n_kv_heads) · head_dim]`, rotated; `mixed`: `[position, n_heads · head_dim]`;
/// `log_sums`: `[head, position]`, the logarithm of the sum of every query's exponentials.
pub fn forward(heads: Heads, qkv: &[f32], mixed: &mut [f32], log_sums: &mut [f32], scratch: &mut Scratch) {
    assert!(heads.positions.is_multiple_of(LANES), "positions come in whole vectors");
    match heads.head_dim {
        16 => Arch::new().dispatch(Forward::<16> { heads, qkv, mixed, log_sums, scratch }),
        32 => Arch::new().dispatch(Forward::<32> { heads, qkv, mixed, log_sums, scratch }),
        other => panic!("no attention kernel for heads of width {other}"),
    }
}

/// What the backward pass starts from. Shapes as for [`forward`]; `mixed_gradient` is shaped as `mixed`.
#[derive(Clone, Copy)]
pub struct Known<'a> {
    pub qkv: &'a [f32],
    pub mixed: &'a [f32],
    pub log_sums: &'a [f32],
    pub mixed_gradient: &'a [f32],
}

/// Writes the gradient of the rotated queries, keys and values to `qkv_gradient`.
pub fn backward(heads: Heads, known: Known, qkv_gradient: &mut [f32], scratch: &mut Scratch) {
    match heads.head_dim {
        16 => Arch::new().dispatch(Backward::<16> { heads, known, qkv_gradient, scratch }),
        32 => Arch::new().dispatch(Backward::<32> { heads, known, qkv_gradient, scratch }),
        other => panic!("no attention kernel for heads of width {other}"),
    }
}

/// The forward pass for heads of one width.
struct Forward<'a, const D: usize> {
    heads: Heads,
    qkv: &'a [f32],
    mixed: &'a mut [f32],
    log_sums: &'a mut [f32],
    scratch: &'a mut Scratch,
}

impl<const D: usize> WithSimd for Forward<'_, D> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { heads, qkv, mixed, log_sums, scratch } = self;
        let (positions, row, width) = (heads.positions, heads.row(), heads.n_heads * D);
        let scale = 1.0 / (D as f32).sqrt();
        let group = heads.n_heads / heads.n_kv_heads;
        for kv_head in 0..heads.n_kv_heads {
            gather::<D>(qkv, row, heads.value_column(kv_head), &mut scratch.values);
            gather_transposed::<D>(qkv, row, heads.key_column(kv_head), positions, &mut scratch.keys_transposed);
            for head in kv_head * group..(kv_head + 1) * group {
                let log_sums = &mut log_sums[head * positions..(head + 1) * positions];
                for first in (0..positions).step_by(QUERIES) {
                    let queries = block_of::<D>(qkv, row, first, head * D, scale);
                    let keys = visible(first);
                    scores(simd, &queries, &scratch.keys_transposed, positions, keys, &mut scratch.weights);
                    let mut inverse_sums = [0.0; QUERIES];
                    for query in 0..QUERIES {
                        let weights = &mut scratch.weights[query * positions..query * positions + keys];
                        let (maximum, total) = softmax_numerators(weights, first + query);
                        log_sums[first + query] = maximum + total.ln();
                        inverse_sums[query] = 1.0 / total;
                    }
                    let sums = weighted_sums::<S, D>(simd, &scratch.weights, positions, &scratch.values, keys);
                    for (query, (sums, inverse)) in sums.iter().zip(inverse_sums).enumerate() {
                        let start = (first + query) * width + head * D;
                        for (mixed, sum) in mixed[start..start + D].iter_mut().zip(sums) {
                            *mixed = sum * inverse;
                        }
                    }
                }
            }
        }
    }
}

/// The backward pass for heads of one width.
struct Backward<'a, const D: usize> {
    heads: Heads,
    known: Known<'a>,
    qkv_gradient: &'a mut [f32],
    scratch: &'a mut Scratch,
}

impl<const D: usize> WithSimd for Backward<'_, D> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { heads, known: Known { qkv, mixed, log_sums, mixed_gradient }, qkv_gradient, scratch } = self;
        let (positions, row, width) = (heads.positions, heads.row(), heads.n_heads * D);
        let scale = 1.0 / (D as f32).sqrt();
        let group = heads.n_heads / heads.n_kv_heads;
        for kv_head in 0..heads.n_kv_heads {
            let (key_column, value_column) = (heads.key_column(kv_head), heads.value_column(kv_head));
            gather::<D>(qkv, row, key_column, &mut scratch.keys);
            gather_transposed::<D>(qkv, row, key_column, positions, &mut scratch.keys_transposed);
            gather_transposed::<D>(qkv, row, value_column, positions, &mut scratch.values_transposed);
            scratch.key_gradient.fill(0.0);
            scratch.value_gradient.fill(0.0);
            for head in kv_head * group..(kv_head + 1) * group {
                let log_sums = &log_sums[head * positions..(head + 1) * positions];
                for first in (0..positions).step_by(QUERIES) {
                    let keys = visible(first);
                    let s = &mut *scratch;
                    let queries = block_of::<D>(qkv, row, first, head * D, scale);
                    let output_gradients = block_of::<D>(mixed_gradient, width, first, head * D, 1.0);
                    let outputs = block_of::<D>(mixed, width, first, head * D, 1.0);
                    scores(simd, &queries, &s.keys_transposed, positions, keys, &mut s.weights);
                    scores(simd, &output_gradients, &s.values_transposed, positions, keys, &mut s.score_gradient);
                    for query in 0..QUERIES {
                        // Σ weight · ∂weight over the keys is the product of the output and its gradient.
                        let product = super::dot(&outputs[query], &output_gradients[query]);
                        let range = query * positions..query * positions + keys;
                        weights_and_gradients(
                            &mut s.weights[range.clone()],
                            &mut s.score_gradient[range],
                            first + query,
                            log_sums[first + query],
                            product,
                        );
                    }
                    let sums = weighted_sums::<S, D>(simd, &s.score_gradient, positions, &s.keys, keys);
                    for (query, sums) in sums.iter().enumerate() {
                        let start = (first + query) * row + head * D;
                        for (gradient, sum) in qkv_gradient[start..start + D].iter_mut().zip(sums) {
                            *gradient = sum * scale;
                        }
                    }
                    // The scale is in the queries already.
                    add_weighted(simd, &mut s.key_gradient, keys, &s.score_gradient, positions, &queries);
                    add_weighted(simd, &mut s.value_gradient, keys, &s.weights, positions, &output_gradients);
                }
            }
            scatter::<D>(&scratch.key_gradient, qkv_gradient, row, key_column);
            scatter::<D>(&scratch.value_gradient, qkv_gradient, row, value_column);
        }
    }
}

/// How many keys the block of queries from `first` may see, in whole vectors. Only the last vector holds keys that come
/// too late for some of them.
#[inline(always)]
fn visible(first: usize) -> usize {
    (first + QUERIES).next_multiple_of(LANES)
}

/// `[position, row]` at one head's column → `[position, D]`.
#[inline(always)]
fn gather<const D: usize>(rows: &[f32], row: usize, column: usize, head: &mut [f32]) {
    for (from, to) in rows.chunks_exact(row).zip(head.as_chunks_mut::<D>().0) {
        to.copy_from_slice(&from[column..column + D]);
    }
}

/// `[position, row]` at one head's column → `[D, position]`.
#[inline(always)]
fn gather_transposed<const D: usize>(rows: &[f32], row: usize, column: usize, positions: usize, head: &mut [f32]) {
    for (position, from) in rows.chunks_exact(row).enumerate() {
        for (i, &value) in from[column..column + D].iter().enumerate() {
            head[i * positions + position] = value;
        }
    }
}

/// `[position, D]` → `[position, row]` at one head's column.
#[inline(always)]
fn scatter<const D: usize>(head: &[f32], rows: &mut [f32], row: usize, column: usize) {
    for (from, to) in head.as_chunks::<D>().0.iter().zip(rows.chunks_exact_mut(row)) {
        to[column..column + D].copy_from_slice(from);
    }
}

/// The vectors of one head at [`QUERIES`] neighbouring positions, times a factor.
#[inline(always)]
fn block_of<const D: usize>(rows: &[f32], row: usize, first: usize, column: usize, factor: f32) -> [[f32; D]; QUERIES] {
    let mut block = [[0.0; D]; QUERIES];
    for (query, vector) in block.iter_mut().enumerate() {
        let start = (first + query) * row + column;
        for (to, from) in vector.iter_mut().zip(&rows[start..start + D]) {
            *to = from * factor;
        }
    }
    block
}

/// scores[query][key] = Σ vectors[query][i] · transposed[i][key], for the first `keys` keys.
#[inline(always)]
fn scores<S: Simd, const D: usize>(
    simd: S,
    vectors: &[[f32; D]; QUERIES],
    transposed: &[f32],
    positions: usize,
    keys: usize,
    scores: &mut [f32],
) {
    let lanes = S::F32_LANES;
    for key in (0..keys).step_by(lanes) {
        let mut sums = [simd.splat_f32s(0.0); QUERIES];
        for i in 0..D {
            let column = S::as_simd_f32s(&transposed[i * positions + key..][..lanes]).0[0];
            for query in 0..QUERIES {
                sums[query] = simd.mul_add_e_f32s(simd.splat_f32s(vectors[query][i]), column, sums[query]);
            }
        }
        for query in 0..QUERIES {
            S::as_mut_simd_f32s(&mut scores[query * positions + key..][..lanes]).0[0] = sums[query];
        }
    }
}

/// Replaces the scores of one query by their exponentials, those of later keys by 0. Returns the largest score, which
/// was subtracted from all, and the sum.
#[inline(always)]
fn softmax_numerators(scores: &mut [f32], position: usize) -> (f32, f32) {
    let (vectors, _) = scores.as_chunks_mut::<LANES>();
    let (last, earlier) = vectors.split_last_mut().expect("every query sees a key");
    let first_key = earlier.len() * LANES;
    for (lane, score) in last.iter_mut().enumerate() {
        *score = if first_key + lane <= position { *score } else { f32::MIN };
    }
    let mut maxima = *last;
    for vector in earlier.iter() {
        for lane in 0..LANES {
            maxima[lane] = if vector[lane] > maxima[lane] { vector[lane] } else { maxima[lane] };
        }
    }
    let maximum = largest(&maxima);
    let mut sums = [0.0f32; LANES];
    for vector in earlier.iter_mut() {
        for lane in 0..LANES {
            vector[lane] = exp(vector[lane] - maximum);
            sums[lane] += vector[lane];
        }
    }
    for lane in 0..LANES {
        let weight = exp(last[lane] - maximum);
        last[lane] = if first_key + lane <= position { weight } else { 0.0 };
        sums[lane] += last[lane];
    }
    (maximum, sum(&sums))
}

/// Replaces scores by weights, and the gradients of weights by those of scores: w = e^(score − log sum),
/// ∂score = w (∂w − Σ w ∂w).
#[inline(always)]
fn weights_and_gradients(scores: &mut [f32], gradients: &mut [f32], position: usize, log_sum: f32, product: f32) {
    let (scores, _) = scores.as_chunks_mut::<LANES>();
    let (gradients, _) = gradients.as_chunks_mut::<LANES>();
    let last = scores.len() - 1;
    for (scores, gradients) in scores[..last].iter_mut().zip(&mut gradients[..last]) {
        for lane in 0..LANES {
            scores[lane] = exp(scores[lane] - log_sum);
            gradients[lane] = scores[lane] * (gradients[lane] - product);
        }
    }
    let (scores, gradients) = (&mut scores[last], &mut gradients[last]);
    for lane in 0..LANES {
        let weight = exp(scores[lane] - log_sum);
        scores[lane] = if last * LANES + lane <= position { weight } else { 0.0 };
        gradients[lane] = scores[lane] * (gradients[lane] - product);
    }
}

/// sums[query] = Σ weights[query][key] · rows[key], over the first `keys` keys; `rows` is `[key, D]`.
#[inline(always)]
fn weighted_sums<S: Simd, const D: usize>(
    simd: S,
    weights: &[f32],
    positions: usize,
    rows: &[f32],
    keys: usize,
) -> [[f32; D]; QUERIES] {
    let vectors_per_row = D / S::F32_LANES;
    let weights = rows_of(weights, positions, keys);
    let rows = &S::as_simd_f32s(rows).0[..keys * vectors_per_row];
    let mut all = [[0.0f32; D]; QUERIES];
    for vector in 0..vectors_per_row {
        let mut sums = [simd.splat_f32s(0.0); QUERIES];
        for key in 0..keys {
            let row = rows[key * vectors_per_row + vector];
            for query in 0..QUERIES {
                sums[query] = simd.mul_add_e_f32s(simd.splat_f32s(weights[query][key]), row, sums[query]);
            }
        }
        for query in 0..QUERIES {
            S::as_mut_simd_f32s(&mut all[query]).0[vector] = sums[query];
        }
    }
    all
}

/// rows[key] += Σ weights[query][key] · vectors[query], for the first `keys` keys; `rows` is `[key, D]`.
#[inline(always)]
fn add_weighted<S: Simd, const D: usize>(
    simd: S,
    rows: &mut [f32],
    keys: usize,
    weights: &[f32],
    positions: usize,
    vectors: &[[f32; D]; QUERIES],
) {
    let vectors_per_row = D / S::F32_LANES;
    let weights = rows_of(weights, positions, keys);
    let rows = &mut S::as_mut_simd_f32s(rows).0[..keys * vectors_per_row];
    for vector in 0..vectors_per_row {
        let vectors: [S::f32s; QUERIES] = std::array::from_fn(|query| S::as_simd_f32s(&vectors[query]).0[vector]);
        for key in 0..keys {
            let mut sum = rows[key * vectors_per_row + vector];
            for query in 0..QUERIES {
                sum = simd.mul_add_e_f32s(simd.splat_f32s(weights[query][key]), vectors[query], sum);
            }
            rows[key * vectors_per_row + vector] = sum;
        }
    }
}

/// `[QUERIES, positions]` → the first `keys` of each row.
#[inline(always)]
fn rows_of(weights: &[f32], positions: usize, keys: usize) -> [&[f32]; QUERIES] {
    std::array::from_fn(|query| &weights[query * positions..query * positions + keys])
}
