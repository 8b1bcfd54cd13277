//! A *coin* is the uniform number that draws one step's token.

use rand::Rng;
use rand::SeedableRng;
use rand::rngs::ChaCha8Rng;

/// The uniform number in [0, 1) of a step: a pure function of the seed and the step's index, so a run can be replayed
/// from any step. 53 random bits, the first that ChaCha8 gives with the seed as its key and the step as its stream.
pub fn coin(seed: u32, step: usize) -> f64 {
    coin_for(Purpose::Token, seed, step)
}

/// What a uniform number decides. Numbers for different purposes are independent of each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Which token a model writes.
    Token = 0,
    /// Which token a draft model proposes.
    Draft = 1,
    /// Whether a proposed token is accepted.
    Acceptance = 2,
}

/// The uniform number in [0, 1) that decides one thing at one step.
pub fn coin_for(purpose: Purpose, seed: u32, step: usize) -> f64 {
    // The key is spelt out, since the expansion that `seed_from_u64` uses may differ between versions of the library.
    let mut key = [0; 32];
    key[..4].copy_from_slice(&seed.to_le_bytes());
    let mut stream = ChaCha8Rng::from_seed(key);
    stream.set_stream((purpose as u64) << 32 | step as u64);
    (stream.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_stay_the_same_for_ever() {
        // Recorded runs and shared links depend on these very numbers, which a ChaCha8 written from its paper gives too.
        assert_eq!(coin(0, 0), 0.8369197568826472);
        assert_eq!(coin(1, 0), 0.381489413238261);
        assert_eq!(coin(1, 1), 0.10353313864874247);
        assert_eq!(coin(u32::MAX, 255), 0.42382021732344044);
    }

    #[test]
    fn seeds_and_steps_are_independent_and_uniform() {
        // Mean of n uniform numbers: 0.5 with a standard error of 1 / √(12 n).
        let n = 4000;
        for (name, values) in [
            ("steps", (0..n).map(|step| coin(7, step)).collect::<Vec<_>>()),
            ("seeds", (0..n).map(|seed| coin(seed as u32, 3)).collect()),
            ("acceptance", (0..n).map(|step| coin_for(Purpose::Acceptance, 7, step)).collect()),
            // What one purpose gets next to what another gets.
            (
                "purposes",
                (0..n).map(|i| if i % 2 == 0 { coin(7, i / 2) } else { coin_for(Purpose::Draft, 7, i / 2) }).collect(),
            ),
        ] {
            assert!(values.iter().all(|value| (0.0..1.0).contains(value)), "{name}");
            let error = 1.0 / (12.0 * n as f64).sqrt();
            let mean = values.iter().sum::<f64>() / n as f64;
            assert!((mean - 0.5).abs() < 4.0 * error, "{name}: mean {mean}");
            let lag: f64 = values.windows(2).map(|pair| (pair[0] - 0.5) * (pair[1] - 0.5)).sum::<f64>() / n as f64;
            // Neighbours are uncorrelated: the product of two has a standard deviation of 1 / 12.
            assert!(lag.abs() < 4.0 / 12.0 / (n as f64).sqrt(), "{name}: correlation {lag}");
        }
    }
}
