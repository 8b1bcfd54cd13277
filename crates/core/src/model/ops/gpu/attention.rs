//! *Attention* in two steps: `store` puts rotated keys, and values, of the new positions into the cache; `attend` weighs all
//! keys that a position sees against its query, and mixes their values by those weights.

use burn::cubecl;
use cubecl::calculate_cube_count_elemwise;
use cubecl::prelude::*;

use super::{Buffer, argument, empty, owned};
use crate::model::ops::Reach;

/// Threads of a workgroup, which serves one head of one position.
const UNITS: usize = 32;

/// Keys whose weights fit into workgroup memory.
pub const MAX_KEYS: usize = 2048;

/// Components of a head that fit there beside them.
pub const MAX_HEAD_DIM: usize = 128;

/// The attention of one sequence: `mixed`, the cache buffer and the weights `[n_heads, observed, keys]`.
///
/// # Panics
/// No more than [`MAX_KEYS`] keys are read.
pub fn attend(
    qkv: Buffer,
    mixed: Buffer,
    cache: Buffer,
    rotation: Buffer,
    table: Buffer,
    reach: Reach,
) -> (Buffer, Buffer, Buffer) {
    assert!(reach.keys <= MAX_KEYS, "attention to {} keys", reach.keys);
    let cache = owned(cache);
    let mixed = owned(mixed);
    let weights = empty(&qkv, [reach.n_heads, reach.observed, reach.keys]);
    let n_slots = cache.meta.shape()[3];
    store(&qkv, &cache, &rotation, &table, &reach);
    let client = qkv.client.clone();
    // SAFETY: there is a workgroup for each head and position, no more; what the table says is the caller's promise.
    unsafe {
        attend_kernel::launch_unchecked(
            &client,
            CubeCount::Static(reach.n_heads as u32, reach.positions as u32, 1),
            CubeDim::new_1d(UNITS as u32),
            argument(qkv),
            argument(mixed.clone()),
            argument(cache.clone()),
            argument(rotation),
            argument(table),
            argument(weights.clone()),
            shape(&reach, n_slots),
            reach.observed,
        );
    }
    (mixed, cache, weights)
}

/// Where things lie in the buffers of one layer's attention.
#[derive(CubeType, CubeLaunch, Clone, Copy)]
#[expand(derive(Clone, Copy))]
struct Shape {
    /// Whose keys are the first in the cache, of both keys and values of all layers.
    first_head: usize,
    n_heads: usize,
    n_kv_heads: usize,
    head_dim: usize,
    n_slots: usize,
    first_row: usize,
    positions: usize,
    keys: usize,
    /// Threads are spread over a vector's components first, these, and what is left of them over the keys.
    lanes: usize,
}

fn shape(reach: &Reach, n_slots: usize) -> ShapeLaunch {
    ShapeLaunch::new(
        reach.layer * 2 * reach.n_kv_heads,
        reach.n_heads,
        reach.n_kv_heads,
        reach.head_dim,
        n_slots,
        reach.first_row,
        reach.positions,
        reach.keys,
        reach.head_dim.next_power_of_two().min(UNITS),
    )
}

fn store(qkv: &Buffer, cache: &Buffer, rotation: &Buffer, table: &Buffer, reach: &Reach) {
    let total = reach.positions * 2 * reach.n_kv_heads * reach.head_dim;
    let units = CubeDim::new_1d(UNITS as u32);
    // SAFETY: the kernel checks its position among the numbers stored; that slots are the cache's is the caller's promise.
    unsafe {
        store_kernel::launch_unchecked(
            &qkv.client,
            calculate_cube_count_elemwise(&qkv.client, total, units),
            units,
            argument(qkv.clone()),
            argument(cache.clone()),
            argument(rotation.clone()),
            argument(table.clone()),
            shape(reach, cache.meta.shape()[3]),
            reach.levels.unwrap_or(0.0),
        );
    }
}

/// A thread for each number of each new key and value.
#[cube(launch_unchecked)]
fn store_kernel(qkv: &[f32], cache: &mut [f32], rotation: &[f32], table: &[i32], shape: Shape, levels: f32) {
    let head_dim = shape.head_dim;
    let heads = 2 * shape.n_kv_heads;
    if ABSOLUTE_POS < shape.positions * heads * head_dim {
        let component = ABSOLUTE_POS % head_dim;
        let head = ABSOLUTE_POS / head_dim % heads;
        let position = ABSOLUTE_POS / head_dim / heads;
        let row = shape.first_row + position;
        let at = (row * (shape.n_heads + heads) + shape.n_heads + head) * head_dim;
        let angles = table[position] as usize * head_dim;
        let slot = table[shape.positions + position] as usize;
        let is_key = head < shape.n_kv_heads;

        let mut number = stored(qkv, at, component, rotation, angles, is_key);
        if levels > 0.0 {
            let mut largest = 0.0f32;
            for i in 0..head_dim {
                largest = max(largest, stored(qkv, at, i, rotation, angles, is_key).abs());
            }
            number = rounded(number, largest, levels);
        }
        cache[((shape.first_head + head) * shape.n_slots + slot) * head_dim + component] = number;
    }
}

#[cube]
fn stored(qkv: &[f32], at: usize, component: usize, rotation: &[f32], angles: usize, is_key: bool) -> f32 {
    let mut number = qkv[at + component];
    if is_key {
        number = turned(qkv, at, component, rotation, angles);
    }
    number
}

/// A component of the vector at `at`, turned by the position's angles.
#[cube]
fn turned(vectors: &[f32], at: usize, component: usize, rotation: &[f32], angles: usize) -> f32 {
    let even = component / 2 * 2;
    let cos = rotation[angles + even];
    let sin = rotation[angles + even + 1];
    let x = vectors[at + even];
    let y = vectors[at + even + 1];
    select(component == even, x * cos - y * sin, x * sin + y * cos)
}

/// A number of a vector as a whole number up to `levels` can say it, times the vector's scale.
#[cube]
pub fn rounded(number: f32, largest: f32, levels: f32) -> f32 {
    // A vector of zeros has no scale of its own.
    let scale = max(largest, 1e-12) / levels;
    (number / scale).round() * scale
}

#[cube(launch_unchecked)]
fn attend_kernel(
    qkv: &[f32],
    mixed: &mut [f32],
    cache: &[f32],
    rotation: &[f32],
    table: &[i32],
    weights: &mut [f32],
    shape: Shape,
    observed: usize,
) {
    let head = CUBE_POS_X as usize;
    let position = CUBE_POS_Y as usize;
    let unit = UNIT_POS as usize;
    let head_dim = shape.head_dim;
    let row = shape.first_row + position;

    // What the table says of this position.
    let angles = table[position] as usize * head_dim;
    let sinks = table[2 * shape.positions + position] as usize;
    let from = table[3 * shape.positions + position] as usize;
    let end = table[4 * shape.positions + position] as usize;
    let seen_end = max(sinks, end);
    let slots = 5 * shape.positions;

    let mut query = Shared::<[f32]>::new_slice(MAX_HEAD_DIM);
    let mut scores = Shared::<[f32]>::new_slice(MAX_KEYS);
    let mut parts = Shared::<[f32]>::new_slice(UNITS);

    let at = (row * (shape.n_heads + 2 * shape.n_kv_heads) + head) * head_dim;
    let scale = f32::cast_from(head_dim).inverse_sqrt();
    for i in range_stepped(unit, head_dim, UNITS) {
        query[i] = turned(qkv, at, i, rotation, angles) * scale;
    }
    sync_cube();

    let kv_head = head * shape.n_kv_heads / shape.n_heads;
    let keys_at = (shape.first_head + kv_head) * shape.n_slots * head_dim;
    let values_at = keys_at + shape.n_kv_heads * shape.n_slots * head_dim;
    let mut largest = f32::min_value();
    for key in range_stepped(unit, seen_end, UNITS) {
        if key < sinks || key >= from {
            let key_at = keys_at + table[slots + key] as usize * head_dim;
            let mut score = 0.0f32;
            for i in 0..head_dim {
                score += query[i] * cache[key_at + i];
            }
            scores[key] = score;
            largest = max(largest, score);
        }
    }
    parts[unit] = largest;
    sync_cube();
    for i in 0..UNITS {
        largest = max(largest, parts[i]);
    }
    sync_cube();

    let mut sum = 0.0f32;
    for key in range_stepped(unit, seen_end, UNITS) {
        let mut weight = 0.0f32;
        if key < sinks || key >= from {
            weight = (scores[key] - largest).exp();
        }
        scores[key] = weight;
        sum += weight;
    }
    parts[unit] = sum;
    sync_cube();
    let mut total = 0.0f32;
    for i in 0..UNITS {
        total += parts[i];
    }
    sync_cube();

    if position + observed >= shape.positions {
        let of = position + observed - shape.positions;
        for key in range_stepped(unit, shape.keys, UNITS) {
            let mut weight = 0.0f32;
            if key < seen_end {
                weight = scores[key] / total;
            }
            weights[(head * observed + of) * shape.keys + key] = weight;
        }
    }

    let lanes = shape.lanes;
    let lane = unit % lanes;
    let part = unit / lanes;
    let n_parts = UNITS / lanes;
    for first in range_stepped(0, head_dim, lanes) {
        let component = min(first + lane, head_dim - 1);
        let mut number = 0.0f32;
        for key in range_stepped(part, seen_end, n_parts) {
            let weight = scores[key];
            number += weight * cache[values_at + table[slots + key] as usize * head_dim + component];
        }
        parts[unit] = number;
        sync_cube();
        if part == 0 && first + lane < head_dim {
            for i in 1..n_parts {
                number += parts[i * lanes + lane];
            }
            mixed[(row * shape.n_heads + head) * head_dim + component] = number / total;
        }
        sync_cube();
    }
}
