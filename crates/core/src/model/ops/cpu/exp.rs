//! The *exponential* of eight numbers at once.

use wide::{f32x8, i32x8};

/// e^x to about 2e-7 of its value. Below −87 it is that of −87, which next to 1 is nothing, and above 88 that of 88.
///
/// x = n ln 2 + r with n whole and |r| ≤ ln 2 / 2; then e^x = 2ⁿ e^r, with the polynomial for e^r of the Cephes library
/// (Moshier, `expf`).
#[inline(always)]
pub fn exp(x: f32x8) -> f32x8 {
    /// Adding 1.5 · 2²³ rounds to a whole number and leaves that number in the sum's lowest bits.
    const ROUND: f32 = 12_582_912.0;
    const LN_2_HIGH: f32 = 0.693_359_4;
    const LN_2_LOW: f32 = -2.121_944_4e-4;
    const POLYNOMIAL: [f32; 6] = [1.987_569_1e-4, 1.398_199_9e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 0.5];
    let all = f32x8::splat;
    let x = x.fast_max(all(-87.0)).fast_min(all(88.0));
    let rounded = x * all(std::f32::consts::LOG2_E) + all(ROUND);
    let n = rounded - all(ROUND);
    let r = x - n * all(LN_2_HIGH) - n * all(LN_2_LOW);
    let polynomial = POLYNOMIAL.into_iter().fold(f32x8::ZERO, |sum, factor| sum * r + all(factor));
    let e_r = polynomial * (r * r) + r + all(1.0);
    let exponent: i32x8 = bytemuck::cast::<_, i32x8>(rounded) - i32x8::splat(ROUND.to_bits() as i32 - 127);
    e_r * bytemuck::cast::<_, f32x8>(exponent << 23)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_exact_to_a_few_ulps_and_stays_finite() {
        for step in -8_700..8_800 {
            let x = step as f32 / 100.0;
            let expected = f64::from(x).exp();
            let error = (f64::from(exp(f32x8::splat(x)).to_array()[3]) - expected).abs() / expected;
            assert!(error < 3e-7, "exp({x}) is off by {error}");
        }
        let least = exp(f32x8::splat(f32::NEG_INFINITY)).to_array();
        assert!(least.iter().all(|&power| (0.0..1e-37).contains(&power)));
        assert!(exp(f32x8::splat(f32::INFINITY)).to_array()[0].is_finite());
    }
}
