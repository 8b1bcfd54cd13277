//! A *random stream* is an endless row of numbers that a seed decides. It is written out here, and not taken from a
//! library, so that no update of a library can change a byte of the corpus.

/// xoshiro256++ (Blackman and Vigna 2019, "Scrambled Linear Pseudorandom Number Generators"), seeded by SplitMix64 as its
/// authors advise.
#[derive(Clone, Debug)]
pub struct Random {
    state: [u64; 4],
}

impl Random {
    /// The stream of one item (a story) among those of a seed. Streams of different items have nothing in common.
    pub fn new(seed: u64, item: u64) -> Self {
        let mut mixer = seed;
        let seed = split_mix(&mut mixer);
        let mut mixer = seed ^ item.wrapping_mul(0xA076_1D64_78BD_642F);
        Self { state: std::array::from_fn(|_| split_mix(&mut mixer)) }
    }

    pub fn next_u64(&mut self) -> u64 {
        let [a, b, c, d] = &mut self.state;
        let result = a.wrapping_add(*d).rotate_left(23).wrapping_add(*a);
        let shifted = *b << 17;
        *c ^= *a;
        *d ^= *b;
        *b ^= *c;
        *a ^= *d;
        *c ^= shifted;
        *d = d.rotate_left(45);
        result
    }

    /// A number from 0 to `end` − 1. Takes the high half of a product (Lemire 2019); for the small ranges here its bias
    /// is below 2⁻⁴⁰.
    ///
    /// # Panics
    /// When `end` is 0.
    pub fn below(&mut self, end: u32) -> u32 {
        assert!(end > 0, "there is no number below 0");
        ((u128::from(self.next_u64()) * u128::from(end)) >> 64) as u32
    }
}

fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first outputs of the authors' C program from the state 1, 2, 3, 4.
    #[test]
    fn the_generator_is_the_published_one() {
        let mut random = Random { state: [1, 2, 3, 4] };
        let first: [u64; 4] = std::array::from_fn(|_| random.next_u64());
        assert_eq!(first, [41943041, 58720359, 3588806011781223, 3591011842654386]);
    }

    #[test]
    fn numbers_below_cover_their_range_evenly() {
        let mut random = Random::new(1, 1);
        let mut counts = [0u32; 5];
        (0..50_000).for_each(|_| counts[random.below(5) as usize] += 1);
        assert!(counts.iter().all(|count| (9_600..10_400).contains(count)), "{counts:?}");
    }

    #[test]
    fn neighbouring_items_differ() {
        assert_ne!(Random::new(7, 0).next_u64(), Random::new(7, 1).next_u64());
        assert_ne!(Random::new(7, 0).next_u64(), Random::new(8, 0).next_u64());
    }
}
