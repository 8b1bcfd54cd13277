//! Causal attention of one sequence and its gradient, with grouped queries (Ainslie et al. 2023).
//!
//! Neither pass stores the weights: both go through the queries in blocks of [`QUERIES`], whose scores lie in the nearest
//! cache, and the backward pass makes them again from the logarithm of their sum (Dao et al. 2022, "FlashAttention").
//! Keys that come later than a block are never touched, which halves the work.

use multiversion::multiversion;

use super::{LANES, exp, largest, sum};

/// Queries that are worked on together: each key is loaded once for all of them.
const QUERIES: usize = 8;

/// Widths of a head that the kernels are compiled for.
pub const HEAD_DIMS: [usize; 3] = [8, 16, 32];

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
        8 => forward_of::<8>(heads, qkv, mixed, log_sums, scratch),
        16 => forward_of::<16>(heads, qkv, mixed, log_sums, scratch),
        32 => forward_of::<32>(heads, qkv, mixed, log_sums, scratch),
        other => panic!("no attention kernel for heads of width {other}"),
    }
}

/// Writes the gradient of the rotated queries, keys and values to `qkv_gradient`. Shapes as for [`forward`].
pub fn backward(
    heads: Heads,
    qkv: &[f32],
    mixed: &[f32],
    log_sums: &[f32],
    mixed_gradient: &[f32],
    qkv_gradient: &mut [f32],
    scratch: &mut Scratch,
) {
    match heads.head_dim {
        8 => backward_of::<8>(heads, qkv, mixed, log_sums, mixed_gradient, qkv_gradient, scratch),
        16 => backward_of::<16>(heads, qkv, mixed, log_sums, mixed_gradient, qkv_gradient, scratch),
        32 => backward_of::<32>(heads, qkv, mixed, log_sums, mixed_gradient, qkv_gradient, scratch),
        other => panic!("no attention kernel for heads of width {other}"),
    }
}

#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl+avx2+fma", "x86_64+avx2+fma"))]
fn forward_of<const D: usize>(
    heads: Heads,
    qkv: &[f32],
    mixed: &mut [f32],
    log_sums: &mut [f32],
    scratch: &mut Scratch,
) {
    let (positions, row, width) = (heads.positions, heads.row(), heads.n_heads * D);
    let scale = 1.0 / (D as f32).sqrt();
    let group = heads.n_heads / heads.n_kv_heads;
    for kv_head in 0..heads.n_kv_heads {
        gather::<D>(qkv, row, heads.value_column(kv_head), &mut scratch.values);
        gather_transposed::<D>(qkv, row, heads.key_column(kv_head), positions, &mut scratch.keys_transposed);
        let (values, _) = scratch.values.as_chunks::<D>();
        for head in kv_head * group..(kv_head + 1) * group {
            let log_sums = &mut log_sums[head * positions..(head + 1) * positions];
            for first in (0..positions).step_by(QUERIES) {
                let queries = block_of::<D>(qkv, row, first, head * D, scale);
                let keys = visible(first);
                scores::<D>(&queries, &scratch.keys_transposed, positions, keys, &mut scratch.weights);
                let mut inverse_sums = [0.0; QUERIES];
                for query in 0..QUERIES {
                    let weights = &mut scratch.weights[query * positions..query * positions + keys];
                    let (maximum, total) = softmax_numerators(weights, first + query);
                    log_sums[first + query] = maximum + total.ln();
                    inverse_sums[query] = 1.0 / total;
                }
                let sums = weighted_sums::<D>(&scratch.weights, positions, &values[..keys]);
                for query in 0..QUERIES {
                    let start = (first + query) * width + head * D;
                    for i in 0..D {
                        mixed[start + i] = sums[query][i] * inverse_sums[query];
                    }
                }
            }
        }
    }
}

#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl+avx2+fma", "x86_64+avx2+fma"))]
fn backward_of<const D: usize>(
    heads: Heads,
    qkv: &[f32],
    mixed: &[f32],
    log_sums: &[f32],
    mixed_gradient: &[f32],
    qkv_gradient: &mut [f32],
    scratch: &mut Scratch,
) {
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
                let queries = block_of::<D>(qkv, row, first, head * D, scale);
                let output_gradients = block_of::<D>(mixed_gradient, width, first, head * D, 1.0);
                let outputs = block_of::<D>(mixed, width, first, head * D, 1.0);
                scores::<D>(&queries, &scratch.keys_transposed, positions, keys, &mut scratch.weights);
                scores::<D>(
                    &output_gradients,
                    &scratch.values_transposed,
                    positions,
                    keys,
                    &mut scratch.score_gradient,
                );
                for query in 0..QUERIES {
                    // Σ weight · ∂weight over the keys is the product of the output and its gradient.
                    let mut product = 0.0;
                    for i in 0..D {
                        product += outputs[query][i] * output_gradients[query][i];
                    }
                    let range = query * positions..query * positions + keys;
                    weights_and_gradients(
                        &mut scratch.weights[range.clone()],
                        &mut scratch.score_gradient[range],
                        first + query,
                        log_sums[first + query],
                        product,
                    );
                }
                let (keys_rows, _) = scratch.keys.as_chunks::<D>();
                let sums = weighted_sums::<D>(&scratch.score_gradient, positions, &keys_rows[..keys]);
                for query in 0..QUERIES {
                    let start = (first + query) * row + head * D;
                    for i in 0..D {
                        qkv_gradient[start + i] = sums[query][i] * scale;
                    }
                }
                // The scale is in the queries already.
                let (key_gradient, _) = scratch.key_gradient.as_chunks_mut::<D>();
                add_weighted::<D>(&mut key_gradient[..keys], &scratch.score_gradient, positions, &queries);
                let (value_gradient, _) = scratch.value_gradient.as_chunks_mut::<D>();
                add_weighted::<D>(&mut value_gradient[..keys], &scratch.weights, positions, &output_gradients);
            }
        }
        scatter::<D>(&scratch.key_gradient, qkv_gradient, row, key_column);
        scatter::<D>(&scratch.value_gradient, qkv_gradient, row, value_column);
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
fn scores<const D: usize>(
    vectors: &[[f32; D]; QUERIES],
    transposed: &[f32],
    positions: usize,
    keys: usize,
    scores: &mut [f32],
) {
    for key in (0..keys).step_by(LANES) {
        let mut sums = [[0.0f32; LANES]; QUERIES];
        for i in 0..D {
            let column: &[f32; LANES] = transposed[i * positions + key..].first_chunk().expect("whole vectors");
            for query in 0..QUERIES {
                for lane in 0..LANES {
                    sums[query][lane] = vectors[query][i].mul_add(column[lane], sums[query][lane]);
                }
            }
        }
        for query in 0..QUERIES {
            let start = query * positions + key;
            scores[start..start + LANES].copy_from_slice(&sums[query]);
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

/// sums[query] = Σ weights[query][key] · rows[key].
#[inline(always)]
fn weighted_sums<const D: usize>(weights: &[f32], positions: usize, rows: &[[f32; D]]) -> [[f32; D]; QUERIES] {
    let weights: [&[f32]; QUERIES] =
        std::array::from_fn(|query| &weights[query * positions..query * positions + rows.len()]);
    let mut sums = [[0.0f32; D]; QUERIES];
    for (key, row) in rows.iter().enumerate() {
        for query in 0..QUERIES {
            let weight = weights[query][key];
            for i in 0..D {
                sums[query][i] = weight.mul_add(row[i], sums[query][i]);
            }
        }
    }
    sums
}

/// rows[key] += Σ weights[query][key] · vectors[query].
#[inline(always)]
fn add_weighted<const D: usize>(
    rows: &mut [[f32; D]],
    weights: &[f32],
    positions: usize,
    vectors: &[[f32; D]; QUERIES],
) {
    let n = rows.len();
    let weights: [&[f32]; QUERIES] = std::array::from_fn(|query| &weights[query * positions..query * positions + n]);
    for (key, row) in rows.iter_mut().enumerate() {
        let mut sums = *row;
        for query in 0..QUERIES {
            let weight = weights[query][key];
            for i in 0..D {
                sums[i] = weight.mul_add(vectors[query][i], sums[i]);
            }
        }
        *row = sums;
    }
}
