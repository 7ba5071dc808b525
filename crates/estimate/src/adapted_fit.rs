//! The adapted model's accuracy, learned on calibration cells.

use crate::accuracy_fit::Outlook;
use crate::grouped::conformal_size;
use crate::{AccuracyFit, Estimate, EstimateError, Flag, Signals};
use serde::{Deserialize, Serialize};

/// What the steps of an adaptation did to images whose labels are known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepsSample {
    /// Share of the answers that are others than before the first step.
    pub flips: f64,
    /// What the accuracy rose by.
    pub gain: f64,
    /// Images of the probe.
    pub images: usize,
    /// The kind of shift; `None` for images as they are.
    pub group: Option<usize>,
}

/// What the steps changed on images whose accuracy is asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepsSeen {
    /// Share of the answers that are others than before the first step.
    pub flips: f64,
    /// Images of the probe.
    pub images: usize,
}

/// The accuracy of a model adapted to the images, with an interval.
///
/// *Idea.* Most of what adapting does is done before its first step: norms take the statistics of the batch. That model is the second look, and its accuracy can be learned
/// from the same samples as the source model's ([`AccuracyFit::fit_second`]). Steps change few answers at the usual rates, and can gain or lose no more than they change.
/// *Formula.* `accuracy(second look) + g f`, with `f` the share of the probe's answers that the steps changed and `g` the slope through the origin of gains over flips, least squares on the
/// calibration's cells. The half width of `g f` is `q (f + 1 / n)` with `q` the [`grouped_quantile`](crate::grouped_quantile) of `|error| / (f + 1 / n)` over kinds of shift that `g` was fitted without, at most `f (1 + |g|)`, and this where class
/// shares look unusual, since cells have the labelled images'. It is added in squares to that of the second look. Where adapting begins from the source model (no batch norms, or running statistics), its accuracy stands for the
/// second look's.
/// *Reference.* Flipcast's own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AdaptedFit {
    /// Accuracy of the second look; `None` where adapting begins from the source model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    second: Option<AccuracyFit>,
    /// What an answer that steps change gains.
    gain_per_flip: f64,
    /// Sizes of errors of gains, for each flip.
    sizes: Vec<f64>,
    /// Their kinds of shift.
    groups: Vec<usize>,
}

impl AdaptedFit {
    /// Learns what steps gain. `second` tells the accuracy of the second look, if adapting begins from there.
    ///
    /// # Errors
    /// When there are fewer than two kinds of shift.
    pub fn fit(second: Option<AccuracyFit>, steps: &[StepsSample]) -> Result<Self, EstimateError> {
        let mut kinds: Vec<usize> = steps.iter().filter_map(|sample| sample.group).collect();
        kinds.sort_unstable();
        kinds.dedup();
        if kinds.len() < 2 {
            return Err(EstimateError::TooFew { what: "kinds of shift", found: kinds.len(), expected: 2 });
        }
        let (mut sizes, mut groups) = (Vec::new(), Vec::new());
        for &kind in &kinds {
            let without = slope(steps.iter().filter(|sample| sample.group != Some(kind)));
            for sample in steps.iter().filter(|sample| sample.group == Some(kind)) {
                sizes.push((sample.gain - without * sample.flips).abs() / counted(sample.flips, sample.images));
                groups.push(kind);
            }
        }
        Ok(Self { second, gain_per_flip: slope(steps.iter()), sizes, groups })
    }

    /// The adapted model's accuracy, with an interval meant to hold the truth with probability `level`; `source` tells the source model's.
    pub fn estimate(&self, source: &AccuracyFit, signals: &Signals, steps: &StepsSeen, level: f64) -> Estimate {
        let start = self.start(source, signals, level);
        let usual_shares = !start.flags.contains(&Flag::ClassMarginalMismatch);
        let half_width = start.half_width.hypot(self.half_width(steps, usual_shares, level));
        Estimate::around(start.accuracy + self.gain(steps), half_width, start.flags)
    }

    /// The accuracy that adapting begins from, with an interval meant to hold the truth with probability `level`.
    pub fn start_estimate(&self, source: &AccuracyFit, signals: &Signals, level: f64) -> Estimate {
        let start = self.start(source, signals, level);
        Estimate::around(start.accuracy, start.half_width, start.flags)
    }

    /// What the steps gain.
    pub fn gain(&self, steps: &StepsSeen) -> f64 {
        self.gain_per_flip * steps.flips
    }

    /// Whether adapting begins from the second look, and not from the source model.
    pub fn begins_from_second_look(&self) -> bool {
        self.second.is_some()
    }

    fn start(&self, source: &AccuracyFit, signals: &Signals, level: f64) -> Outlook {
        let strangeness = source.strangeness(signals);
        match &self.second {
            Some(second) => second.outlook(&signals.of_second(), strangeness, level),
            None => source.outlook(signals, strangeness, level),
        }
    }

    fn half_width(&self, steps: &StepsSeen, usual_shares: bool, level: f64) -> f64 {
        let most = steps.flips * (1.0 + self.gain_per_flip.abs());
        if !usual_shares {
            return most;
        }
        let size = conformal_size(&self.sizes, &self.groups, level);
        (size * counted(steps.flips, steps.images)).min(most)
    }
}

/// Flips, and one image more: none among a few does not mean never.
fn counted(flips: f64, images: usize) -> f64 {
    flips + 1.0 / images.max(1) as f64
}

/// What a flip gains, by least squares through the origin; nothing where there is no flip.
fn slope<'a>(steps: impl Iterator<Item = &'a StepsSample>) -> f64 {
    let (products, squares) = steps.fold((0.0, 0.0), |(products, squares), sample| {
        (products + sample.flips * sample.gain, squares + sample.flips * sample.flips)
    });
    if squares > 0.0 { products / squares } else { 0.0 }
}

#[cfg(test)]
mod tests;
