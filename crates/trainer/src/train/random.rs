//! *Normal* numbers for first weights, from a seed: the same with every version of any library.

use crate::corpus::random::Random;

/// An endless sequence of independent normal numbers with mean 0 and deviation 1.
pub struct Normal {
    random: Random,
}

impl Normal {
    pub fn new(seed: u64) -> Self {
        Self { random: Random::new(seed, 0) }
    }

    /// Box–Muller: two uniform numbers make one normal number here, since the second is not worth keeping.
    pub fn next(&mut self) -> f32 {
        let radius = (-2.0 * (1.0 - self.uniform()).ln()).sqrt();
        let angle = std::f64::consts::TAU * self.uniform();
        (radius * angle.cos()) as f32
    }

    /// In [0, 1).
    fn uniform(&mut self) -> f64 {
        (self.random.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_normal_and_depend_on_the_seed() {
        let mut normal = Normal::new(7);
        let numbers: Vec<f64> = (0..100_000).map(|_| f64::from(normal.next())).collect();
        let mean = numbers.iter().sum::<f64>() / numbers.len() as f64;
        let variance = numbers.iter().map(|n| n * n).sum::<f64>() / numbers.len() as f64;
        let beyond_two = numbers.iter().filter(|n| n.abs() > 2.0).count() as f64 / numbers.len() as f64;
        assert!(mean.abs() < 0.02 && (variance - 1.0).abs() < 0.02 && (beyond_two - 0.0455).abs() < 0.005);
        assert_eq!(Normal::new(7).next().to_bits(), (numbers[0] as f32).to_bits());
        assert_ne!(Normal::new(8).next().to_bits(), (numbers[0] as f32).to_bits());
    }
}
