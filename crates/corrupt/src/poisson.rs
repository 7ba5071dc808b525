//! Poisson counts by inversion of an exact table.

use crate::rng::CounterRng;

/// Probabilities below this share of the largest one are left out; their sum is below what a 53-bit draw resolves.
const NEGLIGIBLE: f64 = 1e-20;
/// Entries of the table that says where to start looking.
const GUIDES: usize = 64;

/// The cumulative distribution of a Poisson variable with a fixed mean.
///
/// A count is the smallest one whose cumulative probability exceeds a uniform draw, so the sampler has no bias besides
/// the 53 bits of the draw.
#[derive(Clone, Debug, PartialEq)]
pub struct Poisson {
    first: u32,
    cumulative: Vec<f64>,
    guides: Vec<u32>,
}

impl Poisson {
    /// The distribution with this mean (finite, not negative, at most a few million).
    pub fn new(mean: f64) -> Self {
        let mode = mean.floor();
        let mut below = Vec::new();
        let mut share = 1.0;
        let mut count = mode;
        while count > 0.0 && share > NEGLIGIBLE {
            share *= count / mean;
            count -= 1.0;
            below.push(share);
        }
        let first = mode as u32 - below.len() as u32;
        let mut shares: Vec<f64> = below.into_iter().rev().chain([1.0]).collect();
        let (mut share, mut count) = (1.0, mode);
        while share > NEGLIGIBLE {
            count += 1.0;
            share *= mean / count;
            shares.push(share);
        }
        let total: f64 = shares.iter().sum();
        let mut sum = 0.0;
        let cumulative: Vec<f64> = shares
            .iter()
            .map(|share| {
                sum += share / total;
                sum
            })
            .collect();
        let guides =
            (0..GUIDES).map(|g| cumulative.partition_point(|&c| c <= g as f64 / GUIDES as f64) as u32).collect();
        Self { first, cumulative, guides }
    }

    /// The smallest count it gives.
    pub(crate) fn first(&self) -> u32 {
        self.first
    }

    /// The cumulative probabilities of the counts from the smallest on.
    pub(crate) fn cumulative(&self) -> &[f64] {
        &self.cumulative
    }

    /// The count that belongs to a uniform draw of 0..1.
    #[inline]
    pub fn quantile(&self, uniform: f64) -> u32 {
        let mut i = self.guides[(uniform * GUIDES as f64) as usize % GUIDES] as usize;
        let last = self.cumulative.len() - 1;
        while i < last && self.cumulative[i] <= uniform {
            i += 1;
        }
        self.first + i as u32
    }

    /// A random count.
    #[inline]
    pub fn draw(&self, rng: &mut CounterRng) -> u32 {
        self.quantile(rng.uniform())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::StreamKey;

    #[test]
    fn a_mean_of_zero_gives_nothing() {
        let poisson = Poisson::new(0.0);
        assert_eq!(poisson.quantile(0.0), 0);
        assert_eq!(poisson.quantile(0.999_999), 0);
    }

    #[test]
    fn quantiles_are_those_of_the_distribution() {
        // P(X <= k) of mean 3: 0.0498, 0.1991, 0.4232, 0.6472, 0.8153.
        let poisson = Poisson::new(3.0);
        for (uniform, count) in
            [(0.0497, 0), (0.0499, 1), (0.198, 1), (0.2, 2), (0.423, 2), (0.424, 3), (0.8152, 4), (0.8154, 5)]
        {
            assert_eq!(poisson.quantile(uniform), count, "at {uniform}");
        }
    }

    #[test]
    fn draws_follow_the_distribution_at_every_mean_in_use() {
        let key = StreamKey { seed: 5, set: "t", corruption: "p", severity_hundredths: 1, image_index: 0 };
        let mut rng = CounterRng::new(&key);
        for mean in [0.02, 0.7, 3.0, 11.5, 60.0, 480.0, 2400.0] {
            let poisson = Poisson::new(mean);
            let count = 40_000;
            let draws: Vec<f64> = (0..count).map(|_| f64::from(poisson.draw(&mut rng))).collect();
            let average = draws.iter().sum::<f64>() / f64::from(count);
            let variance = draws.iter().map(|x| (x - average).powi(2)).sum::<f64>() / f64::from(count - 1);
            let error = (mean / f64::from(count)).sqrt();
            assert!((average - mean).abs() < 5.0 * error, "mean {average} for {mean}");
            let spread = ((2.0 * mean * mean + mean) / f64::from(count)).sqrt();
            assert!((variance - mean).abs() < 5.0 * spread, "variance {variance} for {mean}");
            chi_square(&draws, mean);
        }
    }

    /// Compares counts with the exact probabilities, computed here by logarithms instead of a table.
    fn chi_square(draws: &[f64], mean: f64) {
        let mut log_share = -mean;
        let (mut statistic, mut cells, mut rest, mut rest_found) = (0.0, 0, 1.0, draws.len() as f64);
        for k in 0..(mean + 12.0 * mean.sqrt() + 20.0) as usize {
            if k > 0 {
                log_share += (mean / k as f64).ln();
            }
            let expected = log_share.exp() * draws.len() as f64;
            if expected >= 10.0 {
                let found = draws.iter().filter(|&&x| x == k as f64).count() as f64;
                statistic += (found - expected).powi(2) / expected;
                cells += 1;
                rest -= log_share.exp();
                rest_found -= found;
            }
        }
        let expected = rest * draws.len() as f64;
        if expected >= 10.0 {
            statistic += (rest_found - expected).powi(2) / expected;
        }
        // Mean n, variance 2n: five deviations.
        let freedom = f64::from(cells);
        assert!(statistic < freedom + 5.0 * (2.0 * freedom).sqrt() + 5.0, "{statistic} over {cells} cells at {mean}");
    }
}
