//! What is expected of every class: how often it occurs, how often an answer is right, and what it is confused with.

use crate::{Estimate, EstimateError, Marginal, MarginalReference, Outputs, normal_quantile};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Images that must have been answered with a class before its precision is told.
const FEWEST_ANSWERS: usize = 20;

/// Images that a confusion is expected in, at least; so there are no more of them than images.
const LEAST_IMAGES: f64 = 1.0;

/// Temperatures that are tried when one is matched to an accuracy: halvings of the range of their logarithm.
const HALVINGS: usize = 26;

/// Settings of [`estimate_by_class`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ByClassConfig {
    /// Probability with which intervals are meant to hold the truth, between 0 and 1.
    pub level: f64,
    /// Standard deviation of the gap between mean probabilities and accuracies.
    pub calibration_error: f64,
}

impl ByClassConfig {
    /// Refuses settings outside their range.
    pub fn check(&self) -> Result<(), EstimateError> {
        let refuse = |setting, found, expected| Err(EstimateError::Setting { setting, found, expected });
        if !(self.level > 0.0 && self.level < 1.0) {
            return refuse("the level", self.level, "a number between 0 and 1");
        }
        if !(0.0..=1.0).contains(&self.calibration_error) {
            return refuse("the calibration error", self.calibration_error, "a number from 0 to 1");
        }
        Ok(())
    }
}

/// What is expected of the classes of a dataset.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ByClass {
    /// Every class, in the order of the outputs.
    pub classes: Vec<ClassEstimate>,
    /// Pairs that at least one image is expected in, those with most images first.
    pub confusions: Vec<ExpectedConfusion>,
}

/// What is expected of one class.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClassEstimate {
    /// Its number.
    pub class: usize,
    /// The share of images that belong to it.
    pub share: f64,
    /// Lower end of the share's interval.
    pub share_low: f64,
    /// Upper end of the share's interval.
    pub share_high: f64,
    /// Images that were answered with it.
    pub answered: usize,
    /// The share of these answers that are right; `None` below 20 of them.
    pub precision: Option<Estimate>,
}

/// A wrong answer that is expected.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExpectedConfusion {
    /// The class that was answered.
    pub answered: usize,
    /// The class that the image belongs to.
    pub class: usize,
    /// Mean probability of that class among the images answered so.
    pub probability: f64,
    /// Images that this is expected of.
    pub images: f64,
}

/// Class shares, precision by predicted class, and the confusions a network expects of itself.
///
/// *Idea.* A network whose probabilities are right on average says itself how many of its answers of one kind are right, what the
/// others are, and how often a class occurs. What it says of shares may be wrong in two ways: probabilities expect the shares of
/// the training images, and a shift makes the network take one class for another. So shares come with much doubt.
/// *Formula.* Among the `n_k` images answered `k`: precision `mean p_k`, confusion with `j` `mean p_j`. A precision's variance is
/// `sum p (1 - p) / n_k^2`, as of `n_k` unequal coins, plus the squares of the calibration error and of the precision times the total variation
/// between `s` and `e`, which grows with a shift. The share `s_k` is the mean of `p_k` over
/// all `n` images; its variance is `s_k (1 - s_k) / n + (s_k - e_k)^2 + (c s_k)^2` with the shares `e` of
/// [`Marginal::Em`](crate::Marginal::Em) and the share of wrong answers `c = 1 - mean confidence`.
/// *Reference.* Guillory et al., "Predicting with Confidence on Unseen Distributions", ICCV 2021, for accuracies from confidences;
/// Saerens et al., Neural Computation 2002, for `e`.
/// *Departures from the reference.* By class instead of over all images. `e` is right where the shares alone have changed and far off under
/// most other shifts (`studies/few_labels`), so that it is a measure of doubt here and not the estimate. `outputs` should have the temperature at
/// which their mean confidence is the best estimate of the accuracy ([`match_temperature`]): under a shift a temperature from
/// clean images is too sure.
///
/// ```
/// use flipcast_estimate::{ByClassConfig, MarginalReference, Outputs, estimate_by_class};
///
/// // Forty answers "0" with probability 3/4, sixty answers "1" that are certain.
/// let logits = [[[3f32.ln(), 0.0]; 40].concat(), [[-50.0, 0.0]; 60].concat()].concat();
/// let outputs = Outputs::new(logits, 2)?;
/// let config = ByClassConfig { level: 0.9, calibration_error: 0.02 };
/// let found = estimate_by_class(&outputs, &MarginalReference::uniform(2), &config)?;
/// let precision = found.classes[0].precision.as_ref().expect("more than 20 answers");
/// assert!((precision.accuracy - 0.75).abs() < 1e-6);
/// assert!((found.confusions[0].images - 10.0).abs() < 1e-4);
/// # Ok::<(), flipcast_estimate::EstimateError>(())
/// ```
///
/// # Errors
/// When a setting is outside its range, or the reference does not fit the classes.
pub fn estimate_by_class(
    outputs: &Outputs,
    reference: &MarginalReference,
    config: &ByClassConfig,
) -> Result<ByClass, EstimateError> {
    config.check()?;
    let quantile = normal_quantile(config.level);
    let by_em = Marginal::Em.resolve(outputs, reference)?;
    let answers = Answers::gather(outputs);
    let images = outputs.images() as f64;
    let wrong = 1.0 - answers.right.iter().sum::<f64>() / images;
    let shares: Vec<f64> = (0..outputs.classes()).map(|class| answers.share(class, images)).collect();
    let disagreement = shares.iter().zip(&by_em).map(|(share, em)| (share - em).abs()).sum::<f64>() / 2.0;
    let class = |class: usize| {
        let share = shares[class];
        // One image more, so that a class of which none was seen may still exist.
        let likely = (share * images + 1.0) / (images + 2.0);
        let variance = likely * (1.0 - likely) / images + (share - by_em[class]).powi(2) + (wrong * share).powi(2);
        let half_width = quantile * variance.sqrt();
        let answered = answers.counts[class];
        ClassEstimate {
            class,
            share,
            share_low: (share - half_width).max(0.0),
            share_high: (share + half_width).min(1.0),
            answered,
            precision: (answered >= FEWEST_ANSWERS).then(|| {
                let by_chance = answers.variances[class] / (answered as f64).powi(2);
                let precision = answers.right[class] / answered as f64;
                let by_shift = (disagreement * precision).powi(2);
                let half_width = quantile * (by_chance + config.calibration_error.powi(2) + by_shift).sqrt();
                Estimate::around(precision, half_width, Vec::new())
            }),
        }
    };
    Ok(ByClass { classes: (0..outputs.classes()).map(class).collect(), confusions: answers.confusions() })
}

/// Sums of probabilities by the class that was answered.
struct Answers {
    counts: Vec<usize>,
    /// Of the answer itself: images expected to be right.
    right: Vec<f64>,
    /// Of the answer's probability times that of any other.
    variances: Vec<f64>,
    /// Of every class, where the class was answered at all.
    sums: BTreeMap<usize, Vec<f64>>,
}

impl Answers {
    fn gather(outputs: &Outputs) -> Self {
        let classes = outputs.classes();
        let (mut counts, mut right, mut variances) = (vec![0; classes], vec![0.0; classes], vec![0.0; classes]);
        let mut sums: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
        let mut probs = Vec::new();
        for (image, answer) in outputs.classes_predicted().into_iter().enumerate() {
            outputs.probs_into(image, &mut probs);
            counts[answer] += 1;
            right[answer] += probs[answer];
            variances[answer] += probs[answer] * (1.0 - probs[answer]);
            let sums = sums.entry(answer).or_insert_with(|| vec![0.0; classes]);
            sums.iter_mut().zip(&probs).for_each(|(sum, prob)| *sum += prob);
        }
        Self { counts, right, variances, sums }
    }

    /// Mean probability of `class` over all images.
    fn share(&self, class: usize, images: f64) -> f64 {
        self.sums.values().map(|sums| sums[class]).sum::<f64>() / images
    }

    fn confusions(&self) -> Vec<ExpectedConfusion> {
        let mut found = Vec::new();
        for (&answered, sums) in &self.sums {
            let count = self.counts[answered] as f64;
            let others =
                sums.iter().enumerate().filter(|&(class, images)| class != answered && *images >= LEAST_IMAGES);
            found.extend(others.map(|(class, &images)| ExpectedConfusion {
                answered,
                class,
                probability: images / count,
                images,
            }));
        }
        found.sort_by(|a, b| b.images.total_cmp(&a.images).then((a.answered, a.class).cmp(&(b.answered, b.class))));
        found
    }
}

/// The temperature at which the mean confidence is `accuracy`; the nearest from 0.01 to 100 where none is.
///
/// *Idea.* Under a shift, probabilities calibrated on clean images are too sure. Where an estimate of the accuracy is at hand, one more
/// temperature makes confidences agree with it on average, and keeps their order within a class.
/// *Formula.* `T` such that `mean_i max_k softmax(z_i / T)_k = accuracy`; the left side falls with `T`.
/// *Reference.* None; the matched threshold of ATC (Garg et al., ICLR 2022) is the same thought with a threshold.
/// *Departures from the reference.* None.
///
/// # Errors
/// When the accuracy is not a number from 0 to 1.
pub fn match_temperature(outputs: &Outputs, accuracy: f64) -> Result<f64, EstimateError> {
    if !(0.0..=1.0).contains(&accuracy) {
        return Err(EstimateError::Setting {
            setting: "the accuracy",
            found: accuracy,
            expected: "a number from 0 to 1",
        });
    }
    let (mut low, mut high) = (0.01f64, 100f64);
    for _ in 0..HALVINGS {
        let middle = (low * high).sqrt();
        let confidences = outputs.scaled(middle).confidences();
        if confidences.iter().sum::<f64>() > accuracy * confidences.len() as f64 {
            low = middle;
        } else {
            high = middle;
        }
    }
    Ok((low * high).sqrt())
}

#[cfg(test)]
mod tests;
