use std::sync::Arc;

use flipcast_ground::SplitMix64;

use super::{DataError, Dataset, Subset};
use crate::loader::draw_below;

/// `count` of the indices below `len`, ascending: `len` is cut into `count` equal pieces, and each gives one index drawn by
/// `seed`. So a dataset that is stored class by class gives every class its share. All indices where there are no more.
pub fn spread_evenly(len: usize, count: usize, seed: u64) -> Vec<usize> {
    if count >= len {
        return (0..len).collect();
    }
    let mut random = SplitMix64::new(seed);
    let start = |piece: usize| (piece as u128 * len as u128 / count as u128) as usize;
    (0..count)
        .map(|piece| {
            let width = start(piece + 1) - start(piece);
            start(piece) + draw_below(&mut random, width)
        })
        .collect()
}

/// `count` images of `dataset` by [`spread_evenly`], in stored order.
pub fn take_evenly(dataset: Arc<dyn Dataset>, count: usize, seed: u64) -> Result<Subset, DataError> {
    let indices = spread_evenly(dataset.len(), count, seed);
    Subset::new(dataset, indices)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_piece_gives_one_index() {
        for (len, count) in [(10, 3), (100, 7), (5, 5), (5, 9), (7, 1), (3, 0)] {
            for seed in 0..20 {
                let found = spread_evenly(len, count, seed);
                assert_eq!(found.len(), count.min(len));
                assert!(found.is_sorted_by(|a, b| a < b), "{found:?}");
                assert!(found.iter().all(|&index| index < len));
            }
        }
        let found = spread_evenly(1000, 10, 3);
        assert!(found.iter().enumerate().all(|(piece, index)| index / 100 == piece));
    }

    #[test]
    fn the_seed_decides() {
        assert_eq!(spread_evenly(1000, 10, 3), spread_evenly(1000, 10, 3));
        assert_ne!(spread_evenly(1000, 10, 3), spread_evenly(1000, 10, 4));
    }
}
