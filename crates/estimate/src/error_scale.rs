//! How large errors are: what kinds of shift add, what classes add, and what chance adds.

use serde::{Deserialize, Serialize};

/// The scale of errors: `s^2 = spread^2 (kinds^2 + chance^2 / images + classes^2 class_share) + apart^2`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ErrorScale {
    /// What kinds of shift differ by.
    kinds: f64,
    /// What one image tells wrongly.
    chance: f64,
    /// What classes differ by: it averages out over those that are present.
    classes: f64,
}

/// What the scale of an error depends on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Circumstances {
    /// How much errors spread at such an accuracy.
    pub spread: f64,
    pub images: usize,
    /// One over the number of classes that are present.
    pub class_share: f64,
    /// What the members of an estimate differ by.
    pub apart: f64,
}

/// An error that is known.
pub(crate) struct KnownError {
    pub error: f64,
    pub at: Circumstances,
    /// The kind of shift.
    pub group: usize,
}

/// Where to look for a scale.
pub(crate) struct Grid {
    pub kinds: [f64; 2],
    pub chance: [f64; 2],
    pub classes: [f64; 2],
}

impl ErrorScale {
    /// The scale at which the errors are most likely, were they normal; every group counts alike.
    pub(crate) fn fit(errors: &[KnownError], grid: Grid) -> Self {
        let mut members = vec![0; errors.iter().map(|e| e.group + 1).max().unwrap_or(0)];
        errors.iter().for_each(|e| members[e.group] += 1);
        let mut best = (f64::INFINITY, Self { kinds: grid.kinds[1], chance: grid.chance[1], classes: grid.classes[1] });
        for kinds in along(grid.kinds) {
            for chance in along(grid.chance) {
                for classes in along(grid.classes) {
                    let scale = Self { kinds, chance, classes };
                    let cost = |e: &KnownError| {
                        let variance = scale.variance(&e.at);
                        (variance.ln() + e.error * e.error / variance) / members[e.group] as f64
                    };
                    let cost: f64 = errors.iter().map(cost).sum();
                    if cost < best.0 {
                        best = (cost, scale);
                    }
                }
            }
        }
        best.1
    }

    /// The scale of an error under such circumstances.
    pub(crate) fn at(&self, circumstances: &Circumstances) -> f64 {
        self.variance(circumstances).sqrt()
    }

    fn variance(&self, at: &Circumstances) -> f64 {
        let chance = self.chance * self.chance / at.images.max(1) as f64;
        let classes = self.classes * self.classes * at.class_share;
        at.spread * at.spread * (self.kinds * self.kinds + chance + classes) + at.apart * at.apart
    }
}

/// Twenty values from end to end, or one where the ends are the same.
fn along([low, high]: [f64; 2]) -> impl Iterator<Item = f64> {
    const STEPS: usize = 20;
    let steps = if low == high { 1 } else { STEPS };
    (0..steps).map(move |step| low + (high - low) * step as f64 / (STEPS - 1) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use flipcast_ground::SplitMix64;

    #[test]
    fn planted_parts_of_errors_are_told_apart() {
        let planted = ErrorScale { kinds: 0.03, chance: 0.4, classes: 0.2 };
        let mut random = SplitMix64::new(1);
        let errors: Vec<KnownError> = (0..4000)
            .map(|i| {
                let (images, class_share) = ([50, 300, 5000][i % 3], [0.01, 0.1, 0.5][i / 3 % 3]);
                let at = Circumstances { spread: 1.0, images, class_share, apart: 0.0 };
                KnownError { error: planted.at(&at) * random.normal(), at, group: i % 20 }
            })
            .collect();
        let found = ErrorScale::fit(&errors, Grid { kinds: [0.004, 0.156], chance: [0.05, 0.81], classes: [0.0, 0.6] });
        assert!((found.kinds - 0.03).abs() < 0.01, "{found:?}");
        assert!((found.chance - 0.4).abs() < 0.05 && (found.classes - 0.2).abs() < 0.04, "{found:?}");
    }
}
