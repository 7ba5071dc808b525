//! Whether images come in random order.

use crate::EstimateError;
use crate::outputs::check_classes;

/// Standard deviations beyond chance: random orders go there once in a thousand times.
const LEVEL: f64 = 3.09;
/// Part of the way from a random to a sorted order from which on batches differ enough to matter.
const MATTERS: f64 = 0.1;

/// Whether neighbours have the same class more often than in random order.
///
/// *Idea.* A stream that is sorted by class, or comes in bursts of one, has batches whose statistics are those of a few classes.
/// *Formula.* Among `n` images with `c_k` of class `k`, a random order has `sum_k c_k (c_k - 1) / n` neighbours of the same class on average, with the variance
/// of the runs test for many categories. More than 3.09 standard deviations above, and more than a tenth of the way to a sorted order, is not random.
/// *Reference.* Barton and David, "Multiple Runs", Biometrika 44, 1957.
///
/// ```
/// use flipcast_estimate::comes_in_bursts;
///
/// let sorted: Vec<usize> = (0..100).map(|image| image / 10).collect();
/// let mixed: Vec<usize> = (0..100).map(|image| image * 7 % 10).collect();
/// assert!(comes_in_bursts(&sorted, 10)? && !comes_in_bursts(&mixed, 10)?);
/// # Ok::<(), flipcast_estimate::EstimateError>(())
/// ```
///
/// # Errors
/// When a class is not below `classes`.
pub fn comes_in_bursts(sequence: &[usize], classes: usize) -> Result<bool, EstimateError> {
    check_classes("class", sequence, sequence.len(), classes)?;
    if sequence.len() < 2 {
        return Ok(false);
    }
    let n = sequence.len() as f64;
    let mut counts = vec![0.0; classes];
    sequence.iter().for_each(|&class| counts[class] += 1.0);
    let power = |exponent: i32| counts.iter().map(|count: &f64| count.powi(exponent)).sum::<f64>();
    let (squares, cubes) = (power(2), power(3));
    let found = sequence.windows(2).filter(|pair| pair[0] == pair[1]).count() as f64;
    let by_chance = (squares - n) / n;
    let variance = (squares * (squares + n * (n + 1.0)) - 2.0 * n * cubes - n.powi(3)) / (n * n * (n - 1.0));
    let sorted = n - counts.iter().filter(|count| **count > 0.0).count() as f64;
    let beyond_chance = found - by_chance > LEVEL * variance.max(0.0).sqrt();
    Ok(beyond_chance && found - by_chance > MATTERS * (sorted - by_chance))
}

#[cfg(test)]
mod tests {
    use super::*;
    use flipcast_ground::SplitMix64;

    /// `n` images of 20 classes, each class for `burst` images in a row.
    fn stream(n: usize, burst: usize, seed: u64) -> Vec<usize> {
        let mut random = SplitMix64::new(seed);
        let starts: Vec<usize> = (0..n.div_ceil(burst)).map(|_| random.below(20)).collect();
        (0..n).map(|image| starts[image / burst]).collect()
    }

    fn flagged(n: usize, burst: usize) -> usize {
        (0..500).filter(|&seed| comes_in_bursts(&stream(n, burst, seed), 20).unwrap()).count()
    }

    #[test]
    fn random_orders_pass_and_bursts_do_not() {
        for n in [50, 200, 1000] {
            assert!(flagged(n, 1) <= 5, "{n}: {}", flagged(n, 1));
            assert!(flagged(n, 4) >= 490, "{n}: {}", flagged(n, 4));
        }
        assert!(flagged(200, 2) >= 490);
    }

    #[test]
    fn one_class_alone_is_no_order() {
        assert!(!comes_in_bursts(&[4; 1000], 20).unwrap());
        assert!(!comes_in_bursts(&[1], 20).unwrap());
        assert!(comes_in_bursts(&[20], 20).is_err());
    }
}
