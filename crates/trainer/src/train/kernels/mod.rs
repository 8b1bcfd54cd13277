//! *Kernels* are the loops that training spends its time in, forwards and backwards, over plain slices of f32.
//!
//! Each is compiled for several sets of vector instructions, of which the processor's best is taken when it runs: the
//! project is not built for one machine. They know nothing of burn, of autodiff or of threads; [`block`] puts them
//! together to one layer of the decoder, [`head`] to the loss.
//!
//! Inner loops go over arrays of [`LANES`] numbers, since a compiler may not reorder a sum of floats by itself.

pub mod attention;
pub mod block;
pub mod head;
pub mod matmul;
pub mod norm;
pub mod rotation;
pub mod swiglu;

/// Numbers in the widest vector register (512 bits). Narrower processors use several registers for one array.
pub const LANES: usize = 16;

/// Σ aᵢ bᵢ. The order of the sum depends on the length alone.
#[inline(always)]
pub(crate) fn dot(a: &[f32], b: &[f32]) -> f32 {
    let (a_lanes, a_rest) = a.as_chunks::<LANES>();
    let (b_lanes, b_rest) = b.as_chunks::<LANES>();
    let mut sums = [0.0f32; LANES];
    for (a, b) in a_lanes.iter().zip(b_lanes) {
        for lane in 0..LANES {
            sums[lane] = a[lane].mul_add(b[lane], sums[lane]);
        }
    }
    let rest: f32 = a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum();
    sum(&sums) + rest
}

/// The sum of an array, halved again and again, which is both quicker and more exact than from left to right.
#[inline(always)]
pub(crate) fn sum(lanes: &[f32; LANES]) -> f32 {
    let mut sums = *lanes;
    let mut width = LANES / 2;
    while width > 0 {
        for lane in 0..width {
            sums[lane] += sums[lane + width];
        }
        width /= 2;
    }
    sums[0]
}

/// The largest number of an array.
#[inline(always)]
pub(crate) fn largest(lanes: &[f32; LANES]) -> f32 {
    let mut largest = lanes[0];
    for &lane in &lanes[1..] {
        largest = if lane > largest { lane } else { largest };
    }
    largest
}

/// e^x to about 1e-7 of its value; x is first brought into −87 … 88, where the result is a normal number.
///
/// x = n ln 2 + r with n whole and |r| ≤ ln 2 / 2; then e^x = 2ⁿ e^r, with the polynomial for e^r of the Cephes library
/// (Moshier, `expf`).
#[inline(always)]
pub(crate) fn exp(x: f32) -> f32 {
    // Adding 1.5 · 2²³ rounds to a whole number and leaves that number in the sum's lowest bits.
    const ROUND: f32 = 12_582_912.0;
    const LN_2_HIGH: f32 = 0.693_359_4;
    const LN_2_LOW: f32 = -2.121_944_4e-4;
    let x = if x > -87.0 { x } else { -87.0 };
    let x = if x < 88.0 { x } else { 88.0 };
    let rounded = x.mul_add(std::f32::consts::LOG2_E, ROUND);
    let n = rounded - ROUND;
    let r = n.mul_add(-LN_2_LOW, n.mul_add(-LN_2_HIGH, x));
    let mut p = 1.987_569_1e-4f32;
    p = p.mul_add(r, 1.398_199_9e-3);
    p = p.mul_add(r, 8.333_452e-3);
    p = p.mul_add(r, 4.166_579_6e-2);
    p = p.mul_add(r, 1.666_666_5e-1);
    p = p.mul_add(r, 0.5);
    let e_r = p.mul_add(r * r, r + 1.0);
    let exponent = rounded.to_bits().wrapping_sub(ROUND.to_bits()).wrapping_add(127);
    e_r * f32::from_bits(exponent << 23)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exponential_is_exact_to_a_few_ulps_and_stays_finite() {
        for step in -8_700..8_800 {
            let x = step as f32 / 100.0;
            let expected = f64::from(x).exp();
            let error = (f64::from(exp(x)) - expected).abs() / expected;
            assert!(error < 3e-7, "exp({x}) is off by {error}");
        }
        assert!(exp(-1e9) < 1e-37 && exp(-1e9) >= 0.0);
        assert!(exp(1e9).is_finite());
    }

    #[test]
    fn sums_take_every_element() {
        for len in [1, 15, 16, 17, 40] {
            let a: Vec<f32> = (0..len).map(|i| i as f32).collect();
            let b = vec![2.0; len];
            assert_eq!(dot(&a, &b), (len * (len - 1)) as f32);
        }
        let lanes = std::array::from_fn(|lane| -(lane as f32));
        assert_eq!((sum(&lanes), largest(&lanes)), (-120.0, 0.0));
    }
}
