//! SwiGLU and its gradient (Shazeer 2020): a = gate · σ(gate) · up.

use multiversion::multiversion;

use super::exp;

/// `gate_up`: `[position, 2 hidden]`, gates before ups; `activation`: `[position, hidden]`.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl+avx2+fma", "x86_64+avx2+fma"))]
pub fn forward(gate_up: &[f32], activation: &mut [f32], hidden: usize) {
    for (gate_up, activation) in gate_up.chunks_exact(2 * hidden).zip(activation.chunks_exact_mut(hidden)) {
        let (gate, up) = gate_up.split_at(hidden);
        for ((activation, &gate), &up) in activation.iter_mut().zip(gate).zip(up) {
            *activation = gate * up / (1.0 + exp(-gate));
        }
    }
}

/// The same, and the slopes of the activation along gates and ups, `[position, 2 hidden]`, for [`backward`].
///
/// With s = σ(gate) they are up · s (1 + gate (1 − s)) and gate · s.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl+avx2+fma", "x86_64+avx2+fma"))]
pub fn forward_with_slopes(gate_up: &[f32], activation: &mut [f32], slopes: &mut [f32], hidden: usize) {
    let rows = gate_up.chunks_exact(2 * hidden).zip(activation.chunks_exact_mut(hidden));
    for ((gate_up, activation), slopes) in rows.zip(slopes.chunks_exact_mut(2 * hidden)) {
        let (gate, up) = gate_up.split_at(hidden);
        let (along_gate, along_up) = slopes.split_at_mut(hidden);
        let outputs = activation.iter_mut().zip(along_gate).zip(along_up);
        for ((&gate, &up), ((activation, along_gate), along_up)) in gate.iter().zip(up).zip(outputs) {
            let sigmoid = 1.0 / (1.0 + exp(-gate));
            let swish = gate * sigmoid;
            *activation = swish * up;
            *along_gate = up * sigmoid * gate.mul_add(1.0 - sigmoid, 1.0);
            *along_up = swish;
        }
    }
}

/// Turns slopes into the gradient of gates and ups, given that of the activation, `[position, hidden]`.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl+avx2+fma", "x86_64+avx2+fma"))]
pub fn backward(slopes: &mut [f32], activation_gradient: &[f32], hidden: usize) {
    for (slopes, da) in slopes.chunks_exact_mut(2 * hidden).zip(activation_gradient.chunks_exact(hidden)) {
        let (along_gate, along_up) = slopes.split_at_mut(hidden);
        for ((along_gate, along_up), da) in along_gate.iter_mut().zip(along_up).zip(da) {
            *along_gate *= da;
            *along_up *= da;
        }
    }
}
