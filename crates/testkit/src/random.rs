use flipcast_ground::SplitMix64;

/// A seeded generator with the draws that tests need: the same numbers on every run and machine.
#[derive(Clone, Debug)]
pub struct Random(SplitMix64);

impl Random {
    /// A generator whose numbers depend on `seed` only.
    pub fn new(seed: u64) -> Self {
        Self(SplitMix64::new(seed))
    }

    /// A generator seeded by `text`, so that renaming one thing changes nothing else.
    pub fn from_text(text: &str) -> Self {
        Self(SplitMix64::from_text(text))
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number in `[0, 1)`.
    pub fn uniform(&mut self) -> f64 {
        self.0.uniform()
    }

    /// A number in `[low, high)`.
    pub fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.uniform()
    }

    /// An integer below `bound`.
    ///
    /// # Panics
    /// If `bound` is 0.
    pub fn below(&mut self, bound: usize) -> usize {
        assert!(bound > 0, "there is no integer below 0");
        (self.bits() % bound as u64) as usize
    }

    /// One of `items`.
    ///
    /// # Panics
    /// If there are none.
    pub fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())]
    }

    /// True with probability `p`.
    pub fn chance(&mut self, p: f64) -> bool {
        self.uniform() < p
    }

    /// A draw from the standard normal distribution.
    pub fn normal(&mut self) -> f64 {
        self.0.normal()
    }
}
