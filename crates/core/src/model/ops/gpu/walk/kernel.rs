//! The kernel of a walk. Every loop around a barrier runs equally often for all threads, as WGSL demands: their bounds come from
//! the model's shape, which is part of the kernel.

use burn::cubecl;
use cubecl::prelude::*;

use super::{UNITS, Walk};
use crate::model::NORM_EPSILON;
use crate::model::ops::gpu::attention::rounded;
use crate::model::ops::gpu::matrix::silu;

/// Threads that add up a vector's squares.
const ADDERS: usize = 32;

/// Columns of a matrix that a thread adds up at once, at most: each input that it loads serves all of them.
const COLUMNS: usize = 4;

/// How many columns a thread takes at once of that many, so that few of the threads are left without in the last round.
fn columns(n_out: usize) -> usize {
    let rounds = n_out.div_ceil(UNITS * COLUMNS);
    n_out.div_ceil(UNITS * rounds)
}

#[cube(launch_unchecked)]
pub fn walk_kernel(
    arena: &[f32],
    cache: &mut [f32],
    rotation: &[f32],
    table: &[i32],
    logits: &mut [f32],
    attention: &mut [f32],
    n_slots: usize,
    keys: usize,
    levels: f32,
    #[comptime] walk: Walk,
) {
    let unit = UNIT_POS as usize;
    let mut x = Shared::<[f32]>::new_slice(walk.dim); // the residual stream
    let mut input = Shared::<[f32]>::new_slice(comptime!(walk.input())); // what the next product reads
    let mut wide = Shared::<[f32]>::new_slice(comptime!(walk.output_width())); // what came out of a product
    let mut parts = Shared::<[f32]>::new_slice(UNITS); // what each thread found

    let token = table[5 + keys] as usize;
    for i in range_stepped(unit, walk.dim, UNITS) {
        x[i] = arena[walk.embedding + i * walk.vocab + token];
    }
    sync_cube();
    for layer in 0..walk.n_layers {
        let at = layer * walk.layer_stride;
        let scale = norm(arena, at + walk.attention_norm, &x, &mut input, &mut parts, walk.dim);

        // Queries, keys and values.
        let qkv = comptime!(walk.qkv_width());
        let n = comptime!(columns(qkv));
        for first in range_stepped(unit, qkv, comptime!(n * UNITS)) {
            let sums = product(arena, at + walk.qkv, &input, first, walk.dim, qkv, qkv, n);
            #[unroll]
            for i in 0..n {
                if first + i * UNITS < qkv {
                    wide[first + i * UNITS] = sums[i] * scale;
                }
            }
        }
        sync_cube();
        rotate(&mut wide, rotation, table, comptime!(walk.clone()));
        sync_cube();
        store(&wide, cache, table, layer, n_slots, levels, comptime!(walk.clone()));
        sync_storage();
        attend(&wide, &mut input, &*cache, table, attention, &mut parts, layer, n_slots, keys, comptime!(walk.clone()));
        sync_cube();

        // x + attention
        let width = comptime!(walk.n_heads * walk.head_dim);
        add_product(arena, at + walk.attention_output, &input, &mut x, width, walk.dim);
        sync_cube();

        // x + feed_forward(norm(x))
        let scale = norm(arena, at + walk.feed_forward_norm, &x, &mut input, &mut parts, walk.dim);
        let both = comptime!(2 * walk.hidden);
        let n = comptime!(columns(walk.hidden));
        let at_gate = at + walk.gate_up;
        let at_up = at_gate + walk.hidden;
        for first in range_stepped(unit, walk.hidden, comptime!(n * UNITS)) {
            let gates = product(arena, at_gate, &input, first, walk.dim, walk.hidden, both, n);
            let ups = product(arena, at_up, &input, first, walk.dim, walk.hidden, both, n);
            #[unroll]
            for i in 0..n {
                if first + i * UNITS < walk.hidden {
                    wide[first + i * UNITS] = silu(gates[i] * scale) * (ups[i] * scale);
                }
            }
        }
        sync_cube();
        add_product(arena, at + walk.down, &wide, &mut x, walk.hidden, walk.dim);
        sync_cube();
    }

    let scale = norm(arena, walk.final_norm, &x, &mut input, &mut parts, walk.dim);
    let n = comptime!(columns(walk.vocab));
    for first in range_stepped(unit, walk.vocab, comptime!(n * UNITS)) {
        let sums = product(arena, walk.output, &input, first, walk.dim, walk.vocab, walk.vocab, n);
        #[unroll]
        for i in 0..n {
            if first + i * UNITS < walk.vocab {
                logits[first + i * UNITS] = sums[i] * scale;
            }
        }
    }
}

/// Writes `x` times the norm's weights into `input`, and gives the factor that is still missing.
#[cube]
fn norm(
    arena: &[f32],
    at: usize,
    x: &Shared<[f32]>,
    input: &mut Shared<[f32]>,
    parts: &mut Shared<[f32]>,
    #[comptime] dim: usize,
) -> f32 {
    let unit = UNIT_POS as usize;
    for i in range_stepped(unit, dim, UNITS) {
        input[i] = x[i] * arena[at + i];
    }
    if unit < ADDERS {
        let mut squares = 0.0f32;
        for i in range_stepped(unit, dim, ADDERS) {
            squares += x[i] * x[i];
        }
        parts[unit] = squares;
    }
    sync_cube();
    let mut total = 0.0f32;
    for i in 0..ADDERS {
        total += parts[i];
    }
    (total / f32::cast_from(dim) + NORM_EPSILON).inverse_sqrt()
}

/// Of the product of `input` and the `[n_in, stride]` matrix at `at`, `n` columns from `first` on, each [`UNITS`] from the last.
#[cube]
fn product(
    arena: &[f32],
    at: usize,
    input: &Shared<[f32]>,
    first: usize,
    #[comptime] n_in: usize,
    #[comptime] n_out: usize,
    #[comptime] stride: usize,
    #[comptime] n: usize,
) -> Array<f32> {
    let mut sums = Array::<f32>::new(n);
    for i in 0..n_in {
        let number = input[i];
        #[unroll]
        for column in 0..n {
            // Beyond the last column the last one is read.
            sums[column] += number * arena[at + i * stride + min(first + column * UNITS, n_out - 1)];
        }
    }
    sums
}

/// Adds the product of `input` and the `[n_in, n_out]` matrix at `at` to `x`.
#[cube]
fn add_product(
    arena: &[f32],
    at: usize,
    input: &Shared<[f32]>,
    x: &mut Shared<[f32]>,
    #[comptime] n_in: usize,
    #[comptime] n_out: usize,
) {
    let n = comptime!(columns(n_out));
    for first in range_stepped(UNIT_POS as usize, n_out, comptime!(n * UNITS)) {
        let sums = product(arena, at, input, first, n_in, n_out, n_out, n);
        #[unroll]
        for i in 0..n {
            if first + i * UNITS < n_out {
                x[first + i * UNITS] += sums[i];
            }
        }
    }
}

/// Turns queries and keys by the position's angles.
#[cube]
fn rotate(qkv: &mut Shared<[f32]>, rotation: &[f32], table: &[i32], #[comptime] walk: Walk) {
    let pairs = comptime!((walk.n_heads + walk.n_kv_heads) * walk.head_dim / 2);
    let angles = table[0] as usize * walk.head_dim;
    for pair in range_stepped(UNIT_POS as usize, pairs, UNITS) {
        let even = 2 * pair;
        let cos = rotation[angles + even % walk.head_dim];
        let sin = rotation[angles + even % walk.head_dim + 1];
        let x = qkv[even];
        let y = qkv[even + 1];
        qkv[even] = x * cos - y * sin;
        qkv[even + 1] = x * sin + y * cos;
    }
}

/// Writes the position's keys and values into its slot.
#[cube]
fn store(
    qkv: &Shared<[f32]>,
    cache: &mut [f32],
    table: &[i32],
    layer: usize,
    n_slots: usize,
    levels: f32,
    #[comptime] walk: Walk,
) {
    let heads = comptime!(2 * walk.n_kv_heads);
    let slot = table[1] as usize;
    for i in range_stepped(UNIT_POS as usize, heads * walk.head_dim, UNITS) {
        let head = i / walk.head_dim;
        let at = (walk.n_heads + head) * walk.head_dim;
        let mut number = qkv[at + i % walk.head_dim];
        if levels > 0.0 {
            let mut largest = 0.0f32;
            for other in 0..walk.head_dim {
                largest = max(largest, qkv[at + other].abs());
            }
            number = rounded(number, largest, levels);
        }
        cache[((layer * heads + head) * n_slots + slot) * walk.head_dim + i % walk.head_dim] = number;
    }
}

/// Attention of all heads, of the queries at the front of `qkv`, into `mixed`.
#[cube]
fn attend(
    qkv: &Shared<[f32]>,
    mixed: &mut Shared<[f32]>,
    cache: &[f32],
    table: &[i32],
    attention: &mut [f32],
    parts: &mut Shared<[f32]>,
    layer: usize,
    n_slots: usize,
    keys: usize,
    #[comptime] walk: Walk,
) {
    let unit = UNIT_POS as usize;
    let head_dim = comptime!(walk.head_dim);
    let group = comptime!(walk.n_heads / walk.n_kv_heads);
    let sinks = table[2] as usize;
    let from = table[3] as usize;
    let end = table[4] as usize;
    let scale = comptime!(1.0 / (walk.head_dim as f32).sqrt());
    let weights_at = layer * walk.n_heads * keys;
    let mut sums = Shared::<[f32]>::new_slice(UNITS);

    // Threads are spread over the heads, and those of a head over the keys.
    let lanes = comptime!((UNITS / walk.n_heads.next_power_of_two()).max(1));
    let heads = comptime!(UNITS / lanes);
    let lane = unit % lanes;
    for first in range_stepped(0, walk.n_heads, heads) {
        let head = min(first + unit / lanes, walk.n_heads - 1);
        let own = first + unit / lanes < walk.n_heads;
        let weights_at = weights_at + head * keys;
        let keys_at = (layer * 2 * walk.n_kv_heads + head / group) * n_slots * head_dim;
        let mut largest = f32::min_value();
        if own {
            for key in range_stepped(lane, keys, lanes) {
                let mut score = f32::min_value();
                if key < sinks || (key >= from && key < end) {
                    let key_at = keys_at + table[5 + key] as usize * head_dim;
                    score = 0.0f32;
                    for i in 0..head_dim {
                        score += qkv[head * head_dim + i] * cache[key_at + i];
                    }
                    score *= scale;
                    largest = max(largest, score);
                }
                attention[weights_at + key] = score;
            }
        }
        parts[unit] = largest;
        sync_cube();
        for i in 0..lanes {
            largest = max(largest, parts[unit / lanes * lanes + i]);
        }
        let mut sum = 0.0f32;
        if own {
            for key in range_stepped(lane, keys, lanes) {
                let weight = (attention[weights_at + key] - largest).exp();
                attention[weights_at + key] = weight;
                sum += weight;
            }
        }
        sums[unit] = sum;
        sync_cube();
        let mut total = 0.0f32;
        for i in 0..lanes {
            total += sums[unit / lanes * lanes + i];
        }
        if own {
            for key in range_stepped(lane, keys, lanes) {
                attention[weights_at + key] /= total;
            }
        }
        sync_storage();
    }

    let width = comptime!(walk.n_heads * walk.head_dim);
    for component in range_stepped(unit, width, UNITS) {
        let head = component / head_dim;
        let values_at = ((layer * 2 + 1) * walk.n_kv_heads + head / group) * n_slots * head_dim + component % head_dim;
        let mut number = 0.0f32;
        for key in 0..keys {
            let weight = attention[weights_at + head * keys + key];
            number += weight * cache[values_at + table[5 + key] as usize * head_dim];
        }
        mixed[component] = number;
    }
}
