//! What candidates say of the same images, beside each other.

use crate::signals::concentration;
use crate::{EstimateError, Outputs};
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// Outputs of the source model and of candidates for the same images in the same order, all at the temperature of clean images.
///
/// ```
/// use flipcast_estimate::{Lineup, Outputs};
///
/// let source = Outputs::new(vec![2.0, 0.0, 0.0, 1.0], 2)?;
/// let adapted = Outputs::new(vec![0.0, 2.0, 0.0, 1.0], 2)?;
/// let lineup = Lineup::new(&source, vec![&source, &adapted], 2)?;
/// assert_eq!(lineup.signals(0, 0..2).flips, 0.0);
/// assert_eq!(lineup.signals(1, 0..2).flips, 0.5);
/// # Ok::<(), flipcast_estimate::EstimateError>(())
/// ```
pub struct Lineup<'a> {
    source: &'a Outputs,
    candidates: Vec<&'a Outputs>,
    /// Sums of the candidates' probabilities.
    sums: Vec<f32>,
    /// Images of a step.
    batch_size: usize,
}

/// How a candidate's answers differ from the source model's, over some images.
///
/// *Formula.* With probabilities `p` and answers `a` of the source model, `q` and `c` of the candidate, `r` the mean probabilities of the other
/// candidates: `flips` is the share of `a != c`, `source_confidence = mean p[a]`, `cross = mean p[c]`, `confidence = mean q[c]`,
/// `reverse = mean q[a]`, `panel_cross = mean r[c]`, `panel_source = mean r[a]`. Concentrations are those of [`Signals`](crate::Signals), over all images and as
/// the mean over batches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GainSignals {
    /// Images.
    pub images: usize,
    /// Share of images on which the answers differ.
    pub flips: f64,
    /// The source model's mean confidence.
    pub source_confidence: f64,
    /// The source model's mean probability of the candidate's answers.
    pub cross: f64,
    /// The candidate's mean confidence.
    pub confidence: f64,
    /// The candidate's mean probability of the source model's answers.
    pub reverse: f64,
    /// The mean probability that all other candidates together give to the candidate's answers.
    pub panel_cross: f64,
    /// The same for the source model's answers.
    pub panel_source: f64,
    /// How concentrated the candidate's answers are on few classes.
    pub concentration: f64,
    /// How concentrated the source model's are.
    pub source_concentration: f64,
    /// How concentrated the candidate's answers are within a batch.
    pub batch_concentration: f64,
    /// How concentrated the source model's are within a batch.
    pub source_batch_concentration: f64,
}

impl<'a> Lineup<'a> {
    /// Of candidates that predicted in batches of `batch_size`.
    ///
    /// # Errors
    /// When images or classes are not the same for all.
    pub fn new(source: &'a Outputs, candidates: Vec<&'a Outputs>, batch_size: usize) -> Result<Self, EstimateError> {
        let mut sums = vec![0.0; source.images() * source.classes()];
        let mut probs = Vec::new();
        for outputs in &candidates {
            if (outputs.images(), outputs.classes()) != (source.images(), source.classes()) {
                let (found, expected) = (outputs.images() * outputs.classes(), sums.len());
                return Err(EstimateError::Length { what: "logits of a candidate", found, expected });
            }
            for (image, sums) in sums.chunks_exact_mut(source.classes()).enumerate() {
                outputs.probs_into(image, &mut probs);
                sums.iter_mut().zip(&probs).for_each(|(sum, &p)| *sum += p as f32);
            }
        }
        Ok(Self { source, candidates, sums, batch_size: batch_size.max(1) })
    }

    /// Signals of the candidate at `place` over the images of `span`.
    ///
    /// # Panics
    /// If there is no such candidate or image.
    pub fn signals(&self, place: usize, span: Range<usize>) -> GainSignals {
        let (source, candidate) = (self.source, self.candidates[place]);
        let classes = source.classes();
        let (mut p, mut q) = (Vec::new(), Vec::new());
        let mut answers = Answers::new(classes, self.batch_size);
        let mut source_answers = Answers::new(classes, self.batch_size);
        let (source_classes, candidate_classes) = (source.classes_predicted(), candidate.classes_predicted());
        let others = (self.candidates.len() - 1) as f64;
        let mut sum = GainSignals::default();
        for image in span.clone() {
            source.probs_into(image, &mut p);
            candidate.probs_into(image, &mut q);
            let (a, c) = (source_classes[image], candidate_classes[image]);
            sum.flips += f64::from(u8::from(a != c));
            sum.source_confidence += p[a];
            sum.cross += p[c];
            sum.confidence += q[c];
            sum.reverse += q[a];
            if others > 0.0 {
                let sums = &self.sums[image * classes..][..classes];
                sum.panel_cross += (f64::from(sums[c]) - q[c]) / others;
                sum.panel_source += (f64::from(sums[a]) - q[a]) / others;
            }
            answers.add(c);
            source_answers.add(a);
        }
        let images = span.len().max(1) as f64;
        GainSignals {
            images: span.len(),
            flips: sum.flips / images,
            source_confidence: sum.source_confidence / images,
            cross: sum.cross / images,
            confidence: sum.confidence / images,
            reverse: sum.reverse / images,
            panel_cross: sum.panel_cross / images,
            panel_source: sum.panel_source / images,
            concentration: concentration(&answers.whole),
            source_concentration: concentration(&source_answers.whole),
            batch_concentration: answers.within_batches(),
            source_batch_concentration: source_answers.within_batches(),
        }
    }
}

impl GainSignals {
    /// What tells the gain under shifts like known ones. All are 0 where the two answer alike on every image, and so is the gain.
    pub(crate) fn features(&self) -> Vec<f64> {
        let more_concentrated = self.concentration - self.source_concentration;
        let more_in_batches = self.batch_concentration - self.source_batch_concentration;
        vec![
            self.cross - self.source_confidence,
            self.confidence - self.reverse,
            self.panel_cross - self.panel_source,
            self.flips,
            self.flips * self.source_confidence,
            self.flips * more_concentrated,
            self.flips * more_in_batches,
            self.surer(),
            self.flips * self.confidence,
        ]
    }

    /// What tells it under other shifts too.
    pub(crate) fn small_features(&self) -> [f64; 4] {
        let panel = self.panel_cross - self.panel_source;
        [self.surer(), panel, self.flips, self.flips * self.batch_concentration]
    }

    /// By how much the candidate is surer of its answers, where there are different ones.
    fn surer(&self) -> f64 {
        if self.flips > 0.0 { self.confidence - self.source_confidence } else { 0.0 }
    }
}

/// How often each class is answered, in all and within batches.
struct Answers {
    whole: Vec<f64>,
    batch: Vec<f64>,
    batch_size: usize,
    in_batch: usize,
    batches: f64,
    batch_sum: f64,
}

impl Answers {
    fn new(classes: usize, batch_size: usize) -> Self {
        let none = || vec![0.0; classes];
        Self { whole: none(), batch: none(), batch_size, in_batch: 0, batches: 0.0, batch_sum: 0.0 }
    }

    fn add(&mut self, class: usize) {
        self.whole[class] += 1.0;
        self.batch[class] += 1.0;
        self.in_batch += 1;
        if self.in_batch == self.batch_size {
            self.batch_sum += concentration(&self.batch);
            self.batches += 1.0;
            self.batch.fill(0.0);
            self.in_batch = 0;
        }
    }

    /// The mean concentration within full batches; over all images where there is none.
    fn within_batches(&self) -> f64 {
        if self.batches > 0.0 { self.batch_sum / self.batches } else { concentration(&self.whole) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Logits of two classes with these probabilities of the first.
    fn outputs(first: &[f32]) -> Outputs {
        let logits = first.iter().flat_map(|p| [(p / (1.0 - p)).ln(), 0.0]).collect();
        Outputs::new(logits, 2).unwrap()
    }

    #[test]
    fn signals_follow_their_definitions() {
        let (source, other, third) = (outputs(&[0.75, 0.25]), outputs(&[0.4, 0.25]), outputs(&[0.9, 0.5]));
        let lineup = Lineup::new(&source, vec![&other, &third], 2).unwrap();
        let found = lineup.signals(0, 0..2);
        let near = |found: f64, expected: f64| assert!((found - expected).abs() < 1e-6, "{found} {expected}");
        assert_eq!((found.images, found.flips), (2, 0.5));
        near(found.source_confidence, 0.75);
        near(found.cross, (0.25 + 0.75) / 2.0);
        near(found.confidence, (0.6 + 0.75) / 2.0);
        near(found.reverse, (0.4 + 0.75) / 2.0);
        near(found.panel_cross, (0.1 + 0.5) / 2.0);
        near(found.panel_source, (0.9 + 0.5) / 2.0);
    }

    #[test]
    fn the_source_model_has_nothing_to_gain_over_itself() {
        let (source, other) = (outputs(&[0.75, 0.25, 0.5]), outputs(&[0.4, 0.25, 0.1]));
        let lineup = Lineup::new(&source, vec![&source, &other], 2).unwrap();
        assert!(lineup.signals(0, 0..3).features().iter().all(|feature| *feature == 0.0));
        assert!(lineup.signals(1, 0..3).features().iter().any(|feature| *feature != 0.0));
    }

    #[test]
    fn outputs_of_other_images_are_refused() {
        let (source, other) = (outputs(&[0.75, 0.25]), outputs(&[0.4]));
        assert!(Lineup::new(&source, vec![&other], 2).is_err());
    }
}
