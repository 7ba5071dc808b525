use serde::{Deserialize, Serialize};

/// Candidates for the mean.
const CANDIDATES: usize = 400;
/// Bets stay below this share of what they can lose.
const LARGEST_BET: f64 = 0.5;

/// An interval for a mean that may be looked at after every value.
///
/// *Idea.* For every candidate mean somebody bets that the truth is larger, and somebody that it is smaller. Candidates against which a bet has
/// multiplied its stake by `1 / alpha` are given up; the truth is given up *ever* with probability at most `alpha`.
/// *Formula.* For values `x` from 0 to 1 and a candidate `m`: `K+ = prod (1 + min(b, c / m) (x - m))`, `K- = prod (1 - min(b, c / (1 - m)) (x - m))`,
/// `c = 1/2`, `b_t = sqrt(2 log(2 / alpha) / (v t log(1 + t)))` with `v` the variance before; the interval is `max(K+, K-) / 2 < 1 / alpha`.
/// *Reference.* Waudby-Smith and Ramdas, "Estimating means of bounded random variables by betting", JRSS-B 2024, theorem 3.
///
/// ```
/// let mut sequence = flipcast_estimate::ConfidenceSequence::new(0.1);
/// (0..50).for_each(|i| sequence.update(if i % 5 == 0 { 0.0 } else { 1.0 }));
/// let (low, high) = sequence.interval();
/// assert!(low > 0.5 && low < 0.8 && high > 0.8);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConfidenceSequence {
    alpha: f64,
    values: u64,
    sum: f64,
    squares: f64,
    /// Logarithms of what the two bets against each candidate own.
    above: Vec<f64>,
    below: Vec<f64>,
}

impl ConfidenceSequence {
    /// A sequence of intervals all of which hold the mean with probability `1 - alpha`.
    pub fn new(alpha: f64) -> Self {
        let none = vec![0.0; CANDIDATES + 1];
        Self { alpha, values: 0, sum: 0.0, squares: 0.0, above: none.clone(), below: none }
    }

    /// Takes a value from 0 to 1; what lies beyond is moved to the nearer end.
    pub fn update(&mut self, value: f64) {
        let value = value.clamp(0.0, 1.0);
        let step = (self.values + 1) as f64;
        // As if one value of one half had come before, so that the variance is never 0.
        let variance = (0.25 + self.squares) / step;
        let bet = (2.0 * (2.0 / self.alpha).ln() / (variance * step * (1.0 + step).ln())).sqrt();
        for (candidate, (above, below)) in self.above.iter_mut().zip(&mut self.below).enumerate() {
            let mean = candidate as f64 / CANDIDATES as f64;
            *above += (bet.min(LARGEST_BET / mean.max(1e-9)) * (value - mean)).ln_1p();
            *below += (-bet.min(LARGEST_BET / (1.0 - mean).max(1e-9)) * (value - mean)).ln_1p();
        }
        self.values += 1;
        self.sum += value;
        let mean = (0.5 + self.sum) / (1.0 + self.values as f64);
        self.squares += (value - mean).powi(2);
    }

    /// Values so far.
    pub fn values(&self) -> u64 {
        self.values
    }

    /// The interval now; everything before any value.
    pub fn interval(&self) -> (f64, f64) {
        let line = (2.0 / self.alpha).ln();
        let stays = |&place: &usize| self.above[place].max(self.below[place]) < line;
        let ends = ((0..=CANDIDATES).find(stays), (0..=CANDIDATES).rev().find(stays));
        let share = |place: usize| place as f64 / CANDIDATES as f64;
        let width = 1.0 / CANDIDATES as f64;
        match ends {
            // The truth may lie between two candidates.
            (Some(low), Some(high)) => ((share(low) - width).max(0.0), (share(high) + width).min(1.0)),
            _ => {
                let mean = self.sum / self.values.max(1) as f64;
                ((mean - width).max(0.0), (mean + width).min(1.0))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flipcast_ground::SplitMix64;

    #[test]
    fn the_mean_stays_in_all_intervals_as_often_as_promised() {
        let mut random = SplitMix64::new(8);
        for mean in [0.1, 0.5, 0.93] {
            let runs = 100;
            let lost = (0..runs)
                .filter(|_| {
                    let mut sequence = ConfidenceSequence::new(0.1);
                    (0..150).any(|_| {
                        sequence.update(f64::from(u8::from(random.uniform() < mean)));
                        let (low, high) = sequence.interval();
                        !(low..=high).contains(&mean)
                    })
                })
                .count();
            // Ten are allowed on average; three standard deviations more by chance.
            assert!(lost <= 19, "{lost} of {runs} at {mean}");
        }
    }

    #[test]
    fn values_of_little_spread_give_narrow_intervals() {
        let mut random = SplitMix64::new(9);
        let width = |spread: f64, random: &mut SplitMix64| {
            let mut sequence = ConfidenceSequence::new(0.1);
            (0..200).for_each(|_| sequence.update(0.5 + spread * (random.uniform() - 0.5)));
            let (low, high) = sequence.interval();
            assert!(low < 0.5 && high > 0.5);
            high - low
        };
        assert!(width(0.1, &mut random) < 0.5 * width(1.0, &mut random));
        assert_eq!(ConfidenceSequence::new(0.1).interval(), (0.0, 1.0));
    }
}
