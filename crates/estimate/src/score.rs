use crate::Flag;
use serde::{Deserialize, Serialize};

/// Below this many images the standard error of an accuracy can exceed five points.
const FEW_IMAGES: usize = 100;

/// What one estimator says about one set of images.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Score {
    /// The estimate: an accuracy as a fraction, or a raw score that a [`Curve`](crate::Curve) turns into one.
    pub value: f64,
    /// Contributions of the images, whose mean is `value`, where the estimator has such a form. For sampling errors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terms: Option<Vec<f64>>,
    /// Reasons for doubt, each at most once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flags: Vec<Flag>,
}

impl Score {
    /// A score that is the mean of one term per image; 0 where there is no image.
    pub fn from_terms(terms: Vec<f64>) -> Self {
        let mut score = Self::of_images(mean(&terms), terms.len());
        score.terms = Some(terms);
        score
    }

    /// A score of this many images that is no mean of terms.
    pub fn of_images(value: f64, images: usize) -> Self {
        let flags = if images < FEW_IMAGES { vec![Flag::TooFewImages] } else { Vec::new() };
        Self { value, terms: None, flags }
    }

    /// Adds a flag unless it is there already.
    pub fn raise(&mut self, flag: Flag) {
        if !self.flags.contains(&flag) {
            self.flags.push(flag);
        }
    }
}

/// The mean, 0 of nothing.
pub(crate) fn mean(values: &[f64]) -> f64 {
    if values.is_empty() { 0.0 } else { values.iter().sum::<f64>() / values.len() as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_value_is_the_mean_of_the_terms() {
        let score = Score::from_terms(vec![0.0, 1.0, 1.0, 0.0]);
        assert_eq!(score.value, 0.5);
        assert_eq!(score.flags, [Flag::TooFewImages]);
        assert!(Score::of_images(0.3, 100).flags.is_empty());
    }

    #[test]
    fn a_flag_is_raised_once() {
        let mut score = Score::of_images(0.3, 1000);
        score.raise(Flag::SaturatedFit);
        score.raise(Flag::SaturatedFit);
        assert_eq!(score.flags, [Flag::SaturatedFit]);
    }
}
