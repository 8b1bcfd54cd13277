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

/// Writes the gradient of gates and ups. Shapes as for [`forward`].
///
/// With s = σ(gate): ∂gate = ∂a · up · s (1 + gate (1 − s)) and ∂up = ∂a · gate · s.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl+avx2+fma", "x86_64+avx2+fma"))]
pub fn backward(gate_up: &[f32], activation_gradient: &[f32], gate_up_gradient: &mut [f32], hidden: usize) {
    let rows = gate_up.chunks_exact(2 * hidden).zip(activation_gradient.chunks_exact(hidden));
    for ((gate_up, da), gradient) in rows.zip(gate_up_gradient.chunks_exact_mut(2 * hidden)) {
        let (gate, up) = gate_up.split_at(hidden);
        let (gate_gradient, up_gradient) = gradient.split_at_mut(hidden);
        let inputs = gate.iter().zip(up).zip(da);
        for (((&gate, &up), &da), (dg, du)) in inputs.zip(gate_gradient.iter_mut().zip(up_gradient)) {
            let sigmoid = 1.0 / (1.0 + exp(-gate));
            let scaled = da * sigmoid;
            *dg = scaled * up * gate.mul_add(1.0 - sigmoid, 1.0);
            *du = scaled * gate;
        }
    }
}
