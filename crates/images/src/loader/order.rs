use flipcast_ground::SplitMix64;

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
                indices.swap(last, draw_below(&mut random, last + 1));
            }
        }
        indices
    }
}

/// A number below `bound`, each equally likely: the high half of a 128-bit product, redrawn in the few cases that would
/// favour some numbers.
pub(crate) fn draw_below(random: &mut SplitMix64, bound: usize) -> usize {
    let bound = bound as u64;
    let reject = bound.wrapping_neg() % bound.max(1);
    loop {
        let product = u128::from(random.next_u64()) * u128::from(bound);
        if product as u64 >= reject {
            return (product >> 64) as usize;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
