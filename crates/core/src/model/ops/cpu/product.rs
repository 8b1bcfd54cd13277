//! The *product* of rows with a matrix in panels: the loop that nearly all of a model's time goes into.
//!
//! A *tile* is some rows by some outputs whose sums stay in vector registers while the inputs go by: one row by a whole panel,
//! or several rows by a quarter of one. However many rows there are, each sum adds its terms in the order of the inputs, so a
//! position comes out the same to the last bit in whatever company.

use wide::f32x8;

use super::super::{PANEL, Size};

/// Numbers that go through a multiplication at once.
const LANES: usize = 8;

/// The vectors of a panel's outputs.
const VECTORS: usize = PANEL / LANES;

/// What happens to the numbers that are in the destination already. Each way is compiled by itself.
pub trait Into {
    fn put(sum: f32, destination: &mut f32);
}

pub struct Place;
pub struct Add;

impl Into for Place {
    fn put(sum: f32, destination: &mut f32) {
        *destination = sum;
    }
}

impl Into for Add {
    fn put(sum: f32, destination: &mut f32) {
        *destination += sum;
    }
}

/// The weights of one input, of all outputs of a panel.
type Weights = [[f32; LANES]; VECTORS];

/// `x`: `[row, in]`, `matrix`: `[out / 32, in, 32]`, `y`: `[row, out]`.
pub fn multiply<I: Into>(x: &[f32], matrix: &[f32], size: Size, y: &mut [f32]) {
    let Size { n_in, n_out } = size;
    let weights: &[Weights] = matrix.as_chunks().0.as_chunks().0; // [out / 32 · in]
    let panels = weights.chunks_exact(n_in).take(n_out.div_ceil(PANEL)).enumerate();
    for (index, panel) in panels {
        let output = index * PANEL;
        if x.len() == n_in {
            write::<I, 1, VECTORS>(y, n_out, output, [all(x, panel)]);
        } else {
            for vector in 0..VECTORS.min((n_out - output).div_ceil(LANES)) {
                multiply_rows::<I>(x, panel, vector, size, output + vector * LANES, y);
            }
        }
    }
}

/// One row by a panel, which is read in one go.
#[inline(always)]
fn all(x: &[f32], panel: &[Weights]) -> [f32x8; VECTORS] {
    let mut sums = [f32x8::ZERO; VECTORS];
    for (&x, weights) in x.iter().zip(panel) {
        let x = f32x8::splat(x);
        for (sum, &weights) in sums.iter_mut().zip(weights) {
            *sum += x * f32x8::new(weights);
        }
    }
    sums
}

/// All rows by one vector of a panel, four rows at a time, so that what is read of the panel serves four times.
fn multiply_rows<I: Into>(x: &[f32], panel: &[Weights], vector: usize, size: Size, output: usize, y: &mut [f32]) {
    let Size { n_in, n_out } = size;
    for (x, y) in x.chunks(4 * n_in).zip(y.chunks_mut(4 * n_out)) {
        let row = |row: usize| &x[row * n_in..][..n_in];
        match x.len() / n_in {
            1 => write::<I, 1, 1>(y, n_out, output, tile([row(0)], panel, vector)),
            2 => write::<I, 2, 1>(y, n_out, output, tile([row(0), row(1)], panel, vector)),
            3 => write::<I, 3, 1>(y, n_out, output, tile([row(0), row(1), row(2)], panel, vector)),
            _ => write::<I, 4, 1>(y, n_out, output, tile([row(0), row(1), row(2), row(3)], panel, vector)),
        }
    }
}

/// The sums of `R` rows by one vector of a panel.
#[inline(always)]
fn tile<const R: usize>(x: [&[f32]; R], panel: &[Weights], vector: usize) -> [[f32x8; 1]; R] {
    // Cut to one length, so that no index below has to be compared with it.
    let x = x.map(|row| &row[..panel.len()]);
    let mut sums = [[f32x8::ZERO; 1]; R];
    for (input, weights) in panel.iter().enumerate() {
        let weights = f32x8::new(weights[vector]);
        for ([sum], x) in sums.iter_mut().zip(&x) {
            *sum += f32x8::splat(x[input]) * weights;
        }
    }
    sums
}

/// Puts the sums of rows, for outputs from `output` on, where they belong. Outputs that only fill up a panel belong nowhere.
#[inline(always)]
fn write<I: Into, const R: usize, const V: usize>(y: &mut [f32], n_out: usize, output: usize, sums: [[f32x8; V]; R]) {
    for (y, sums) in y.chunks_exact_mut(n_out).zip(sums) {
        for (outputs, sum) in y[output..].chunks_mut(LANES).zip(sums) {
            for (output, sum) in outputs.iter_mut().zip(sum.to_array()) {
                I::put(sum, output);
            }
        }
    }
}
