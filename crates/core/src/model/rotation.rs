//! The *rotation* marks a position in queries and keys: each pair of neighbouring components (2i, 2i + 1) is turned by
//! an angle that grows with the position, so that the product of a query and a key depends on their distance (Su et al.
//! 2021, "RoFormer: Enhanced Transformer with Rotary Position Embedding").

/// The slowest pair turns about this many times slower than the fastest.
pub(crate) const BASE: f32 = 10_000.0;

/// Cosine and sine of each pair's angle at each position: `[position, head_dim]`.
pub(super) fn angles(context: usize, head_dim: usize) -> Vec<f32> {
    let pair = |position: usize, even: usize| {
        let frequency = 1.0 / BASE.powf(even as f32 / head_dim as f32);
        let (sin, cos) = (position as f32 * frequency).sin_cos();
        [cos, sin]
    };
    (0..context).flat_map(|position| (0..head_dim).step_by(2).flat_map(move |even| pair(position, even))).collect()
}
