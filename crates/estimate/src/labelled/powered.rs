use super::ask::check_guesses;
use crate::score::mean;
use crate::{Estimate, EstimateError, student_quantile};
use serde::{Deserialize, Serialize};

/// The fewest labels that say anything about their own spread.
pub const FEWEST_LABELS: usize = 5;
/// Largest factor by which guesses are trusted; calibrated ones deserve 1.
const LARGEST_POWER: f64 = 1.5;
/// Labels that a stratum is given in advance, at the accuracy of the whole, so that a few equal ones do not look certain.
const PRIOR_LABELS: f64 = 1.0;

/// An image that somebody labelled.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Answer {
    /// Its position in the dataset.
    pub image: usize,
    /// Whether the prediction was right.
    pub right: bool,
    /// The stratum it was drawn from; all 0 for a plain random sample.
    pub stratum: usize,
}

/// An accuracy from many guesses and a few labels, beside what the labels alone say.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PoweredEstimate {
    /// From guesses and labels together.
    pub estimate: Estimate,
    /// From the labels alone.
    pub labels_alone: Estimate,
    /// How far guesses were trusted: 0 not at all, 1 as they stand.
    pub power: f64,
    /// How many random labels alone would be as certain.
    pub effective_labels: f64,
}

/// The accuracy on a finite set of images, of which a random few are labelled: prediction-powered inference.
///
/// *Idea.* A guess of every image's correctness is known for all images, the truth for a few drawn at random. The mean of
/// the guesses is corrected by how wrong they are on the few. However bad the guesses, the result has no bias; the better
/// they are, the less is left to chance.
/// *Formula.* `sum_h W_h (mean_h(y) + power (mean_h,all(g) - mean_h(g)))` over strata `h` with shares `W_h` of the images, `y` being
/// right or wrong, `g` the guesses; `power` is the regression coefficient of `y` on `g` within strata, between 0 and 1.5. Its
/// variance relative to that of labels alone is measured by leaving out one label at a time; where that is no gain, the power is 0.
/// The interval is Wilson's, with the number of labels that would alone be as certain, and Student's quantile.
/// *Reference.* Angelopoulos et al., "Prediction-powered inference", Science 2023, and "PPI++", 2023; the difference and regression
/// estimators of survey sampling (Särndal et al., "Model Assisted Survey Sampling", 1992); Wilson, JASA 1927.
/// *Departures from the reference.* The target is the accuracy on these very images, so that labelling all of them leaves no doubt.
/// Wilson's form replaces the normal one, which fails for a handful of labels and for accuracies near 0 and 1.
///
/// ```
/// use flipcast_estimate::{Answer, powered_estimate};
///
/// let guesses: Vec<f64> = (0..1000).map(|i| f64::from(i) / 1000.0).collect();
/// // Somebody labelled every tenth image; the classifier is right where the guess is above one half.
/// let answers: Vec<Answer> =
///     (0..100).map(|i| Answer { image: 10 * i, right: i >= 50, stratum: 0 }).collect();
/// let found = powered_estimate(&guesses, &[0; 1000], &answers, 0.9)?;
/// assert!(found.estimate.holds(0.5));
/// assert!(found.estimate.high - found.estimate.low < found.labels_alone.high - found.labels_alone.low);
/// # Ok::<(), flipcast_estimate::EstimateError>(())
/// ```
///
/// # Errors
/// When `strata` has not one entry per guess, an answer names an image twice or one that is not there, an answer's stratum
/// is not its image's, a stratum with images has no answer, or there are fewer than five answers.
pub fn powered_estimate(
    guesses: &[f64],
    strata: &[usize],
    answers: &[Answer],
    level: f64,
) -> Result<PoweredEstimate, EstimateError> {
    check(guesses, strata, answers)?;
    let strata = gather(guesses, strata, answers)?;
    let freedom = answers.len() - strata.len();
    let quantile = student_quantile(level, freedom.max(1));
    let alone = Design { strata: &strata, power: 0.0, residual_share: 1.0 };
    let powered = alone.with_best_power();
    let interval = |design: &Design| {
        let accuracy = design.accuracy();
        let effective = design.effective_labels(accuracy);
        let (low, high) = wilson(accuracy, effective, quantile);
        (Estimate { accuracy, low, high, flags: Vec::new() }, effective)
    };
    let (estimate, effective_labels) = interval(&powered);
    Ok(PoweredEstimate { estimate, labels_alone: interval(&alone).0, power: powered.power, effective_labels })
}

/// One stratum: guesses of its labelled images beside what they turned out to be.
struct Stratum {
    images: usize,
    mean_guess: f64,
    labelled: Vec<(f64, f64)>,
}

impl Stratum {
    fn labels(&self) -> f64 {
        self.labelled.len() as f64
    }

    fn mean_right(&self) -> f64 {
        self.labelled.iter().map(|(_, right)| right).sum::<f64>() / self.labels()
    }

    fn mean_labelled_guess(&self) -> f64 {
        self.labelled.iter().map(|(guess, _)| guess).sum::<f64>() / self.labels()
    }
}

/// How labels were drawn, and how far guesses are trusted.
struct Design<'a> {
    strata: &'a [Stratum],
    power: f64,
    /// Variance left when guesses are used, as a share of that of labels alone.
    residual_share: f64,
}

impl Design<'_> {
    /// The same design with the power at which guesses help most; none where they do not help.
    fn with_best_power(&self) -> Self {
        let (mut spread, mut together) = (0.0, 0.0);
        for stratum in self.strata {
            let (guess_mean, right_mean) = (stratum.mean_labelled_guess(), stratum.mean_right());
            for (guess, right) in &stratum.labelled {
                spread += (guess - guess_mean).powi(2);
                together += (guess - guess_mean) * (right - right_mean);
            }
        }
        let power = if spread > 1e-9 { (together / spread).clamp(0.0, LARGEST_POWER) } else { 0.0 };
        let (mut with, mut without) = (0.0, 0.0);
        for stratum in self.strata {
            let (guess_mean, right_mean) = (stratum.mean_labelled_guess(), stratum.mean_right());
            // A stratum with one label says nothing about its own spread.
            let own = 1.0 / stratum.labels().max(2.0);
            for (guess, right) in &stratum.labelled {
                let (from_guess, from_right) = (guess - guess_mean, right - right_mean);
                // What leaving this label out does to its own residual (the leverage of a regression).
                let leverage = (own + from_guess.powi(2) / spread.max(1e-9)).min(0.9);
                with += ((from_right - power * from_guess) / (1.0 - leverage)).powi(2);
                without += (from_right / (1.0 - own)).powi(2);
            }
        }
        let residual_share = if without > 0.0 { with / without } else { 1.0 };
        match residual_share < 1.0 && power > 0.0 {
            true => Self { strata: self.strata, power, residual_share },
            false => Self { strata: self.strata, power: 0.0, residual_share: 1.0 },
        }
    }

    fn images(&self) -> f64 {
        self.strata.iter().map(|stratum| stratum.images as f64).sum()
    }

    fn accuracy(&self) -> f64 {
        let images = self.images();
        let weighted = self.strata.iter().map(|stratum| {
            let corrected = stratum.mean_right() + self.power * (stratum.mean_guess - stratum.mean_labelled_guess());
            stratum.images as f64 / images * corrected
        });
        weighted.sum::<f64>().clamp(0.0, 1.0)
    }

    /// Labels of a plain random sample from endlessly many images that would leave as much to chance.
    fn effective_labels(&self, accuracy: f64) -> f64 {
        let images = self.images();
        if let [all] = self.strata {
            let unlabelled = 1.0 - all.labels() / images;
            return all.labels() / (self.residual_share * unlabelled).max(1e-9);
        }
        let labels: f64 = self.strata.iter().map(Stratum::labels).sum();
        let prior = (labels * accuracy + 1.0) / (labels + 2.0);
        let share_right = |stratum: &Stratum| {
            let right = stratum.mean_right() * stratum.labels();
            (right + PRIOR_LABELS * prior) / (stratum.labels() + PRIOR_LABELS)
        };
        let variance: f64 = self
            .strata
            .iter()
            .map(|stratum| {
                let weight = stratum.images as f64 / images;
                let share = share_right(stratum);
                let unlabelled = 1.0 - stratum.labels() / stratum.images as f64;
                weight.powi(2) * unlabelled * self.residual_share * share * (1.0 - share) / stratum.labels()
            })
            .sum();
        let weighted = self.strata.iter().map(|stratum| stratum.images as f64 / images * share_right(stratum));
        let whole: f64 = weighted.sum();
        whole * (1.0 - whole) / variance.max(1e-12)
    }
}

/// Wilson's interval for a share seen in `labels` draws.
fn wilson(share: f64, labels: f64, quantile: f64) -> (f64, f64) {
    let square = quantile * quantile / labels;
    let centre = (share + 0.5 * square) / (1.0 + square);
    let half_width = quantile * (share * (1.0 - share) / labels + 0.25 * square / labels).sqrt() / (1.0 + square);
    ((centre - half_width).max(0.0), (centre + half_width).min(1.0))
}

fn check(guesses: &[f64], strata: &[usize], answers: &[Answer]) -> Result<(), EstimateError> {
    if strata.len() != guesses.len() {
        return Err(EstimateError::Length { what: "strata", found: strata.len(), expected: guesses.len() });
    }
    if answers.len() < FEWEST_LABELS {
        return Err(EstimateError::TooFew { what: "labels", found: answers.len(), expected: FEWEST_LABELS });
    }
    check_guesses(guesses)?;
    let mut seen = vec![false; guesses.len()];
    for answer in answers {
        match seen.get_mut(answer.image) {
            None => {
                let (found, expected) = (answer.image as f64, "the position of an image in the dataset");
                return Err(EstimateError::Setting { setting: "a labelled image", found, expected });
            }
            Some(true) => {
                let (found, expected) = (answer.image as f64, "every image at most once");
                return Err(EstimateError::Setting { setting: "a labelled image", found, expected });
            }
            Some(seen) => *seen = true,
        }
        if answer.stratum != strata[answer.image] {
            let (found, expected) = (answer.stratum as f64, "the stratum that its image was put into");
            return Err(EstimateError::Setting { setting: "the stratum of a labelled image", found, expected });
        }
    }
    Ok(())
}

fn gather(guesses: &[f64], strata: &[usize], answers: &[Answer]) -> Result<Vec<Stratum>, EstimateError> {
    let count = strata.iter().max().map_or(0, |last| last + 1);
    let mut members: Vec<Vec<f64>> = vec![Vec::new(); count];
    for (guess, stratum) in guesses.iter().zip(strata) {
        members[*stratum].push(*guess);
    }
    let mut labelled: Vec<Vec<(f64, f64)>> = vec![Vec::new(); count];
    for answer in answers {
        labelled[answer.stratum].push((guesses[answer.image], f64::from(u8::from(answer.right))));
    }
    let both = members.into_iter().zip(labelled).filter(|(members, _)| !members.is_empty());
    both.map(|(members, labelled)| match labelled.is_empty() {
        true => Err(EstimateError::TooFew { what: "labels of a stratum", found: 0, expected: 1 }),
        false => Ok(Stratum { images: members.len(), mean_guess: mean(&members), labelled }),
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::labelled::choose_questions;
    use flipcast_ground::SplitMix64;

    /// Images with a chance of being right, what they turned out to be, and guesses.
    struct World {
        guesses: Vec<f64>,
        right: Vec<bool>,
    }

    impl World {
        /// Guesses that order images well but are too high.
        fn informative(random: &mut SplitMix64, images: usize, shift: f64) -> Self {
            let chances: Vec<f64> = (0..images).map(|_| 1.0 / (1.0 + (-2.5 * random.normal() - shift).exp())).collect();
            let right = chances.iter().map(|chance| random.uniform() < *chance).collect();
            Self { guesses: chances.iter().map(|chance| chance.powf(0.6)).collect(), right }
        }

        /// Guesses that have nothing to do with the truth.
        fn blind(random: &mut SplitMix64, images: usize, accuracy: f64) -> Self {
            let right = (0..images).map(|_| random.uniform() < accuracy).collect();
            Self { guesses: (0..images).map(|_| random.uniform()).collect(), right }
        }

        fn truth(&self) -> f64 {
            self.right.iter().filter(|right| **right).count() as f64 / self.right.len() as f64
        }

        fn sample(&self, random: &mut SplitMix64, labels: usize) -> Vec<Answer> {
            let mut order: Vec<usize> = (0..self.right.len()).collect();
            for i in 0..labels {
                let j = i + random.below(order.len() - i);
                order.swap(i, j);
            }
            order[..labels].iter().map(|&image| Answer { image, right: self.right[image], stratum: 0 }).collect()
        }
    }

    /// Share of intervals that hold, and mean widths with guesses and without.
    fn measure(world: impl Fn(&mut SplitMix64) -> World, labels: usize, asked: bool) -> (f64, f64, f64) {
        let mut random = SplitMix64::new(labels as u64 + 1);
        let (mut held, mut width, mut alone) = (0, 0.0, 0.0);
        const RUNS: usize = 600;
        for run in 0..RUNS {
            let world = world(&mut random);
            let images = world.right.len();
            let (answers, strata) = if asked {
                let questions = choose_questions(&world.guesses, labels, run as u64).unwrap();
                let mut strata = vec![0; images];
                questions.strata.iter().enumerate().for_each(|(image, stratum)| strata[image] = *stratum);
                let answer = |image: &usize| Answer {
                    image: *image,
                    right: world.right[*image],
                    stratum: questions.strata[*image],
                };
                (questions.images.iter().map(answer).collect(), strata)
            } else {
                (world.sample(&mut random, labels), vec![0; images])
            };
            let found = powered_estimate(&world.guesses, &strata, &answers, 0.9).unwrap();
            held += usize::from(found.estimate.holds(world.truth()));
            width += found.estimate.high - found.estimate.low;
            alone += found.labels_alone.high - found.labels_alone.low;
        }
        let runs = RUNS as f64;
        (held as f64 / runs, width / runs, alone / runs)
    }

    #[test]
    fn intervals_hold_and_informative_guesses_narrow_them() {
        for labels in [20, 50, 300] {
            let (held, width, alone) = measure(|random| World::informative(random, 1000, 1.0), labels, false);
            // Three standard errors of a share of 600 runs below 90%.
            assert!(held > 0.9 - 3.0 * 0.0123, "{labels} labels: {held}");
            assert!(width < 0.87 * alone, "{labels} labels: {width} and {alone}");
        }
    }

    #[test]
    fn intervals_hold_where_guesses_say_nothing_and_are_no_wider() {
        for labels in [20, 50, 300] {
            let (held, width, alone) = measure(|random| World::blind(random, 1000, 0.8), labels, false);
            assert!(held > 0.9 - 3.0 * 0.0123, "{labels} labels: {held}");
            assert!(width <= alone, "{labels} labels: {width} and {alone}");
        }
    }

    #[test]
    fn asking_by_strata_holds_and_narrows_further() {
        for labels in [120, 300] {
            let (_, random, _) = measure(|random| World::informative(random, 1000, 1.0), labels, false);
            let (held, asked, _) = measure(|random| World::informative(random, 1000, 1.0), labels, true);
            assert!(held > 0.9 - 3.0 * 0.0123, "{labels} labels: {held}");
            assert!(asked < random, "{labels} labels: {asked} and {random}");
        }
    }

    #[test]
    fn asking_by_guesses_that_say_nothing_costs_little() {
        // Sure of almost every image, as networks are under a shift.
        let sure = |random: &mut SplitMix64| {
            let world = World::blind(random, 1000, 0.8);
            World { guesses: world.guesses.iter().map(|guess| guess.powf(0.1)).collect(), ..world }
        };
        for labels in [100, 300] {
            let (_, _, alone) = measure(sure, labels, false);
            let (held, asked, _) = measure(sure, labels, true);
            assert!(held > 0.9 - 3.0 * 0.0123, "{labels} labels: {held}");
            assert!(asked < 1.05 * alone, "{labels} labels: {asked} and {alone}");
        }
    }

    #[test]
    fn labelling_everything_leaves_no_doubt() {
        let world = World::informative(&mut SplitMix64::new(4), 200, 0.0);
        let answers = world.sample(&mut SplitMix64::new(5), 200);
        let found = powered_estimate(&world.guesses, &[0; 200], &answers, 0.9).unwrap();
        assert!((found.estimate.accuracy - world.truth()).abs() < 1e-9);
        assert!(found.estimate.high - found.estimate.low < 1e-3, "{found:?}");
    }

    #[test]
    fn answers_that_do_not_fit_are_refused() {
        let guesses = [0.5; 10];
        let answer = |image, stratum| Answer { image, right: true, stratum };
        let good: Vec<Answer> = (0..6).map(|image| answer(image, 0)).collect();
        assert!(powered_estimate(&guesses, &[0; 10], &good, 0.9).is_ok());
        assert!(powered_estimate(&guesses, &[0; 9], &good, 0.9).is_err());
        assert!(powered_estimate(&guesses, &[0; 10], &good[..4], 0.9).is_err());
        for broken in [answer(10, 0), answer(0, 0), answer(7, 1)] {
            let answers = [&good[..], &[broken]].concat();
            assert!(powered_estimate(&guesses, &[0; 10], &answers, 0.9).is_err(), "{broken:?}");
        }
        let mut strata = [0; 10];
        strata[9] = 1;
        assert!(powered_estimate(&guesses, &strata, &good, 0.9).is_err());
    }
}
