//! *Lanes* are four f32 that one instruction works on: a 128-bit register in WebAssembly. Elsewhere they are an array, so
//! that the tests run natively through the same loops.

#[cfg(not(target_arch = "wasm32"))]
pub use array::Lanes;
#[cfg(target_arch = "wasm32")]
pub use simd::Lanes;

impl Lanes {
    pub const COUNT: usize = 4;

    /// e to the power of each: 2ⁿ times a polynomial of what is left, at most ln 2 / 2 (the coefficients are those of
    /// Cephes' `expf`). Below −87, where e^x leaves the range of f32, it is e^−87, and above 88 it is e^88.
    pub fn exp(self) -> Self {
        const POLYNOMIAL: [f32; 6] =
            [1.987_569_1e-4, 1.398_199_9e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 0.5];
        // ln 2 in two parts, the first of them exact, so that little is lost in the difference.
        const LN_2: [f32; 2] = [0.693_359_4, -2.121_944_4e-4];

        let x = self.max(Self::splat(-87.0)).min(Self::splat(88.0));
        let n = (x * Self::splat(std::f32::consts::LOG2_E)).round();
        let rest = x - n * Self::splat(LN_2[0]) - n * Self::splat(LN_2[1]);
        let polynomial = POLYNOMIAL.into_iter().map(Self::splat).reduce(|sum, coefficient| sum * rest + coefficient);
        let polynomial = polynomial.expect("there are coefficients");
        (polynomial * rest * rest + rest + Self::splat(1.0)) * n.exp2_of_whole()
    }
}

#[cfg(target_arch = "wasm32")]
mod simd {
    use std::arch::wasm32::*;
    use std::ops::{Add, Div, Mul, Sub};

    #[derive(Clone, Copy)]
    pub struct Lanes(v128);

    impl Lanes {
        pub fn splat(value: f32) -> Self {
            Self(f32x4_splat(value))
        }

        pub fn load([a, b, c, d]: &[f32; 4]) -> Self {
            Self(f32x4(*a, *b, *c, *d))
        }

        pub fn to_array(self) -> [f32; 4] {
            let Self(v) = self;
            [
                f32x4_extract_lane::<0>(v),
                f32x4_extract_lane::<1>(v),
                f32x4_extract_lane::<2>(v),
                f32x4_extract_lane::<3>(v),
            ]
        }

        pub fn max(self, other: Self) -> Self {
            Self(f32x4_pmax(self.0, other.0))
        }

        pub fn min(self, other: Self) -> Self {
            Self(f32x4_pmin(self.0, other.0))
        }

        pub fn round(self) -> Self {
            Self(f32x4_nearest(self.0))
        }

        /// 2 to the power of each, which are whole numbers from −126 to 127: they become the exponents.
        pub fn exp2_of_whole(self) -> Self {
            let biased = i32x4_add(i32x4_trunc_sat_f32x4(self.0), i32x4_splat(127));
            Self(i32x4_shl(biased, 23))
        }

        /// The sums of four quadruples, in their order.
        pub fn sums([a, b, c, d]: [Self; 4]) -> Self {
            // [a0 + a2, b0 + b2, a1 + a3, b1 + b3], and the same of c and d.
            let halves = |Self(x): Self, Self(y): Self| {
                f32x4_add(i32x4_shuffle::<0, 4, 1, 5>(x, y), i32x4_shuffle::<2, 6, 3, 7>(x, y))
            };
            let (ab, cd) = (halves(a, b), halves(c, d));
            Self(f32x4_add(i32x4_shuffle::<0, 1, 4, 5>(ab, cd), i32x4_shuffle::<2, 3, 6, 7>(ab, cd)))
        }
    }

    impl Add for Lanes {
        type Output = Self;
        fn add(self, other: Self) -> Self {
            Self(f32x4_add(self.0, other.0))
        }
    }

    impl Sub for Lanes {
        type Output = Self;
        fn sub(self, other: Self) -> Self {
            Self(f32x4_sub(self.0, other.0))
        }
    }

    impl Mul for Lanes {
        type Output = Self;
        fn mul(self, other: Self) -> Self {
            Self(f32x4_mul(self.0, other.0))
        }
    }

    impl Div for Lanes {
        type Output = Self;
        fn div(self, other: Self) -> Self {
            Self(f32x4_div(self.0, other.0))
        }
    }
}

#[cfg(not(target_arch = "wasm32"))]
mod array {
    use std::array::from_fn;
    use std::ops::{Add, Div, Mul, Sub};

    #[derive(Clone, Copy)]
    pub struct Lanes([f32; 4]);

    impl Lanes {
        pub fn splat(value: f32) -> Self {
            Self([value; 4])
        }

        pub fn load(values: &[f32; 4]) -> Self {
            Self(*values)
        }

        pub fn to_array(self) -> [f32; 4] {
            self.0
        }

        pub fn max(self, other: Self) -> Self {
            Self(from_fn(|i| self.0[i].max(other.0[i])))
        }

        pub fn min(self, other: Self) -> Self {
            Self(from_fn(|i| self.0[i].min(other.0[i])))
        }

        pub fn round(self) -> Self {
            Self(self.0.map(f32::round_ties_even))
        }

        /// 2 to the power of each, which are whole numbers from −126 to 127: they become the exponents.
        pub fn exp2_of_whole(self) -> Self {
            Self(self.0.map(|n| f32::from_bits(((n as i32 + 127) as u32) << 23)))
        }

        /// The sums of four quadruples, in their order.
        pub fn sums(quadruples: [Self; 4]) -> Self {
            Self(quadruples.map(|Self([a, b, c, d])| (a + c) + (b + d)))
        }
    }

    impl Add for Lanes {
        type Output = Self;
        fn add(self, other: Self) -> Self {
            Self(from_fn(|i| self.0[i] + other.0[i]))
        }
    }

    impl Sub for Lanes {
        type Output = Self;
        fn sub(self, other: Self) -> Self {
            Self(from_fn(|i| self.0[i] - other.0[i]))
        }
    }

    impl Mul for Lanes {
        type Output = Self;
        fn mul(self, other: Self) -> Self {
            Self(from_fn(|i| self.0[i] * other.0[i]))
        }
    }

    impl Div for Lanes {
        type Output = Self;
        fn div(self, other: Self) -> Self {
            Self(from_fn(|i| self.0[i] / other.0[i]))
        }
    }
}
