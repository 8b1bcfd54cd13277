//! The RMS norm of every position and its gradient (Zhang & Sennrich 2019).
//!
//! y = r w x with r = 1 / √(mean(x²) + ε). Its gradient: ∂x = r w ∂y − x r³ / dim · Σ w x ∂y, and ∂w = Σ r x ∂y over all
//! positions.

use multiversion::multiversion;

use super::dot;

/// Keeps the division defined for a vector of zeros; the same as the model's that the weights are exported to.
pub const EPSILON: f32 = 1e-5;

/// `x` and `y`: `[position, dim]`; `weight`: `[dim]`.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl+avx2+fma", "x86_64+avx2+fma"))]
pub fn forward(x: &[f32], weight: &[f32], y: &mut [f32]) {
    let dim = weight.len();
    for (x, y) in x.chunks_exact(dim).zip(y.chunks_exact_mut(dim)) {
        let scale = inverse_root(x);
        for ((y, &x), &weight) in y.iter_mut().zip(x).zip(weight) {
            *y = x * scale * weight;
        }
    }
}

/// Adds the gradient of `x` to `x_gradient` and that of the weights to `weight_gradient`. Shapes as for [`forward`].
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl+avx2+fma", "x86_64+avx2+fma"))]
pub fn backward(x: &[f32], weight: &[f32], y_gradient: &[f32], x_gradient: &mut [f32], weight_gradient: &mut [f32]) {
    let dim = weight.len();
    let rows = x.chunks_exact(dim).zip(y_gradient.chunks_exact(dim)).zip(x_gradient.chunks_exact_mut(dim));
    for ((x, dy), dx) in rows {
        let scale = inverse_root(x);
        let mut product = 0.0f32;
        let mut sums = [0.0f32; super::LANES];
        let (x_lanes, x_rest) = x.as_chunks::<{ super::LANES }>();
        let (dy_lanes, dy_rest) = dy.as_chunks::<{ super::LANES }>();
        let (weight_lanes, weight_rest) = weight.as_chunks::<{ super::LANES }>();
        for ((x, dy), weight) in x_lanes.iter().zip(dy_lanes).zip(weight_lanes) {
            for lane in 0..super::LANES {
                sums[lane] = (x[lane] * weight[lane]).mul_add(dy[lane], sums[lane]);
            }
        }
        for ((x, dy), weight) in x_rest.iter().zip(dy_rest).zip(weight_rest) {
            product += x * weight * dy;
        }
        product += super::sum(&sums);
        let pull = product * scale * scale * scale / dim as f32;
        for i in 0..dim {
            let dw = x[i] * scale;
            weight_gradient[i] = dw.mul_add(dy[i], weight_gradient[i]);
            dx[i] += (weight[i] * scale) * dy[i] - x[i] * pull;
        }
    }
}

#[inline(always)]
fn inverse_root(x: &[f32]) -> f32 {
    1.0 / (dot(x, x) / x.len() as f32 + EPSILON).sqrt()
}
