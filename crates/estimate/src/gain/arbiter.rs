//! Whose answer counts where the source model and an adapting one differ.

use crate::least_squares::least_squares;
use crate::{EstimateError, Outputs};
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// What is seen of a dispute.
const SIGNALS: usize = 6;
/// The sign of every signal's weight in favour of the source model; 0 where either may be right.
const SIGNS: [f64; SIGNALS] = [1.0, -1.0, 1.0, 0.0, 1.0, -1.0];
/// Share of their mean squares by which weights are shrunk.
const SHRINKAGE: f64 = 0.01;
/// A cell with fewer disputes counts less than others.
const FEW_DISPUTES: f64 = 64.0;
/// How much of what was answered before counts beside a batch.
const MEMORY: f64 = 0.5;
/// Log-odds beyond this are all alike.
const LARGEST_ODDS: f64 = 20.0;

/// An image on which the answers of two models differ.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dispute {
    signals: [f64; SIGNALS],
}

/// Finds disputes, batch after batch, and remembers how often the adapting model gave every answer.
#[derive(Clone, Debug)]
pub struct Disputes {
    /// The adapting model's probabilities, summed over recent images.
    answers: Vec<f64>,
    images: f64,
}

impl Disputes {
    /// Of models that know `classes` classes.
    pub fn new(classes: usize) -> Self {
        Self { answers: vec![0.0; classes], images: 0.0 }
    }

    /// The disputes of the next batch, the images of `span`, one place for each of them. Both are at the temperature of clean images.
    ///
    /// # Errors
    /// When images or classes are not the same.
    ///
    /// # Panics
    /// If there is no such image.
    pub fn next(
        &mut self,
        source: &Outputs,
        adapted: &Outputs,
        span: Range<usize>,
    ) -> Result<Vec<Option<Dispute>>, EstimateError> {
        let classes = self.answers.len();
        for outputs in [source, adapted] {
            if (outputs.images(), outputs.classes()) != (source.images(), classes) {
                let (found, expected) = (outputs.images() * outputs.classes(), source.images() * classes);
                return Err(EstimateError::Length { what: "logits of a model", found, expected });
            }
        }
        let images = span.len() as f64;
        self.answers.iter_mut().for_each(|sum| *sum *= MEMORY);
        self.images = MEMORY * self.images + images;
        let (mut probs, mut pairs) = (Vec::new(), Vec::with_capacity(span.len()));
        let (mut source_confidence, mut confidence) = (0.0, 0.0);
        for image in span.clone() {
            source.probs_into(image, &mut probs);
            let own = largest(&probs);
            source_confidence += probs[own] / images;
            adapted.probs_into(image, &mut probs);
            let other = largest(&probs);
            confidence += probs[other] / images;
            self.answers.iter_mut().zip(&probs).for_each(|(sum, p)| *sum += p);
            pairs.push((own, other));
        }
        // One image more of every class, so that no share is 0.
        let log_share = |class: usize| ((self.answers[class] + 1.0) / (self.images + classes as f64)).ln();
        let log_odds = |outputs: &Outputs, image: usize, (of, against): (usize, usize)| {
            let row = outputs.row(image);
            f64::from(row[of] - row[against]).min(LARGEST_ODDS)
        };
        let of_image = |(image, (own, other)): (usize, (usize, usize))| {
            (own != other).then(|| Dispute {
                signals: [
                    log_odds(source, image, (own, other)),
                    log_odds(adapted, image, (other, own)),
                    log_share(own) - log_share(other),
                    1.0,
                    source_confidence,
                    confidence,
                ],
            })
        };
        Ok(span.zip(pairs).map(of_image).collect())
    }
}

fn largest(probs: &[f64]) -> usize {
    (1..probs.len()).fold(0, |best, class| if probs[class] > probs[best] { class } else { best })
}

/// Sums over disputes whose truth is known: all that an [`ArbiterFit`] needs of a calibration cell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DisputeTally {
    disputes: u64,
    /// Products of two signals.
    products: [[f64; SIGNALS]; SIGNALS],
    /// Products of a signal and what the source model is ahead.
    leads: [f64; SIGNALS],
}

impl DisputeTally {
    /// Adds a dispute, and which of the two answers were right.
    pub fn add(&mut self, dispute: &Dispute, source_right: bool, adapted_right: bool) {
        let lead = f64::from(i8::from(source_right) - i8::from(adapted_right));
        self.disputes += 1;
        for (row, a) in dispute.signals.iter().enumerate() {
            self.leads[row] += a * lead;
            for (sum, b) in self.products[row].iter_mut().zip(&dispute.signals) {
                *sum += a * b;
            }
        }
    }
}

/// Tells which of two answers is more likely right, one image at a time.
///
/// *Idea.* Under the statistics of a batch of few classes, images are pushed apart into classes that are not there: the adapting model still answers mostly with the classes that are, and its odd answers are wrong. Under a shift that
/// drives the *source* model to a few answers, the adapting model answers with all classes, the source model's few among them no more often than others. So an answer deserves trust where the adapting model gives it often these days, to other images too. Beside that counts how sure
/// either model is of this image, and how sure each is of all images of the batch.
/// *Formula.* With answers `a` of the source model and `c` of the adapting one, logits `z` and `z'` at the temperature of clean images, shares `s` of the adapting model's probabilities over
/// recent images (those of a batch count twice as much as those of the one before; one image more of every class), mean confidences `m` and `m'` over the batch, the lead of the source model is
/// `w1 (z_a - z_c) + w2 (z'_c - z'_a) + w3 log(s_a / s_c) + w4 + w5 m + w6 m'`: an estimate of P(`a` is right) - P(`c` is right), by ridge regression on the disputes of labelled cells, every cell of 64 disputes and more counted alike.
/// `w1`, `w3`, `w5` are not below 0, `w2` and `w6` not above: a signal of the wrong sign is left out.
/// *Reference.* Flipcast's own; that answers are to be corrected by the shares of classes goes back to Saerens et al., "Adjusting the Outputs of a Classifier to New a Priori Probabilities", Neural Computation 2002.
///
/// ```
/// use flipcast_estimate::{ArbiterFit, DisputeTally, Disputes, Outputs};
///
/// let source = Outputs::new(vec![2.0, 0.0, 0.0, 1.0], 2)?;
/// let adapted = Outputs::new(vec![0.0, 1.0, 0.0, 1.0], 2)?;
/// let found = Disputes::new(2).next(&source, &adapted, 0..2)?;
/// let (Some(dispute), None) = (found[0], found[1]) else { panic!("only the first image is disputed") };
/// let mut tally = DisputeTally::default();
/// tally.add(&dispute, true, false);
/// assert!(ArbiterFit::fit(&[tally])?.lead(&dispute) > 0.5);
/// # Ok::<(), flipcast_estimate::EstimateError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArbiterFit {
    weights: [f64; SIGNALS],
}

impl ArbiterFit {
    /// Learns from labelled cells. Where nothing was ever disputed, the source model is always right.
    ///
    /// # Errors
    /// When a sum is no number.
    pub fn fit(cells: &[DisputeTally]) -> Result<Self, EstimateError> {
        let (mut all, mut products, mut leads) = (0.0, [[0.0; SIGNALS]; SIGNALS], [0.0; SIGNALS]);
        for cell in cells {
            let weight = 1.0 / FEW_DISPUTES.max(cell.disputes as f64);
            all += weight * cell.disputes as f64;
            for row in 0..SIGNALS {
                leads[row] += weight * cell.leads[row];
                (0..SIGNALS).for_each(|column| products[row][column] += weight * cell.products[row][column]);
            }
        }
        if all == 0.0 {
            return Ok(Self { weights: [0.0; SIGNALS] });
        }
        let sizes: Vec<f64> = (0..SIGNALS).map(|j| (products[j][j] / all).sqrt() + 1e-9).collect();
        let mut kept: Vec<usize> = (0..SIGNALS).collect();
        loop {
            let of = |row: usize, column: usize| {
                let shrinkage = if row == column { SHRINKAGE } else { 0.0 };
                products[row][column] / (all * sizes[row] * sizes[column]) + shrinkage
            };
            let columns: Vec<Vec<f64>> =
                kept.iter().map(|&column| kept.iter().map(|&row| of(row, column)).collect()).collect();
            let target: Vec<f64> = kept.iter().map(|&row| leads[row] / (all * sizes[row])).collect();
            let found = least_squares(&columns, &target).ok_or(EstimateError::Undefined {
                what: "a regression of disputes",
                found: "a signal that is not finite",
                expected: "finite ones",
            })?;
            let wrong = |place: &usize| SIGNS[kept[*place]] * found[*place];
            let worst = (0..kept.len()).filter(|place| wrong(place) < 0.0).min_by(|a, b| wrong(a).total_cmp(&wrong(b)));
            let Some(worst) = worst else {
                let mut weights = [0.0; SIGNALS];
                kept.iter().zip(&found).for_each(|(&signal, weight)| weights[signal] = weight / sizes[signal]);
                return Ok(Self { weights });
            };
            kept.remove(worst);
        }
    }

    /// By how much the source model's answer is likelier right than the adapting model's.
    pub fn lead(&self, dispute: &Dispute) -> f64 {
        self.weights.iter().zip(&dispute.signals).map(|(weight, signal)| weight * signal).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flipcast_ground::SplitMix64;

    const CLASSES: usize = 10;
    const BATCH: usize = 64;

    /// What two models say of images, and whether they are right.
    struct Scene {
        source: Outputs,
        adapted: Outputs,
        labels: Vec<usize>,
    }

    /// Images of the first `classes` classes. A model answers rightly with the probability given, else with one of the first `spread` classes.
    fn scene(classes: usize, models: [(f64, usize, f32); 2], seed: u64) -> Scene {
        let mut random = SplitMix64::new(seed);
        let images = 8 * BATCH;
        let mut below = |bound: usize| (random.uniform() * bound as f64) as usize;
        let labels: Vec<usize> = (0..images).map(|_| below(classes)).collect();
        let [source, adapted] = models.map(|(accuracy, spread, sure)| {
            let mut rows = vec![0.0; images * CLASSES];
            for (row, label) in rows.chunks_mut(CLASSES).zip(&labels) {
                let right = below(1000) < (1000.0 * accuracy) as usize;
                row[if right { *label } else { below(spread) }] = sure;
            }
            Outputs::new(rows, CLASSES).unwrap()
        });
        Scene { source, adapted, labels }
    }

    /// Few classes, which adapting spreads over all of them, a little less sure.
    fn few(seed: u64) -> Scene {
        scene(3, [(0.95, CLASSES, 4.0), (0.7, CLASSES, 3.5)], seed)
    }

    /// A shift under which the source model knows two answers, and is less sure of them.
    fn collapsed(seed: u64) -> Scene {
        scene(CLASSES, [(0.1, 2, 3.0), (0.8, CLASSES, 4.0)], seed)
    }

    fn each(scene: &Scene, mut act: impl FnMut(&Dispute, bool, bool)) {
        let mut disputes = Disputes::new(CLASSES);
        let (own, other) = (scene.source.classes_predicted(), scene.adapted.classes_predicted());
        for first in (0..scene.labels.len()).step_by(BATCH) {
            let found = disputes.next(&scene.source, &scene.adapted, first..first + BATCH).unwrap();
            for (image, dispute) in (first..).zip(&found) {
                assert_eq!(dispute.is_some(), own[image] != other[image]);
                if let Some(dispute) = dispute {
                    act(dispute, own[image] == scene.labels[image], other[image] == scene.labels[image]);
                }
            }
        }
    }

    fn tally(scene: &Scene) -> DisputeTally {
        let mut tally = DisputeTally::default();
        each(scene, |dispute, source, adapted| tally.add(dispute, source, adapted));
        tally
    }

    #[test]
    fn few_classes_and_a_collapse_are_told_apart() {
        let fit = ArbiterFit::fit(&[tally(&few(1)), tally(&collapsed(2))]).unwrap();
        for (scene, source_is_better) in [(few(3), true), (collapsed(4), false)] {
            let (mut arbiter, mut better, mut worse) = (0, 0, 0);
            each(&scene, |dispute, source, adapted| {
                arbiter += usize::from(if fit.lead(dispute) >= 0.0 { source } else { adapted });
                better += usize::from(if source_is_better { source } else { adapted });
                worse += usize::from(if source_is_better { adapted } else { source });
            });
            // All but one in twenty of what the better model has, whichever it is.
            assert!(20 * arbiter >= 19 * better && better > 4 * worse, "{arbiter}, {better}, {worse}");
        }
    }

    #[test]
    fn a_signal_of_the_wrong_sign_is_left_out() {
        // Here the source model is right where the adapting model hardly gives its answer.
        let mut tally = DisputeTally::default();
        for share in [-2.0, -1.0, 1.0, 2.0] {
            tally.add(&Dispute { signals: [1.0, 1.0, share, 1.0, 0.9, 0.9] }, share < 0.0, share > 0.0);
        }
        let fit = ArbiterFit::fit(&[tally]).unwrap();
        assert_eq!(fit.weights[2], 0.0);
        assert!(fit.weights.iter().zip(SIGNS).all(|(weight, sign)| weight * sign >= 0.0), "{fit:?}");
    }

    #[test]
    fn models_that_agree_have_no_disputes_and_teach_nothing() {
        let scene = few(5);
        let found = Disputes::new(CLASSES).next(&scene.source, &scene.source, 0..BATCH).unwrap();
        assert!(found.iter().all(Option::is_none));
        let fit = ArbiterFit::fit(&[DisputeTally::default()]).unwrap();
        each(&scene, |dispute, _, _| assert_eq!(fit.lead(dispute), 0.0));
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let (scene, other) = (few(1), Outputs::new(vec![0.0; 20], 2).unwrap());
        assert!(Disputes::new(CLASSES).next(&scene.source, &other, 0..2).is_err());
        assert!(Disputes::new(2).next(&scene.source, &scene.source, 0..2).is_err());
        let broken = DisputeTally { leads: [f64::NAN; SIGNALS], ..tally(&scene) };
        assert!(matches!(ArbiterFit::fit(&[broken]), Err(EstimateError::Undefined { .. })));
    }
}
