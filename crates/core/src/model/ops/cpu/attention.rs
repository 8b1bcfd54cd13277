//! *Attention* of one sequence over its cache buffer, a KV head at a time: the new columns are written, then each query of the
//! head's group looks at the keys that it sees.

use std::ops::Range;

use wide::{f32x4, f32x8};

use super::super::{Reach, Table};
use super::exp::exp;

/// Numbers that go through an exponential at once.
const LANES: usize = 8;

/// One layer's attention for one sequence.
pub struct Attention<'a> {
    pub reach: Reach,
    pub table: Table<'a>,
    /// `[position, head_dim]`, cosine and sine of each pair's angle.
    pub rotation: &'a [f32],
    /// `[row, (n_heads + 2 n_kv_heads) · head_dim]`
    pub qkv: &'a [f32],
}

/// Room for one query, and what all heads share.
struct Scratch {
    query: Vec<f32>,
    /// A score, then a weight, for each key that is seen; filled up to whole vectors.
    scores: Vec<f32>,
    /// The slots of the keys that each query sees, neighbours as ranges.
    seen: Vec<Vec<Range<usize>>>,
}

impl Attention<'_> {
    /// Writes the new columns into `layer`, `[2, kv head, slot, head_dim]`, and fills the sequence's rows of `mixed`,
    /// `[row, n_heads · head_dim]`. `weights` is `[n_heads, observed, keys]`, all zeros.
    pub fn run(&self, layer: &mut [f32], mixed: &mut [f32], weights: &mut [f32]) {
        let Reach { n_kv_heads, head_dim, keys, .. } = self.reach;
        let (all_keys, all_values) = layer.split_at_mut(layer.len() / 2);
        let one = all_keys.len() / n_kv_heads;
        let scores = vec![0.0; keys.next_multiple_of(LANES)];
        let seen = (0..self.reach.positions).map(|index| self.seen(index)).collect();
        let mut scratch = Scratch { query: vec![0.0; head_dim], scores, seen };
        for kv_head in 0..n_kv_heads {
            let keys = &mut all_keys[kv_head * one..][..one]; // [slot, head_dim]
            let values = &mut all_values[kv_head * one..][..one]; // [slot, head_dim]
            self.write_columns(kv_head, keys, values);
            // The usual widths are compiled by themselves, so that a head's vector stays in registers.
            match head_dim {
                8 => self.look::<2>(kv_head, keys, values, mixed, weights, &mut scratch),
                16 => self.look::<4>(kv_head, keys, values, mixed, weights, &mut scratch),
                32 => self.look::<8>(kv_head, keys, values, mixed, weights, &mut scratch),
                _ => self.look::<0>(kv_head, keys, values, mixed, weights, &mut scratch),
            }
        }
    }

    fn write_columns(&self, kv_head: usize, keys: &mut [f32], values: &mut [f32]) {
        let Reach { n_heads, n_kv_heads, head_dim, levels, .. } = self.reach;
        for (index, &slot) in self.table.slots.iter().enumerate() {
            let slot = slot as usize * head_dim..(slot as usize + 1) * head_dim;
            let (key, value) = (&mut keys[slot.clone()], &mut values[slot]);
            self.rotate(index, n_heads + kv_head, 1.0, key);
            value.copy_from_slice(self.head(index, n_heads + n_kv_heads + kv_head));
            if let Some(levels) = levels {
                round(key, levels);
                round(value, levels);
            }
        }
    }

    /// All queries of a KV head's group. `Q` is the head's width in vectors of four, or 0 where it has no code of its own.
    fn look<const Q: usize>(
        &self,
        kv_head: usize,
        keys: &[f32],
        values: &[f32],
        mixed: &mut [f32],
        weights: &mut [f32],
        scratch: &mut Scratch,
    ) {
        let Reach { n_heads, n_kv_heads, head_dim, first_row, positions, observed, .. } = self.reach;
        let group = n_heads / n_kv_heads;
        let width = n_heads * head_dim;
        let scale = 1.0 / (head_dim as f32).sqrt();
        let Scratch { query, scores, seen } = scratch;
        for (index, runs) in seen.iter().enumerate() {
            let [sinks, from, end] = self.bounds(index);
            let count = sinks + end - from;
            for head in kv_head * group..(kv_head + 1) * group {
                self.rotate(index, head, scale, query);
                let padded = &mut scores[..count.next_multiple_of(LANES)];
                score::<Q>(query, keys, runs, padded);
                padded[count..].fill(f32::NEG_INFINITY);
                softmax(padded);
                let output = &mut mixed[(first_row + index) * width + head * head_dim..][..head_dim];
                mix::<Q>(padded, values, runs, output);
                if let Some(row) = (index + observed).checked_sub(positions) {
                    let row = &mut weights[(head * observed + row) * self.reach.keys..][..self.reach.keys];
                    row[..sinks].copy_from_slice(&padded[..sinks]);
                    row[from..end].copy_from_slice(&padded[sinks..count]);
                }
            }
        }
    }

    /// The keys that the query of row `index` sees, as indices: up to the first number, and from the second to the third.
    fn bounds(&self, index: usize) -> [usize; 3] {
        [self.table.sinks, self.table.from, self.table.end].map(|of| of[index] as usize)
    }

    /// The slots of those keys, neighbours as ranges: one range for a cache in one piece.
    fn seen(&self, index: usize) -> Vec<Range<usize>> {
        let [sinks, from, end] = self.bounds(index);
        let mut runs: Vec<Range<usize>> = Vec::new();
        for &slot in self.table.keys[..sinks].iter().chain(&self.table.keys[from..end]) {
            let slot = slot as usize;
            match runs.last_mut() {
                Some(run) if run.end == slot => run.end += 1,
                _ => runs.push(slot..slot + 1),
            }
        }
        runs
    }

    /// One head's vector in the sequence's row `index`: queries come first, then keys, then values.
    fn head(&self, index: usize, head: usize) -> &[f32] {
        let Reach { n_heads, n_kv_heads, head_dim, first_row, .. } = self.reach;
        &self.qkv[((first_row + index) * (n_heads + 2 * n_kv_heads) + head) * head_dim..][..head_dim]
    }

    /// That vector turned to its position's angles, times `scale`.
    fn rotate(&self, index: usize, head: usize, scale: f32, rotated: &mut [f32]) {
        let head_dim = self.reach.head_dim;
        let angles = &self.rotation[self.table.positions[index] as usize * head_dim..][..head_dim];
        let (pairs, _) = self.head(index, head).as_chunks::<2>();
        for ((to, &[even, odd]), &[cos, sin]) in
            rotated.as_chunks_mut::<2>().0.iter_mut().zip(pairs).zip(angles.as_chunks::<2>().0)
        {
            *to = [(even * cos - odd * sin) * scale, (even * sin + odd * cos) * scale];
        }
    }
}

/// The product of the query with each key of the runs.
#[inline(always)]
fn score<const Q: usize>(query: &[f32], keys: &[f32], runs: &[Range<usize>], scores: &mut [f32]) {
    let head_dim = query.len();
    let mut rest = scores;
    for run in runs {
        let keys = &keys[run.start * head_dim..run.end * head_dim];
        let (scores, behind) = std::mem::take(&mut rest).split_at_mut(run.len());
        rest = behind;
        if Q == 0 {
            for (key, score) in keys.chunks_exact(head_dim).zip(scores) {
                *score = query.iter().zip(key).map(|(a, b)| a * b).sum();
            }
            continue;
        }
        let query: &[[f32; 4]] = &query.as_chunks().0[..Q];
        let products = |key: &[[f32; 4]]| {
            let mut sum = f32x4::new(query[0]) * f32x4::new(key[0]);
            for part in 1..Q {
                sum += f32x4::new(query[part]) * f32x4::new(key[part]);
            }
            sum
        };
        // Four keys at a time, whose sums are then added up side by side, in the order of one by itself.
        let mut keys = keys.as_chunks::<4>().0.chunks_exact(Q);
        let (fours, ones) = scores.as_chunks_mut::<4>();
        for scores in fours {
            let mut next = || products(keys.next().expect("a key for each score"));
            let [a, b, c, d] = f32x4::transpose([next(), next(), next(), next()]);
            *scores = ((a + c) + (b + d)).to_array();
        }
        for (key, score) in keys.zip(ones) {
            let [a, b, c, d] = products(key).to_array();
            *score = (a + c) + (b + d);
        }
    }
}

/// The sum of the runs' value vectors, each times its weight.
#[inline(always)]
fn mix<const Q: usize>(weights: &[f32], values: &[f32], runs: &[Range<usize>], output: &mut [f32]) {
    let head_dim = output.len();
    let mut weights = weights.iter();
    if Q == 0 {
        output.fill(0.0);
        for run in runs {
            let values = values[run.start * head_dim..run.end * head_dim].chunks_exact(head_dim);
            for (value, weight) in values.zip(&mut weights) {
                output.iter_mut().zip(value).for_each(|(output, value)| *output += weight * value);
            }
        }
        return;
    }
    let mut sums = [f32x4::ZERO; Q];
    for run in runs {
        let values = &values[run.start * head_dim..run.end * head_dim];
        for (value, &weight) in values.as_chunks::<4>().0.chunks_exact(Q).zip(&mut weights) {
            let weight = f32x4::splat(weight);
            for (sum, &part) in sums.iter_mut().zip(value) {
                *sum += weight * f32x4::new(part);
            }
        }
    }
    for (output, sum) in output.as_chunks_mut::<4>().0.iter_mut().zip(sums) {
        *output = sum.to_array();
    }
}

/// Scores to weights, in place: whole vectors, of which −∞ counts nothing.
fn softmax(scores: &mut [f32]) {
    let (parts, _) = scores.as_chunks_mut::<LANES>();
    let largest = parts.iter().fold(f32x8::splat(f32::MIN), |largest, &part| largest.fast_max(f32x8::new(part)));
    // Not `f32::max`, which knows what to do about NaN and is a call.
    let largest = largest.to_array().into_iter().fold(f32::MIN, |a, b| if a > b { a } else { b });
    let mut sums = f32x8::ZERO;
    for part in parts.iter_mut() {
        let powers = exp(f32x8::new(*part) - f32x8::splat(largest));
        sums += powers;
        *part = powers.to_array();
    }
    let share = f32x8::splat(1.0 / sums.reduce_add());
    for part in parts {
        *part = (f32x8::new(*part) * share).to_array();
    }
}

/// Each number becomes a whole number from −`levels` to `levels`, times a scale that all of them share.
fn round(vector: &mut [f32], levels: f32) {
    // A vector of zeros has no scale of its own.
    let scale = vector.iter().fold(1e-12f32, |largest, number| largest.max(number.abs())) / levels;
    vector.iter_mut().for_each(|number| *number = (*number / scale).round_ties_even() * scale);
}
