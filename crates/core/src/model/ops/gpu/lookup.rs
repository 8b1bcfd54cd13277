//! A *look-up* copies numbers from where others say: tokens name columns of the embedding, positions name slots of the cache.

use burn::cubecl;
use cubecl::calculate_cube_count_elemwise;
use cubecl::prelude::*;

use super::{Buffer, argument, empty};
use crate::model::ops::Size;

const UNITS: u32 = 64;

pub fn embed(embedding: Buffer, ids: Buffer, size: Size) -> Buffer {
    let x = empty(&embedding, [ids.meta.shape()[0], size.n_in]);
    copy(embedding, ids, x, [size.n_in, 1, size.n_out])
}

pub fn rows(x: Buffer, ids: Buffer) -> Buffer {
    let dim = x.meta.shape()[1];
    let y = empty(&x, [ids.meta.shape()[0], dim]);
    copy(x, ids, y, [dim, dim, 1])
}

/// Row `i` of `y`, `[row, n]`, is the numbers of `x` at `ids[i] · across + 0..n · along`.
fn copy(x: Buffer, ids: Buffer, y: Buffer, [n, across, along]: [usize; 3]) -> Buffer {
    let (count, units) = elementwise(&y);
    // SAFETY: the kernel checks its position in `y`; what `ids` may be is the caller's promise.
    unsafe {
        copy_kernel::launch_unchecked(
            &y.client.clone(),
            count,
            units,
            argument(x),
            argument(ids),
            argument(y.clone()),
            y.meta.num_elements(),
            n,
            across,
            along,
        );
    }
    y
}

#[cube(launch_unchecked)]
fn copy_kernel(x: &[f32], ids: &[i32], y: &mut [f32], total: usize, n: usize, across: usize, along: usize) {
    if ABSOLUTE_POS < total {
        let id = ids[ABSOLUTE_POS / n] as usize;
        y[ABSOLUTE_POS] = x[id * across + ABSOLUTE_POS % n * along];
    }
}

pub fn columns(cache: Buffer, slots: Buffer) -> Buffer {
    let [n_layers, _, n_kv_heads, n_slots, head_dim] = cache.meta.shape().dims();
    let positions = slots.meta.shape()[0];
    let columns = empty(&cache, [n_layers, 2, positions, n_kv_heads, head_dim]);
    let (count, units) = elementwise(&columns);
    // SAFETY: the kernel checks its position in the columns; that slots are the cache's is the caller's promise.
    unsafe {
        columns_kernel::launch_unchecked(
            &columns.client.clone(),
            count,
            units,
            argument(cache),
            argument(slots),
            argument(columns.clone()),
            columns.meta.num_elements(),
            positions,
            n_kv_heads,
            n_slots,
            head_dim,
        );
    }
    columns
}

#[cube(launch_unchecked)]
fn columns_kernel(
    cache: &[f32],
    slots: &[i32],
    columns: &mut [f32],
    total: usize,
    positions: usize,
    n_kv_heads: usize,
    n_slots: usize,
    head_dim: usize,
) {
    if ABSOLUTE_POS < total {
        let component = ABSOLUTE_POS % head_dim;
        let vector = ABSOLUTE_POS / head_dim;
        let head = vector % n_kv_heads;
        let position = vector / n_kv_heads % positions;
        let half = vector / n_kv_heads / positions; // keys or values of a layer
        let slot = slots[position] as usize;
        columns[ABSOLUTE_POS] = cache[((half * n_kv_heads + head) * n_slots + slot) * head_dim + component];
    }
}

pub fn moved(cache: Buffer, moves: Buffer, slots: usize) -> Buffer {
    let [n_layers, _, n_kv_heads, old_slots, head_dim] = cache.meta.shape().dims();
    let new = empty(&cache, [n_layers, 2, n_kv_heads, slots, head_dim]);
    let n_moves = moves.meta.shape()[1];
    let total = n_layers * 2 * n_kv_heads * n_moves * head_dim;
    if total == 0 {
        return new;
    }
    let units = CubeDim::new_1d(UNITS);
    // SAFETY: the kernel checks its position among the numbers moved; that slots are the caches' is the caller's promise.
    unsafe {
        moved_kernel::launch_unchecked(
            &new.client.clone(),
            calculate_cube_count_elemwise(&new.client, total, units),
            units,
            argument(cache),
            argument(moves),
            argument(new.clone()),
            total,
            n_moves,
            old_slots,
            slots,
            head_dim,
        );
    }
    new
}

#[cube(launch_unchecked)]
fn moved_kernel(
    old: &[f32],
    moves: &[i32],
    new: &mut [f32],
    total: usize,
    n_moves: usize,
    old_slots: usize,
    new_slots: usize,
    head_dim: usize,
) {
    if ABSOLUTE_POS < total {
        let component = ABSOLUTE_POS % head_dim;
        let column = ABSOLUTE_POS / head_dim % n_moves;
        let head = ABSOLUTE_POS / head_dim / n_moves; // of any layer, of keys or of values
        let from = moves[column] as usize;
        let to = moves[n_moves + column] as usize;
        new[(head * new_slots + to) * head_dim + component] = old[(head * old_slots + from) * head_dim + component];
    }
}

/// A thread for each number of a tensor.
fn elementwise(tensor: &Buffer) -> (CubeCount, CubeDim) {
    let units = CubeDim::new_1d(UNITS);
    (calculate_cube_count_elemwise(&tensor.client, tensor.meta.num_elements(), units), units)
}
