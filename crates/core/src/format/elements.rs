//! An *element type* is how a file stores the weights of a tensor; in memory they are always f32.
//!
//! Quantisation is by groups, symmetric about zero (the scheme of llama.cpp's Q8_0): 32 neighbours along the input
//! dimension share a scale, and each is stored as a whole number of such steps. Nothing here knows models or files.

use half::f16;
use serde::{Deserialize, Serialize};

/// How many neighbours along a tensor's input dimension share a scale. The last group of a row may be shorter.
pub const GROUP: usize = 32;

/// The number of steps at either side of zero in eight bits: −128 is not used, so that zero is in the middle.
const INT8_STEPS: f32 = 127.0;

/// How the weights of a tensor are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ElementType {
    /// IEEE 754 binary32.
    F32,
    /// IEEE 754 binary16, rounded to nearest.
    F16,
    /// Whole numbers −127 … 127, and for each group of [`GROUP`] an f16 that they are multiplied by.
    Int8,
}

impl ElementType {
    /// Size of a tensor `[rows, columns]`, in bytes.
    pub(crate) fn bytes(self, [rows, columns]: [usize; 2]) -> u128 {
        let n = rows as u128 * columns as u128;
        match self {
            Self::F32 => 4 * n,
            Self::F16 => 2 * n,
            Self::Int8 => n + 2 * rows as u128 * columns.div_ceil(GROUP) as u128,
        }
    }

    /// Whether no weight is too large for it.
    pub(crate) fn holds(self, weights: &[f32]) -> bool {
        let largest = largest(weights);
        match self {
            Self::F32 => true,
            Self::F16 => f16::from_f32(largest).is_finite(),
            Self::Int8 => scale(largest, INT8_STEPS).is_finite(),
        }
    }

    /// Appends the rows of a tensor to a file.
    pub(crate) fn encode(self, weights: &[f32], columns: usize, file: &mut Vec<u8>) {
        match self {
            Self::F32 => file.extend(weights.iter().flat_map(|weight| weight.to_le_bytes())),
            Self::F16 => file.extend(weights.iter().flat_map(|&weight| f16::from_f32(weight).to_le_bytes())),
            Self::Int8 => {
                let groups = || weights.chunks(columns).flat_map(|row| row.chunks(GROUP));
                let scale_of = |group: &[f32]| scale(largest(group), INT8_STEPS);
                file.extend(groups().flat_map(|group| scale_of(group).to_le_bytes()));
                file.extend(groups().flat_map(|group| {
                    let scale = scale_of(group).to_f32();
                    group.iter().map(move |&weight| steps(weight, scale, INT8_STEPS) as i8 as u8)
                }));
            }
        }
    }

    /// The weights of a tensor `[rows, columns]` that lie in exactly [`bytes`](Self::bytes) bytes.
    pub(crate) fn decode(self, bytes: &[u8], [rows, columns]: [usize; 2]) -> Vec<f32> {
        match self {
            Self::F32 => f32_values(bytes),
            Self::F16 => f16_values(bytes),
            Self::Int8 => {
                let groups = columns.div_ceil(GROUP);
                let (scales, numbers) = bytes.split_at(2 * rows * groups);
                let scales = f16_values(scales);
                let mut weights = vec![0.0; rows * columns];
                let rows = weights.chunks_exact_mut(columns).zip(numbers.chunks_exact(columns));
                for ((weights, numbers), scales) in rows.zip(scales.chunks_exact(groups)) {
                    scale_row(numbers, scales, weights);
                }
                weights
            }
        }
    }
}

/// A function of its own, called for each row: a browser has a quick version of it after some rows, and none of a loop that it
/// entered once.
#[inline(never)]
fn scale_row(numbers: &[u8], scales: &[f32], weights: &mut [f32]) {
    let (whole, rest) = weights.as_chunks_mut::<GROUP>();
    let (whole_numbers, rest_numbers) = numbers.as_chunks::<GROUP>();
    for ((weights, numbers), &scale) in whole.iter_mut().zip(whole_numbers).zip(scales) {
        for (weight, &number) in weights.iter_mut().zip(numbers) {
            *weight = f32::from(number as i8) * scale;
        }
    }
    for (weight, &number) in rest.iter_mut().zip(rest_numbers) {
        *weight = f32::from(number as i8) * scales[scales.len() - 1];
    }
}

/// What is left of the weights of a matrix with rows of `columns` when each is stored in `bits` bits, in groups. A matrix
/// with a weight that is too large for that is left as it is.
pub(crate) fn quantised(weights: &[f32], columns: usize, bits: u32) -> Vec<f32> {
    let highest = ((1 << (bits - 1)) - 1) as f32;
    if !scale(largest(weights), highest).is_finite() {
        return weights.to_vec();
    }
    let groups = weights.chunks(columns).flat_map(|row| row.chunks(GROUP));
    groups
        .flat_map(|group| {
            let scale = scale(largest(group), highest).to_f32();
            group.iter().map(move |&weight| steps(weight, scale, highest) * scale)
        })
        .collect()
}

/// The distance of two steps when `highest` of them must reach `largest`. It is the next f16, and one more where that
/// would leave the largest weight more than half a step outside, so that no weight moves by more than half a step.
fn scale(largest: f32, highest: f32) -> f16 {
    let nearest = f16::from_f32(largest / highest);
    match largest > nearest.to_f32() * (highest + 0.5) {
        true => f16::from_bits(nearest.to_bits() + 1),
        false => nearest,
    }
}

/// The whole number of steps next to a weight.
fn steps(weight: f32, scale: f32, highest: f32) -> f32 {
    if scale == 0.0 { 0.0 } else { (weight / scale).round().clamp(-highest, highest) }
}

fn largest(weights: &[f32]) -> f32 {
    weights.iter().fold(0.0, |largest, weight| weight.abs().max(largest))
}

/// The first weight that is no number or infinite.
pub(super) fn not_finite(weights: &[f32]) -> Option<usize> {
    const CHUNK: usize = 1024;
    let chunk = weights.chunks(CHUNK).position(|chunk| !all_finite(chunk))? * CHUNK;
    weights[chunk..].iter().position(|weight| !weight.is_finite()).map(|index| chunk + index)
}

/// Without a way out at the first one that is not, several are looked at in one instruction.
#[inline(never)]
fn all_finite(weights: &[f32]) -> bool {
    let magnitude = |weight: &f32| weight.to_bits() & !(1 << 31);
    weights.iter().map(magnitude).fold(0, u32::max) < f32::INFINITY.to_bits()
}

/// Little-endian f32.
pub(super) fn f32_values(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
}

/// Little-endian f16.
pub(super) fn f16_values(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks().0.iter().map(|bytes| f16::from_le_bytes(*bytes).to_f32()).collect()
}
