//! Samples of labelled images with other class shares and sizes, as production data have them.

use crate::EstimateError;
use crate::outputs::check_classes;
use flipcast_ground::SplitMix64;
use serde::{Deserialize, Serialize};

/// How often each class comes in a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClassShares {
    /// As many images of every class.
    Balanced,
    /// A plain random sample of the labelled images.
    Sample,
    /// Shares drawn from a Dirichlet distribution with parameter 1: every mixture is as likely as any other.
    Dirichlet1,
    /// The same with parameter 0.1: a few classes have most images.
    Dirichlet01,
    /// 30% of the classes, alike.
    Subset30,
    /// 10% of the classes, alike.
    Subset10,
    /// The class of rank `r` has a share in proportion to `1 / r`.
    Zipf,
}

impl ClassShares {
    /// All of them.
    pub const ALL: [Self; 7] =
        [Self::Balanced, Self::Sample, Self::Dirichlet1, Self::Dirichlet01, Self::Subset30, Self::Subset10, Self::Zipf];

    /// Its name in files and tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Balanced => "balanced",
            Self::Sample => "sample",
            Self::Dirichlet1 => "dirichlet1",
            Self::Dirichlet01 => "dirichlet01",
            Self::Subset30 => "subset30",
            Self::Subset10 => "subset10",
            Self::Zipf => "zipf",
        }
    }

    /// Draws up to `images` of the images with these `labels`, without replacement, in random order. A draw from a class that is used up is
    /// lost, so that skewed samples may have fewer images than asked for.
    ///
    /// ```
    /// use flipcast_estimate::ClassShares;
    ///
    /// let labels: Vec<usize> = (0..1000).map(|image| image % 10).collect();
    /// let rows = ClassShares::Subset10.draw(&labels, 10, 50, 0)?;
    /// assert_eq!(rows.len(), 50);
    /// assert!(rows.iter().all(|&row| labels[row] == labels[rows[0]]));
    /// # Ok::<(), flipcast_estimate::EstimateError>(())
    /// ```
    ///
    /// # Errors
    /// When a label is not below `classes`.
    pub fn draw(self, labels: &[usize], classes: usize, images: usize, seed: u64) -> Result<Vec<usize>, EstimateError> {
        check_classes("label", labels, labels.len(), classes)?;
        let mut random = SplitMix64::new(seed);
        let mut rows: Vec<usize> = (0..labels.len()).collect();
        random.shuffle(&mut rows);
        if self == Self::Sample {
            rows.truncate(images);
            return Ok(rows);
        }
        let mut by_class = vec![Vec::new(); classes];
        rows.iter().for_each(|&row| by_class[labels[row]].push(row));
        let mut order: Vec<usize> = (0..classes).collect();
        random.shuffle(&mut order);
        let weights = self.weights(&order, &mut random);
        let total: f64 = weights.iter().sum();
        let mut drawn = Vec::new();
        for draw in 0..images {
            let class = match self {
                Self::Balanced => order[draw % classes],
                _ => pick(&weights, random.uniform() * total),
            };
            drawn.extend(by_class[class].pop());
        }
        random.shuffle(&mut drawn);
        Ok(drawn)
    }

    /// A weight for every class, the classes being ranked in `order`.
    fn weights(self, order: &[usize], random: &mut SplitMix64) -> Vec<f64> {
        let classes = order.len();
        let mut weights = vec![0.0; classes];
        for (rank, &class) in order.iter().enumerate() {
            weights[class] = match self {
                Self::Balanced | Self::Sample => 1.0,
                Self::Dirichlet1 => gamma(1.0, random),
                Self::Dirichlet01 => gamma(0.1, random),
                Self::Subset30 => f64::from(u8::from(rank < (3 * classes).div_ceil(10))),
                Self::Subset10 => f64::from(u8::from(rank < classes.div_ceil(10))),
                Self::Zipf => 1.0 / (rank + 1) as f64,
            };
        }
        weights
    }
}

/// The place at which the running sum of `weights` passes `at`.
fn pick(weights: &[f64], mut at: f64) -> usize {
    for (place, weight) in weights.iter().enumerate() {
        at -= weight;
        if at < 0.0 {
            return place;
        }
    }
    // Rounding may leave a little at the end; the last weight that is not 0 takes it.
    weights.iter().rposition(|weight| *weight > 0.0).unwrap_or(0)
}

/// A gamma variable (Marsaglia and Tsang, 2000); normalised, such variables are Dirichlet shares.
fn gamma(shape: f64, random: &mut SplitMix64) -> f64 {
    if shape < 1.0 {
        return gamma(shape + 1.0, random) * (1.0 - random.uniform()).powf(1.0 / shape);
    }
    let d = shape - 1.0 / 3.0;
    let c = 1.0 / (9.0 * d).sqrt();
    loop {
        let x = random.normal();
        let v = (1.0 + c * x).powi(3);
        if v > 0.0 && (1.0 - random.uniform()).ln() < 0.5 * x * x + d * (1.0 - v + v.ln()) {
            return d * v;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(shares: ClassShares, images: usize, seed: u64) -> Vec<usize> {
        let labels: Vec<usize> = (0..2000).map(|image| image % 20).collect();
        let rows = shares.draw(&labels, 20, images, seed).unwrap();
        let mut unique = rows.clone();
        unique.sort_unstable();
        unique.dedup();
        assert_eq!(unique.len(), rows.len(), "an image came twice");
        let mut counts = vec![0; 20];
        rows.iter().for_each(|&row| counts[labels[row]] += 1);
        counts
    }

    #[test]
    fn every_kind_of_shares_is_what_its_name_says() {
        assert_eq!(counts(ClassShares::Balanced, 100, 1), [5; 20]);
        assert_eq!(counts(ClassShares::Sample, 300, 1).iter().sum::<usize>(), 300);
        let used = |shares| counts(shares, 60, 1).iter().filter(|&&c| c > 0).count();
        assert_eq!(used(ClassShares::Subset30), 6);
        assert_eq!(used(ClassShares::Subset10), 2);
        let mut zipf = counts(ClassShares::Zipf, 300, 1);
        zipf.sort_unstable();
        // The first class has a share of 1 / 3.6.
        assert!((50..=100).contains(&zipf[19]), "{zipf:?}");
        let largest = |shares| -> usize { (0..20).map(|seed| *counts(shares, 50, seed).iter().max().unwrap()).sum() };
        assert!(largest(ClassShares::Dirichlet01) > largest(ClassShares::Dirichlet1));
        assert!(largest(ClassShares::Dirichlet1) > largest(ClassShares::Sample));
    }

    #[test]
    fn a_class_that_is_used_up_makes_the_sample_smaller() {
        let found: usize = counts(ClassShares::Subset10, 1000, 3).iter().sum();
        assert_eq!(found, 200);
        assert_eq!(counts(ClassShares::Balanced, 5000, 3), [100; 20]);
    }

    #[test]
    fn gamma_variables_have_their_mean_and_variance() {
        for shape in [0.1, 1.0] {
            let mut random = SplitMix64::new(5);
            let drawn: Vec<f64> = (0..40_000).map(|_| gamma(shape, &mut random)).collect();
            let mean = drawn.iter().sum::<f64>() / 40_000.0;
            let variance = drawn.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / 40_000.0;
            // Standard errors are below 0.005 and, for the variance, below 0.015; three of them.
            assert!((mean - shape).abs() < 0.015 && (variance - shape).abs() < 0.045, "{shape}: {mean} {variance}");
        }
    }

    #[test]
    fn a_label_outside_the_classes_is_refused() {
        assert!(ClassShares::Zipf.draw(&[0, 3], 3, 2, 0).is_err());
    }
}
