use crate::AdaptError;
use serde::{Deserialize, Serialize};

/// The similarity to the average prediction above which an image has nothing new to say.
///
/// A margin must grow as classes become fewer. Let `m` be the average and `p` a prediction of `K` classes. Against a uniform
/// average `cos(m, p) = 1 / (sqrt(K) |p|)`, which is `1 / sqrt(K)` for a certain prediction (0.32 at 10 classes, 0.1 at 100,
/// 0.071 at 200, 0.032 at 1000) and more for any other. A margin of `c / sqrt(K)` therefore
///
/// - lets nothing pass a uniform average if `c <= 1`: the average never moves again and adaptation has ended unnoticed. The 0.05
///   published for 1000 classes is `c = 0.16` at 10 and `c = 0.5` at 100;
/// - always lets a certain prediction of some class pass if `c > 1`, whatever the average: the smallest entry of `m` is at most
///   `1 / K` and `|m|` at least `1 / sqrt(K)`;
/// - lets every prediction with `|p| > 1 / c` pass a uniform average.
///
/// The settings published for 10, 100 and 1000 classes are `c` = 1.26, 1.0 and 1.58, so one factor serves where one cosine does not.
/// [`RedundancyMargin::default`] takes the last, `c^2 = 5 / 2`, for every `K`: it is the published 0.05 at 1000 classes, 0.5 at 10,
/// 0.16 at 100 and 0.11 at 200. Against a uniform average every prediction with `sum_k p_k^2 > 0.4` passes, and a certain one is
/// turned away only if the average holds more than 1.58 times the uniform share of its class.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum RedundancyMargin {
    /// A cosine, whatever the number of classes.
    Cosine(f64),
    /// `c / sqrt(K)`: a multiple of the cosine between a certain prediction and a uniform one.
    PerRootClasses(f64),
    /// Nothing is redundant.
    Off,
}

impl Default for RedundancyMargin {
    fn default() -> Self {
        // 0.05 at 1000 classes.
        Self::PerRootClasses(2.5f64.sqrt())
    }
}

impl RedundancyMargin {
    /// The margin as a cosine for predictions of `num_classes` classes; `None` if nothing is redundant.
    pub fn cosine(self, num_classes: usize) -> Option<f64> {
        match self {
            Self::Cosine(cosine) => Some(cosine),
            Self::PerRootClasses(factor) => Some(factor / (num_classes as f64).sqrt()),
            Self::Off => None,
        }
    }

    /// Refuses margins that let nothing pass or are no number.
    pub fn check(self) -> Result<(), AdaptError> {
        match self {
            Self::Cosine(cosine) => AdaptError::unless(
                cosine > 0.0 && cosine <= 1.0,
                "redundancy margin as a cosine",
                cosine,
                "more than 0, and at most 1",
            ),
            Self::PerRootClasses(factor) => AdaptError::unless(
                factor > 1.0 && factor.is_finite(),
                "redundancy margin in units of 1 / sqrt(K)",
                factor,
                "more than 1, since less lets nothing pass a uniform average",
            ),
            Self::Off => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::EntropyMargin;
    use flipcast_executor::Logits;
    use flipcast_executor::loss::{Predictions, Selection};
    use flipcast_testkit::Random;

    #[test]
    fn a_factor_is_a_multiple_of_the_cosine_of_certain_and_uniform() {
        assert_eq!(RedundancyMargin::PerRootClasses(2.0).cosine(100), Some(0.2));
        assert_eq!(RedundancyMargin::Cosine(0.05).cosine(10), Some(0.05));
        assert_eq!(RedundancyMargin::Off.cosine(10), None);
        let default = RedundancyMargin::default().cosine(1000).unwrap();
        assert!((default - 0.05).abs() < 1e-15, "as published");
    }

    #[test]
    fn a_margin_that_lets_nothing_pass_is_refused() {
        for margin in [
            RedundancyMargin::Cosine(0.0),
            RedundancyMargin::PerRootClasses(1.0),
            RedundancyMargin::PerRootClasses(f64::NAN),
        ] {
            assert!(margin.check().is_err(), "{margin:?}");
        }
        assert!(RedundancyMargin::default().check().is_ok());
    }

    /// Shares of reliable images among all and of kept ones among the reliable, over the second half of a stream of
    /// balanced classes. Certainty varies from image to image and is `certainty` at most, in nats above chance.
    fn shares(classes: usize, certainty: f32, batch: usize, margin: RedundancyMargin) -> [f64; 2] {
        const STEPS: usize = 80;
        let mut random = Random::new(7);
        let mut selection = Selection::default();
        let (mut reliable, mut kept) = (0, 0);
        let gain = (classes as f32).ln() + certainty;
        for step in 0..STEPS {
            let mut logits: Vec<f32> = (0..batch * classes).map(|_| random.normal() as f32).collect();
            for row in logits.chunks_exact_mut(classes) {
                let class = random.below(classes);
                row[class] += gain * random.between(0.5, 1.0) as f32;
            }
            let entropy_margin = EntropyMargin::Share(0.4).nats(classes);
            let mut predictions = Predictions::default();
            predictions.see(Logits::new(&logits, classes));
            selection.select(&predictions, entropy_margin, margin.cosine(classes));
            if step >= STEPS / 2 {
                reliable += selection.reliable();
                kept += selection.kept().len();
            }
        }
        let images = batch * (STEPS - STEPS / 2);
        [reliable, kept].map(|count| count as f64 / images as f64)
    }

    #[test]
    fn the_default_margin_starves_at_no_number_of_classes() {
        for classes in [10, 100, 200, 1000] {
            for certainty in [1.0, 6.0] {
                let margin = RedundancyMargin::default();
                let [reliable, kept] = shares(classes, certainty, 64, margin);
                assert!(reliable > 0.05, "{classes} classes: {reliable}");
                assert!(kept > 0.5 * reliable, "{classes} classes: {kept} of {reliable}");
            }
        }
    }

    #[test]
    fn the_margin_published_for_many_classes_starves_with_few() {
        let [reliable, kept] = shares(10, 6.0, 64, RedundancyMargin::Cosine(0.05));
        assert!(reliable > 0.5 && kept == 0.0, "{kept} of {reliable}");
    }
}
