const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// SplitMix64 (Steele, Lea and Flood 2014): a counter with an odd step, mixed. The same numbers on every machine and in
/// every version, which is why it stands here and not in a crate that may change its streams.
///
/// ```
/// let mut random = flipcast_ground::SplitMix64::new(1_234_567);
/// assert_eq!(random.next_u64(), 6_457_827_717_110_365_317);
/// ```
#[derive(Clone, Debug)]
pub struct SplitMix64 {
    state: u64,
}

impl SplitMix64 {
    /// The sequence of `seed`.
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The sequence of a text (FNV-1a), so that renaming one thing changes nothing else.
    pub fn from_text(text: &str) -> Self {
        Self::new(Self::hash_text(text))
    }

    /// The 64-bit hash FNV-1a.
    pub fn hash_text(text: &str) -> u64 {
        text.bytes()
            .fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
    }

    /// The generator's finaliser: a bijection that leaves no trace of its argument's order.
    #[inline]
    pub fn mix(value: u64) -> u64 {
        let value = value.wrapping_add(STEP);
        let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        value ^ (value >> 31)
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        let bits = Self::mix(self.state);
        self.state = self.state.wrapping_add(STEP);
        bits
    }

    /// The 64 bits that come after `skipped` others; nothing is drawn.
    #[inline]
    pub fn peek_u64(&self, skipped: u64) -> u64 {
        Self::mix(self.state.wrapping_add(STEP.wrapping_mul(skipped)))
    }

    /// Goes on as if `draws` more 64 bits had been drawn.
    pub fn skip(&mut self, draws: u64) {
        self.state = self.state.wrapping_add(STEP.wrapping_mul(draws));
    }

    /// A number in `[0, 1)`, in steps of 2^-53.
    pub fn uniform(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// An integer below `bound`, up to a bias of `bound / 2^64`; 0 when `bound` is 0.
    pub fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.next_u64()) * bound as u128) >> 64) as usize
    }

    /// A draw from the standard normal distribution (Box and Muller).
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.uniform()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform()).cos()
    }

    /// Puts `items` into a uniformly random order.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sequence_is_the_published_one() {
        let mut random = SplitMix64::new(1_234_567);
        assert_eq!(random.next_u64(), 6_457_827_717_110_365_317);
        assert_eq!(random.next_u64(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn skipped_draws_are_those_drawn_one_by_one() {
        let (mut random, mut other) = (SplitMix64::new(7), SplitMix64::new(7));
        let drawn: Vec<u64> = (0..9).map(|_| random.next_u64()).collect();
        assert!((0..9).all(|at| other.peek_u64(at) == drawn[at as usize]));
        other.skip(9);
        assert_eq!(other.next_u64(), random.next_u64());
    }

    #[test]
    fn bounded_draws_reach_every_value() {
        let mut random = SplitMix64::new(1);
        let mut seen = [false; 7];
        (0..200).for_each(|_| seen[random.below(7)] = true);
        assert_eq!(seen, [true; 7]);
    }

    #[test]
    fn normal_draws_have_mean_0_and_variance_1() {
        let mut random = SplitMix64::new(3);
        let draws: Vec<f64> = (0..20_000).map(|_| random.normal()).collect();
        let mean = draws.iter().sum::<f64>() / 2e4;
        let variance = draws.iter().map(|d| (d - mean).powi(2)).sum::<f64>() / 2e4;
        // Four standard errors: 4 / sqrt(n) and 4 * sqrt(2 / n).
        assert!(mean.abs() < 0.029, "{mean}");
        assert!((variance - 1.0).abs() < 0.04, "{variance}");
    }
}
