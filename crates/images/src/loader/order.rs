/// In which order samples are visited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// As stored. Streams such as CCC must be read so.
    #[default]
    Stored,
    /// Shuffled; the same seed and length give the same order on every machine.
    Shuffled {
        /// The seed.
        seed: u64,
    },
}

impl Order {
    /// The positions of `len` samples in this order. Shuffling is Fisher-Yates from the end, with bounded draws of
    /// [`SplitMix64`].
    pub fn indices(self, len: usize) -> Vec<usize> {
        let mut indices: Vec<usize> = (0..len).collect();
        if let Self::Shuffled { seed } = self {
            let mut random = SplitMix64::new(seed);
            for last in (1..len).rev() {
                indices.swap(last, random.below(last as u64 + 1) as usize);
            }
        }
        indices
    }
}

/// Steele, Lea and Flood's generator: a 64-bit counter with an odd step, mixed.
#[derive(Clone, Debug)]
pub struct SplitMix64 {
    state: u64,
}

impl SplitMix64 {
    /// The sequence of `seed`.
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The next 64 bits.
    pub fn next_bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `bound`, each equally likely: the high half of a 128-bit product, redrawn in the few cases that
    /// would favour some numbers.
    pub fn below(&mut self, bound: u64) -> u64 {
        let reject = bound.wrapping_neg() % bound.max(1);
        loop {
            let product = u128::from(self.next_bits()) * u128::from(bound);
            if product as u64 >= reject {
                return (product >> 64) as u64;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generator_gives_the_published_sequence() {
        // First outputs for seed 1234567, from the reference implementation.
        let mut random = SplitMix64::new(1_234_567);
        let drawn: Vec<u64> = (0..3).map(|_| random.next_bits()).collect();
        assert_eq!(drawn, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }

    #[test]
    fn shuffles_are_permutations_fixed_by_the_seed() {
        for len in [0, 1, 2, 17, 1000] {
            let order = Order::Shuffled { seed: 9 }.indices(len);
            assert_eq!(order, Order::Shuffled { seed: 9 }.indices(len));
            let mut sorted = order.clone();
            sorted.sort();
            assert_eq!(sorted, Order::Stored.indices(len));
            if len == 1000 {
                assert_ne!(order, Order::Shuffled { seed: 10 }.indices(len));
            }
        }
        // From the same walk written in Python.
        assert_eq!(Order::Shuffled { seed: 0 }.indices(8), [1, 2, 6, 5, 4, 0, 3, 7]);
    }
}
