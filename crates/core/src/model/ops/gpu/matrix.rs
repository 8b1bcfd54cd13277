//! A *product* is a matrix applied to rows, with what stands beside it in a decoder's block: the norm in front of it, the
//! residual that it is added to, or the gate of a SwiGLU.
//!
//! A workgroup fills a tile of the result: a few rows by a few columns for each of its threads. Neighbouring threads read
//! neighbouring weights, and a thread uses each weight for every row. Rows come by way of workgroup memory, a stretch at a time.

use burn::cubecl;
use cubecl::prelude::*;

use super::{Buffer, argument, empty};
use crate::model::NORM_EPSILON;
use crate::model::ops::Size;

/// Threads of a workgroup.
const UNITS: usize = 32;

/// What each thread of a workgroup computes, of how many rows and columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Tile {
    rows: usize,
    columns: usize,
}

impl Tile {
    /// The more numbers a thread holds, the fewer it has to load for each product; a gated one holds two of each. A single row
    /// is spread over as many threads as there are columns.
    fn of(n_rows: usize, kind: Product) -> Self {
        match (n_rows, kind) {
            (1, _) => Self { rows: 1, columns: 1 },
            (_, Product::Gated) => Self { rows: 8, columns: 2 },
            _ => Self { rows: 8, columns: 4 },
        }
    }
}

/// Inputs of a row that are in workgroup memory at a time.
const DEPTH: usize = 128;

/// What stands beside the product, and so what the argument `beside` is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Product {
    /// Rows are normed first; the norm's weights are beside it.
    Normed,
    /// Rows are added to the result; they are beside it.
    Added,
    /// Rows are normed first and the matrix is two, gate and up; the norm's weights are beside it.
    Gated,
}

/// `[row, n_in]` → `[row, n_out]`, or half as many where they are gated.
pub fn product(x: Buffer, beside: Buffer, matrix: Buffer, size: Size, kind: Product) -> Buffer {
    let n_rows = x.meta.shape()[0];
    let n_out = if kind == Product::Gated { size.n_out / 2 } else { size.n_out };
    let y = empty(&x, [n_rows, n_out]);
    let tile = Tile::of(n_rows, kind);
    let tiles = CubeCount::Static(n_out.div_ceil(UNITS * tile.columns) as u32, n_rows.div_ceil(tile.rows) as u32, 1);
    // SAFETY: the kernel checks rows and columns, and the shapes of all four are those of the operation.
    unsafe {
        product_kernel::launch_unchecked(
            &y.client.clone(),
            tiles,
            CubeDim::new_1d(UNITS as u32),
            argument(x),
            argument(beside),
            argument(matrix),
            argument(y.clone()),
            n_rows,
            size.n_in,
            n_out,
            tile,
            kind,
        );
    }
    y
}

#[cube(launch_unchecked)]
fn product_kernel(
    x: &[f32],
    beside: &[f32],
    matrix: &[f32],
    y: &mut [f32],
    n_rows: usize,
    n_in: usize,
    n_out: usize,
    #[comptime] tile: Tile,
    #[comptime] kind: Product,
) {
    let unit = UNIT_POS as usize;
    let rows = comptime!(tile.rows);
    let columns = comptime!(tile.columns);
    let numbers = comptime!(rows * columns);
    let gated = comptime!(kind == Product::Gated);
    let normed = comptime!(kind != Product::Added);
    let first_row = CUBE_POS_Y as usize * rows;
    let first_column = CUBE_POS_X as usize * comptime!(UNITS * columns) + unit;
    let mut stride = n_out;
    if gated {
        stride = 2 * n_out;
    }

    // Threads share out the loading of a row. A row beyond the last one is read as the last one, and not written.
    let lanes = comptime!(UNITS / rows);
    let load_row = unit / lanes;
    let load_at = min(first_row + load_row, n_rows - 1) * n_in;

    let mut inputs = Shared::<[f32]>::new_slice(comptime!(rows * DEPTH));
    let mut sums = Array::<f32>::new(numbers);
    let mut ups = Array::<f32>::new(numbers);
    let mut squares = 0.0f32;

    for start in range_stepped(0, n_in, DEPTH) {
        let depth = min(n_in - start, DEPTH);
        for i in range_stepped(unit % lanes, depth, lanes) {
            let mut value = x[load_at + start + i];
            if normed {
                squares += value * value;
                value *= beside[start + i];
            }
            inputs[i * rows + load_row] = value;
        }
        sync_cube();
        for i in 0..depth {
            #[unroll]
            for column in 0..columns {
                // Beyond the last column the last one is read, and nothing written.
                let at = (start + i) * stride + min(first_column + column * UNITS, n_out - 1);
                let weight = matrix[at];
                #[unroll]
                for row in 0..rows {
                    sums[column * rows + row] += inputs[i * rows + row] * weight;
                }
                if gated {
                    let weight = matrix[at + n_out];
                    #[unroll]
                    for row in 0..rows {
                        ups[column * rows + row] += inputs[i * rows + row] * weight;
                    }
                }
            }
        }
        sync_cube();
    }

    // The norm is a factor for each row, so that it can wait until now.
    let mut scales = Array::<f32>::new(rows);
    if normed {
        inputs[unit] = squares;
        sync_cube();
        #[unroll]
        for row in 0..rows {
            let mut total = 0.0f32;
            for i in 0..lanes {
                total += inputs[row * lanes + i];
            }
            scales[row] = (total / f32::cast_from(n_in) + NORM_EPSILON).inverse_sqrt();
        }
    }

    #[unroll]
    for column in 0..columns {
        let to_column = first_column + column * UNITS;
        #[unroll]
        for row in 0..rows {
            if to_column < n_out && first_row + row < n_rows {
                let at = (first_row + row) * n_out + to_column;
                let sum = sums[column * rows + row];
                if comptime!(kind == Product::Added) {
                    y[at] = beside[at] + sum;
                } else if gated {
                    y[at] = silu(sum * scales[row]) * (ups[column * rows + row] * scales[row]);
                } else {
                    y[at] = sum * scales[row];
                }
            }
        }
    }
}

/// x · sigmoid(x)
#[cube]
pub fn silu(x: f32) -> f32 {
    x / (1.0 + (-x).exp())
}
