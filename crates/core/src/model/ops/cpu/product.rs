//! The *product* of rows with a matrix in panels: the loop that nearly all of a model's time goes into.
//!
//! A *tile* is some rows by some panels whose sums stay in vector registers while the inputs go by. However many rows there are,
//! each sum adds its terms in the order of the inputs, so a position comes out the same to the last bit in whatever company.

use wide::f32x8;

use super::super::{PANEL, Size};

/// What happens to the numbers that are in the destination already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Into {
    Place,
    Sum,
}

/// `x`: `[row, in]`, `matrix`: `[out / 8, in, 8]`, `y`: `[row, out]`.
pub fn multiply(x: &[f32], matrix: &[f32], size: Size, into: Into, y: &mut [f32]) {
    let Size { n_in, n_out } = size;
    let (inputs, _) = matrix.as_chunks::<PANEL>(); // [out / 8 · in, 8]
    let panels: Vec<&[[f32; PANEL]]> = inputs.chunks_exact(n_in).take(n_out.div_ceil(PANEL)).collect();
    // One row leaves registers for four panels at once; from four rows on, each panel is read once for all of them.
    match x.len() / n_in {
        1 => {
            let (fours, rest) = panels.as_chunks::<4>();
            for (index, four) in fours.iter().enumerate() {
                write(y, n_out, 0, 4 * index, tile([x], *four), into);
            }
            for (index, panel) in rest.iter().enumerate() {
                write(y, n_out, 0, 4 * fours.len() + index, tile([x], [*panel]), into);
            }
        }
        _ => {
            for (index, &panel) in panels.iter().enumerate() {
                multiply_panel(x, panel, index, size, into, y);
            }
        }
    }
}

/// All rows by one panel.
fn multiply_panel(x: &[f32], panel: &[[f32; PANEL]], index: usize, size: Size, into: Into, y: &mut [f32]) {
    let row = |row: usize| &x[row * size.n_in..][..size.n_in];
    let rows = x.len() / size.n_in;
    let mut start = 0;
    while start < rows {
        match rows - start {
            1 => write(y, size.n_out, start, index, tile([row(start)], [panel]), into),
            2 => write(y, size.n_out, start, index, tile([row(start), row(start + 1)], [panel]), into),
            3 => {
                let three = [row(start), row(start + 1), row(start + 2)];
                write(y, size.n_out, start, index, tile(three, [panel]), into);
            }
            _ => {
                let four = [row(start), row(start + 1), row(start + 2), row(start + 3)];
                write(y, size.n_out, start, index, tile(four, [panel]), into);
            }
        }
        start += 4;
    }
}

/// The sums of `R` rows by `P` panels.
#[inline(always)]
fn tile<const R: usize, const P: usize>(x: [&[f32]; R], panels: [&[[f32; PANEL]]; P]) -> [[f32x8; P]; R] {
    let n_in = panels[0].len();
    // Cut to one length, so that no index below has to be compared with it.
    let (x, panels) = (x.map(|row| &row[..n_in]), panels.map(|panel| &panel[..n_in]));
    let mut sums = [[f32x8::ZERO; P]; R];
    for input in 0..n_in {
        let weights = panels.map(|panel| f32x8::new(panel[input]));
        for (sums, x) in sums.iter_mut().zip(&x) {
            let x = f32x8::splat(x[input]);
            for (sum, weights) in sums.iter_mut().zip(weights) {
                *sum += x * weights;
            }
        }
    }
    sums
}

/// Puts the sums of rows from `row` on and panels from `panel` on where they belong.
#[inline(always)]
fn write<const R: usize, const P: usize>(
    y: &mut [f32],
    n_out: usize,
    row: usize,
    panel: usize,
    sums: [[f32x8; P]; R],
    into: Into,
) {
    for (y, sums) in y[row * n_out..].chunks_exact_mut(n_out).zip(sums) {
        let outputs = y[panel * PANEL..].chunks_mut(PANEL);
        for (outputs, sum) in outputs.zip(sums) {
            let sum = sum.to_array();
            for (output, sum) in outputs.iter_mut().zip(sum) {
                *output = if into == Into::Sum { *output + sum } else { sum };
            }
        }
    }
}
