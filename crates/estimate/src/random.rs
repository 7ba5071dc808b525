/// A small seeded generator (SplitMix64): the same numbers on every run and machine.
#[derive(Clone, Debug)]
pub(crate) struct Random {
    state: u64,
}

impl Random {
    /// A generator whose numbers depend on `seed` only.
    pub(crate) fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The next 64 bits.
    pub(crate) fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number in `[0, 1)`.
    pub(crate) fn uniform(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// An integer below `bound`, which is not 0. The high half of a product, so no division is made.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.bits()) * bound as u128) >> 64) as usize
    }

    /// A draw from the standard normal distribution (Box-Muller).
    #[cfg(test)]
    pub(crate) fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.uniform()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform()).cos()
    }

    /// Logits of `images` rows whose largest entry is, more often than not, at a drawn label.
    #[cfg(test)]
    pub(crate) fn labelled_outputs(
        &mut self,
        images: usize,
        classes: usize,
        separation: f64,
    ) -> (crate::Outputs, Vec<usize>) {
        let labels: Vec<usize> = (0..images).map(|_| self.below(classes)).collect();
        let mut logits = Vec::with_capacity(images * classes);
        for &label in &labels {
            for class in 0..classes {
                let lift = if class == label { separation } else { 0.0 };
                logits.push((self.normal() + lift) as f32);
            }
        }
        let outputs = crate::Outputs::new(logits, classes).expect("normal draws are finite");
        (outputs, labels)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sequence_is_the_published_one() {
        let mut random = Random::new(1_234_567);
        assert_eq!(random.bits(), 6_457_827_717_110_365_317);
        assert_eq!(random.bits(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn bounded_draws_reach_every_value() {
        let mut random = Random::new(1);
        let mut seen = [false; 7];
        (0..200).for_each(|_| seen[random.below(7)] = true);
        assert_eq!(seen, [true; 7]);
    }
}
