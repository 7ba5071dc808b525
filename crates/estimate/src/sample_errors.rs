//! Errors of an accuracy fit on kinds of shift it was fitted without, and the intervals that follow from them.

use crate::error_scale::{Circumstances, ErrorScale, Grid, KnownError};
use crate::grouped::conformal_size;
use serde::{Deserialize, Serialize};

/// With fewer kinds of shift a stratum has no 90% interval of its own.
const FEWEST_KINDS: usize = 9;

/// Errors on samples of kinds of shift that the regressions were fitted without.
///
/// Whether shares look usual is known for every set of images, and decides which regressions speak. So an interval may rest on the samples of which the
/// same is true, and is narrow where shares look usual although it must be wide where they do not (Mondrian conformal prediction: Vovk, Gammerman and
/// Shafer, "Algorithmic Learning in a Random World", 2005).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
pub enum SampleErrors {
    /// Each kind of sample has errors of its own.
    ByShares {
        /// Shares look usual.
        usual: Stratum,
        /// They do not.
        unusual: Stratum,
    },
    /// One of the two has too few kinds of shift.
    Together(Stratum),
}

/// Errors of samples that are alike.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stratum {
    /// Estimate minus truth.
    errors: Vec<f64>,
    /// Their scales.
    scales: Vec<f64>,
    /// The kind of shift of each.
    groups: Vec<usize>,
    /// Images of each sample.
    images: Vec<usize>,
    scale: ErrorScale,
}

impl SampleErrors {
    /// From errors that are known, and whether the shares of their samples look usual.
    pub(crate) fn fit(errors: impl Iterator<Item = (bool, KnownError)>) -> Self {
        let (usual, unusual): (Vec<_>, Vec<_>) = errors.partition(|(looks_usual, _)| *looks_usual);
        let only = |errors: Vec<(bool, KnownError)>| errors.into_iter().map(|(_, error)| error).collect::<Vec<_>>();
        let (mut usual, unusual) = (only(usual), only(unusual));
        let kinds = |errors: &[KnownError]| distinct(errors.iter().map(|e| e.group));
        if kinds(&usual).min(kinds(&unusual)) < FEWEST_KINDS {
            usual.extend(unusual);
            return Self::Together(Stratum::fit(&usual));
        }
        Self::ByShares { usual: Stratum::fit(&usual), unusual: Stratum::fit(&unusual) }
    }

    /// The errors that tell about images whose shares look usual, or do not.
    pub(crate) fn stratum(&self, shares_look_usual: bool) -> &Stratum {
        match self {
            Self::ByShares { usual, .. } if shares_look_usual => usual,
            Self::ByShares { unusual, .. } => unusual,
            Self::Together(all) => all,
        }
    }

    fn strata(&self) -> Vec<&Stratum> {
        match self {
            Self::ByShares { usual, unusual } => vec![usual, unusual],
            Self::Together(all) => vec![all],
        }
    }

    /// Number of samples.
    pub fn samples(&self) -> usize {
        self.strata().iter().map(|stratum| stratum.errors.len()).sum()
    }

    /// Number of kinds of shift.
    pub fn kinds(&self) -> usize {
        distinct(self.strata().iter().flat_map(|stratum| stratum.groups.iter().copied()))
    }

    /// Mean size of the errors of samples of at least `images` images, if there are any.
    pub fn mae(&self, images: usize) -> Option<f64> {
        let errors = self.strata().into_iter().flat_map(|stratum| stratum.errors.iter().zip(&stratum.images));
        let sizes: Vec<f64> = errors.filter(|(_, n)| **n >= images).map(|(e, _)| e.abs()).collect();
        (!sizes.is_empty()).then(|| crate::score::mean(&sizes))
    }
}

impl Stratum {
    fn fit(errors: &[KnownError]) -> Self {
        let grid = Grid { kinds: [0.004, 0.156], chance: [0.05, 0.81], classes: [0.0, 0.6] };
        let scale = ErrorScale::fit(errors, grid);
        Self {
            scales: errors.iter().map(|e| scale.at(&e.at)).collect(),
            groups: errors.iter().map(|e| e.group).collect(),
            images: errors.iter().map(|e| e.at.images).collect(),
            errors: errors.iter().map(|e| e.error).collect(),
            scale,
        }
    }

    /// Half width of an interval under such circumstances.
    pub(crate) fn half_width(&self, circumstances: &Circumstances, level: f64) -> f64 {
        let sizes: Vec<f64> = self.errors.iter().zip(&self.scales).map(|(e, scale)| e.abs() / scale).collect();
        conformal_size(&sizes, &self.groups, level) * self.scale.at(circumstances)
    }
}

fn distinct(groups: impl Iterator<Item = usize>) -> usize {
    groups.collect::<std::collections::BTreeSet<_>>().len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use flipcast_ground::SplitMix64;

    /// Errors of `kinds` kinds of shift, five times as large where shares do not look usual.
    fn errors(kinds: usize, unusual_kinds: usize) -> Vec<(bool, KnownError)> {
        let mut random = SplitMix64::new(1);
        let at = |images| Circumstances { spread: 1.0, images, class_share: 0.01, apart: 0.0 };
        let mut errors = Vec::new();
        for group in 0..kinds {
            for images in [100, 1000, 5000] {
                errors.push((true, KnownError { error: 0.01 * random.normal(), at: at(images), group }));
                if group < unusual_kinds {
                    errors.push((false, KnownError { error: 0.05 * random.normal(), at: at(images), group }));
                }
            }
        }
        errors
    }

    #[test]
    fn samples_that_look_usual_have_narrow_intervals_beside_wide_ones() {
        let fit = SampleErrors::fit(errors(18, 18).into_iter());
        let at = Circumstances { spread: 1.0, images: 1000, class_share: 0.01, apart: 0.0 };
        let half_width = |looks_usual| fit.stratum(looks_usual).half_width(&at, 0.9);
        assert!(half_width(false) > 3.0 * half_width(true), "{} {}", half_width(false), half_width(true));
        assert_eq!((fit.samples(), fit.kinds()), (108, 18));
        assert!(fit.mae(0).is_some_and(|mae| (0.01..0.05).contains(&mae)) && fit.mae(6000).is_none());
    }

    #[test]
    fn a_stratum_of_few_kinds_is_joined_to_the_other() {
        let fit = SampleErrors::fit(errors(18, 8).into_iter());
        assert!(matches!(fit, SampleErrors::Together(_)));
        assert_eq!(fit.stratum(true), fit.stratum(false));
        assert_eq!(fit.samples(), 3 * (18 + 8));
    }
}
