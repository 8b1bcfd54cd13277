//! The *rotation* of queries and keys by their position: pairs of neighbouring components (2i, 2i + 1) turn by an angle
//! that grows with the position (Su et al. 2021, "RoFormer").
//!
//! The gradient of a rotation is the rotation back.

use multiversion::multiversion;

/// The slowest pair turns about this many times slower than the fastest.
const BASE: f32 = 10_000.0;

/// Cosines and sines of every position and component.
#[derive(Clone, Debug)]
pub struct RotationTable {
    head_dim: usize,
    /// `[position, head_dim]`; a pair has the same cosine twice.
    cosines: Vec<f32>,
    /// `[position, head_dim]`; −sin for the even component of a pair, sin for the odd one.
    sines: Vec<f32>,
}

/// Which way to turn.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    Forward,
    Back,
}

impl RotationTable {
    pub fn new(positions: usize, head_dim: usize) -> Self {
        let mut table = Self { head_dim, cosines: Vec::new(), sines: Vec::new() };
        for position in 0..positions {
            for even in (0..head_dim).step_by(2) {
                let frequency = 1.0 / BASE.powf(even as f32 / head_dim as f32);
                let (sin, cos) = (position as f32 * frequency).sin_cos();
                table.cosines.extend([cos, cos]);
                table.sines.extend([-sin, sin]);
            }
        }
        table
    }

    pub fn positions(&self) -> usize {
        self.cosines.len() / self.head_dim
    }

    /// Turns the first `heads` heads of every row of one sequence, `[position, row]`, in place.
    pub fn rotate(&self, rows: &mut [f32], row: usize, heads: usize, direction: Direction) {
        let turn = if direction == Direction::Forward { 1.0 } else { -1.0 };
        match self.head_dim {
            16 => rotate_16(rows, row, heads, turn, &self.cosines, &self.sines),
            _ => rotate_any(rows, row, heads, self.head_dim, turn, &self.cosines, &self.sines),
        }
    }
}

/// Heads of 16 fill one vector each.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl+avx2+fma", "x86_64+avx2+fma"))]
fn rotate_16(rows: &mut [f32], row: usize, heads: usize, turn: f32, cosines: &[f32], sines: &[f32]) {
    let tables = cosines.as_chunks::<16>().0.iter().zip(sines.as_chunks::<16>().0);
    for (values, (cos, sin)) in rows.chunks_exact_mut(row).zip(tables) {
        let mut signed = [0.0; 16];
        for i in 0..16 {
            signed[i] = sin[i] * turn;
        }
        for head in &mut values.as_chunks_mut::<16>().0[..heads] {
            let mut turned = [0.0; 16];
            for i in 0..16 {
                turned[i] = head[i] * cos[i] + head[i ^ 1] * signed[i];
            }
            *head = turned;
        }
    }
}

fn rotate_any(rows: &mut [f32], row: usize, heads: usize, head_dim: usize, turn: f32, cosines: &[f32], sines: &[f32]) {
    let tables = cosines.chunks_exact(head_dim).zip(sines.chunks_exact(head_dim));
    for (values, (cos, sin)) in rows.chunks_exact_mut(row).zip(tables) {
        for head in values[..heads * head_dim].chunks_exact_mut(head_dim) {
            for even in (0..head_dim).step_by(2) {
                let (a, b) = (head[even], head[even + 1]);
                head[even] = a * cos[even] + b * sin[even] * turn;
                head[even + 1] = b * cos[even + 1] + a * sin[even + 1] * turn;
            }
        }
    }
}
