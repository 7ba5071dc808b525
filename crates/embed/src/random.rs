/// SplitMix64 (Steele, Lea and Flood 2014): a small generator whose whole state is its seed.
#[derive(Clone, Debug)]
pub(crate) struct SplitMix64(u64);

impl SplitMix64 {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Uniform in [0, 1), in steps of 2^-53.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Uniform below `bound`, up to a bias of `bound / 2^64`; zero when `bound` is zero.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.next_u64()) * bound as u128) >> 64) as usize
    }

    /// `count` different numbers below `bound`, ascending; all of them when `count` is not smaller.
    pub(crate) fn sample(&mut self, bound: usize, count: usize) -> Vec<usize> {
        let mut numbers: Vec<usize> = (0..bound).collect();
        let count = count.min(bound);
        for i in 0..count {
            let j = i + self.below(bound - i);
            numbers.swap(i, j);
        }
        numbers.truncate(count);
        numbers.sort_unstable();
        numbers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_numbers_are_the_published_ones() {
        let mut random = SplitMix64::new(1_234_567);
        assert_eq!(random.next_u64(), 6_457_827_717_110_365_317);
        assert_eq!(random.next_u64(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn samples_are_distinct_and_in_range() {
        let mut sample = SplitMix64::new(5).sample(100, 40);
        assert_eq!(sample.len(), 40);
        sample.dedup();
        assert_eq!(sample.len(), 40);
        assert!(sample.iter().all(|&number| number < 100));
        assert_eq!(SplitMix64::new(5).sample(3, 9), [0, 1, 2]);
    }
}
