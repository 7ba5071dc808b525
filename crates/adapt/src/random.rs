//! Random draws that depend on a seed, a purpose and a step, never on what was drawn before for another of them.

use flipcast_ground::SplitMix64;

/// What draws are for; each has streams of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Augmented images.
    Augment = 1,
    /// Shuffled patches.
    Shuffle = 2,
    /// Parameters restored by chance.
    Restore = 3,
}

/// A counter-based generator: draw `i` is SplitMix64's mix of the stream's key and `i`.
#[derive(Clone, Debug)]
pub(crate) struct Draws {
    key: u64,
    count: u64,
}

impl Draws {
    /// The stream of `purpose` at `step`.
    pub fn new(seed: u64, purpose: Purpose, step: u64) -> Self {
        let mix = SplitMix64::mix;
        let key = mix(mix(mix(seed) ^ purpose as u64) ^ step);
        Self { key, count: 0 }
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.count += 1;
        SplitMix64::mix(self.key.wrapping_add(self.count.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
    }

    /// A uniform draw from 0 (included) to 1 (excluded), 53 bits.
    pub fn uniform(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A uniform draw from `low` to `high`.
    pub fn uniform_in(&mut self, [low, high]: [f64; 2]) -> f64 {
        low + (high - low) * self.uniform()
    }

    /// A uniform index below `bound`; the bias of `bound / 2^64` is far below anything that can be seen.
    pub fn index(&mut self, bound: usize) -> usize {
        ((u128::from(self.bits()) * bound as u128) >> 64) as usize
    }

    /// Two independent standard normal draws (Box and Muller).
    pub fn normals(&mut self) -> [f64; 2] {
        let radius = (-2.0 * (1.0 - self.uniform()).ln()).sqrt();
        let (sin, cos) = (std::f64::consts::TAU * self.uniform()).sin_cos();
        [radius * cos, radius * sin]
    }

    /// Puts `items` into a uniformly random order.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.index(last + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_differ_by_seed_purpose_and_step_and_repeat() {
        let first = |seed, purpose, step| Draws::new(seed, purpose, step).bits();
        let base = first(1, Purpose::Augment, 0);
        assert_eq!(base, first(1, Purpose::Augment, 0));
        assert_ne!(base, first(2, Purpose::Augment, 0));
        assert_ne!(base, first(1, Purpose::Shuffle, 0));
        assert_ne!(base, first(1, Purpose::Augment, 1));
    }

    #[test]
    fn draws_have_the_right_moments() {
        let mut draws = Draws::new(3, Purpose::Restore, 9);
        let count = 40_000;
        let normals: Vec<f64> = (0..count / 2).flat_map(|_| draws.normals()).collect();
        let moment = |k: i32| normals.iter().map(|x| x.powi(k)).sum::<f64>() / f64::from(count);
        // Five standard errors: sqrt(1, 2, 96) / sqrt(count).
        let unit = 5.0 / f64::from(count).sqrt();
        assert!(moment(1).abs() < unit);
        assert!((moment(2) - 1.0).abs() < 1.42 * unit);
        assert!((moment(4) - 3.0).abs() < 9.8 * unit);
        let mean = (0..count).map(|_| draws.uniform()).sum::<f64>() / f64::from(count);
        assert!((mean - 0.5).abs() < 0.29 * unit);
    }

    #[test]
    fn every_order_of_three_is_equally_likely() {
        let mut draws = Draws::new(5, Purpose::Shuffle, 0);
        let mut seen = std::collections::HashMap::new();
        for _ in 0..6000 {
            let mut order = [0, 1, 2];
            draws.shuffle(&mut order);
            *seen.entry(order).or_insert(0_i32) += 1;
        }
        assert_eq!(seen.len(), 6);
        assert!(seen.values().all(|n| (n - 1000).abs() < 150), "{seen:?}");
    }
}
