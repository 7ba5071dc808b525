//! A few numbers that tell the accuracy on a set of images whatever the classes' shares in it.

use crate::outputs::check_classes;
use crate::{EstimateError, Outputs, SubsetCot};
use serde::{Deserialize, Serialize};

/// Shares are kept this far from 0 and 1 before their log-odds are taken.
const EDGE: f64 = 0.004;
/// The least concentration; one this small is chance.
const LEAST_CONCENTRATION: f64 = 0.2;
/// The most skewed samples of a calibration hold one of so many classes; of answers that are more concentrated a fit knows nothing.
const CLASSES_FOR_ONE: f64 = 10.0;

/// What a source model and a second look at the same images say together.
///
/// *Idea.* The second look is the same network under slightly other conditions: the statistics of the batch instead of its own,
/// or embeddings moved to the mean of clean ones. Where the two disagree the model is often wrong, and the probability that one gives to the other's
/// answer says so smoothly. Unlike transport, neither assumes how often each class occurs; how concentrated the answers are is told
/// beside them.
/// *Formula.* With probabilities `p` and answers `a` of the source model, `p'` and `a'` of the second look, all at the temperature
/// of clean images: `confidence = mean p[a]`, `entropy` the mean entropy of `p`, `cross = mean p[a']`, `reverse = mean p'[a]`, and
/// `concentration = log max(0.2, K (sum_k h_k^2 - 1/m) / (1 - 1/m))` with `h` the shares of the answers `a'` among `m` images, which does not depend on `m`;
/// `source_concentration` is that of the answers `a`. `transport` is COT of `p` with uniform shares. `second_confidence = mean p'[a']`,
/// `second_entropy` and `second_transport` are the same of `p'`: under shifts that the second look repairs it is sure of itself, under others it is not.
/// Of an early look, at the same images with the statistics of the batch in the first norms alone, `early_cross` is what `cross` is of the second look. It depends less on which classes a batch holds.
/// *Reference.* Flipcast's own; disagreement between two predictors goes back to Jiang et al., "Assessing Generalization of SGD via Disagreement", ICLR 2022,
/// re-centred embeddings to NEO (arXiv 2510.05635).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Signals {
    /// Images of the set.
    pub images: usize,
    /// Those of them that were looked at twice.
    pub looked_at: usize,
    /// Classes of a decision.
    pub classes: usize,
    /// The source model's mean confidence.
    pub confidence: f64,
    /// The mean entropy of its probabilities, in nats.
    pub entropy: f64,
    /// Its mean probability of the second look's answers.
    pub cross: f64,
    /// The second look's mean probability of its answers.
    pub reverse: f64,
    /// How concentrated the second look's answers are on few classes.
    pub concentration: f64,
    /// How concentrated the source model's are.
    pub source_concentration: f64,
    /// Mean confidence after transport to uniform class shares.
    pub transport: f64,
    /// The second look's mean confidence.
    pub second_confidence: f64,
    /// The mean entropy of its probabilities, in nats.
    pub second_entropy: f64,
    /// Its mean confidence after transport to uniform class shares.
    pub second_transport: f64,
    /// The source model's mean probability of an early look's answers, where there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub early_cross: Option<f64>,
}

impl Signals {
    /// Measures the images at `rows` of `source`; `second` holds the second look at the first of them, all or some. Both are at the
    /// temperature of clean images, and `transport` was made from `source`.
    ///
    /// # Errors
    /// When a row does not exist, there is none, or `second` does not fit.
    pub fn measure(
        source: &Outputs,
        rows: &[usize],
        second: &Outputs,
        transport: &SubsetCot,
    ) -> Result<Self, EstimateError> {
        let classes = source.classes();
        if rows.is_empty() {
            return Err(EstimateError::Empty { what: "images of a sample" });
        }
        if let Some(&row) = rows.iter().find(|&&row| row >= source.images()) {
            let (found, expected) = (row + 1, source.images());
            return Err(EstimateError::TooMany { what: "images for a sample", found, expected });
        }
        if second.classes() != classes || second.images() > rows.len() {
            let (found, expected) = (second.images() * second.classes(), rows.len() * classes);
            return Err(EstimateError::Length { what: "logits of the second look", found, expected });
        }
        let mut probs = Vec::with_capacity(classes);
        let largest = |probs: &[f64]| {
            let at = |best: usize, k: usize| if probs[k] > probs[best] { k } else { best };
            (1..classes).fold(0, at)
        };
        let (mut confidence, mut cross, mut entropy) = (0.0, 0.0, 0.0);
        let (mut second_confidence, mut reverse, mut second_entropy) = (0.0, 0.0, 0.0);
        let (mut counts, mut source_counts) = (vec![0.0; classes], vec![0.0; classes]);
        let mut source_probs = Vec::with_capacity(classes);
        for (place, &row) in rows.iter().enumerate() {
            source.probs_into(row, &mut source_probs);
            let answer = largest(&source_probs);
            confidence += source_probs[answer];
            source_counts[answer] += 1.0;
            entropy += entropy_of(&source_probs);
            if place < second.images() {
                second.probs_into(place, &mut probs);
                let other = largest(&probs);
                cross += source_probs[other];
                reverse += probs[answer];
                counts[other] += 1.0;
                second_confidence += probs[other];
                second_entropy += entropy_of(&probs);
            }
        }
        let looked_at = second.images() as f64;
        let uniform = vec![1.0 / classes as f64; classes];
        let twice: Vec<usize> = (0..second.images()).collect();
        Ok(Self {
            images: rows.len(),
            looked_at: second.images(),
            classes,
            confidence: confidence / rows.len() as f64,
            entropy: entropy / rows.len() as f64,
            cross: cross / looked_at,
            reverse: reverse / looked_at,
            concentration: concentration(&counts),
            source_concentration: concentration(&source_counts),
            transport: transport.estimate(rows, &uniform)?.value,
            second_confidence: second_confidence / looked_at,
            second_entropy: second_entropy / looked_at,
            second_transport: SubsetCot::new(second).estimate(&twice, &uniform)?.value,
            early_cross: None,
        })
    }

    /// The same with what an early look answers for the first of `rows`, of which `source` was the first look.
    ///
    /// # Errors
    /// When there is no answer, more of them than rows, or one that is no class.
    pub fn with_early_look(self, source: &Outputs, rows: &[usize], answers: &[usize]) -> Result<Self, EstimateError> {
        if answers.is_empty() || answers.len() > rows.len() {
            let (found, expected) = (answers.len(), rows.len());
            return Err(EstimateError::Length { what: "answers of the early look", found, expected });
        }
        check_classes("answer of the early look", answers, answers.len(), source.classes())?;
        let mut probs = Vec::with_capacity(source.classes());
        let mut sum = 0.0;
        for (&row, &answer) in rows.iter().zip(answers) {
            source.probs_into(row, &mut probs);
            sum += probs[answer];
        }
        Ok(Self { early_cross: Some(sum / answers.len() as f64), ..self })
    }

    /// The same with the looks exchanged: what tells the accuracy of the second look, beside which the source model is the other one.
    pub(crate) fn of_second(&self) -> Self {
        Self {
            images: self.looked_at,
            looked_at: self.looked_at,
            classes: self.classes,
            confidence: self.second_confidence,
            entropy: self.second_entropy,
            cross: self.reverse,
            reverse: self.cross,
            concentration: self.source_concentration,
            source_concentration: self.concentration,
            transport: self.second_transport,
            second_confidence: self.confidence,
            second_entropy: self.entropy,
            second_transport: self.transport,
            early_cross: None,
        }
    }

    /// Images of the set for each class, as a logarithm.
    pub(crate) fn log_images_per_class(&self) -> f64 {
        (self.images as f64 / self.classes as f64).ln()
    }

    /// What tells the accuracy whatever the class shares.
    pub(crate) fn features(&self) -> Vec<f64> {
        let mut features = self.features_of_images();
        // A model that answers few classes and is sure sees few classes; one that is not has collapsed.
        let answered = self.source_concentration.min(CLASSES_FOR_ONE.ln());
        features.extend([self.concentration, answered * answered * log_odds(self.confidence)]);
        features
    }

    /// The same with an early look, without which it says nothing.
    pub(crate) fn features_with_early_look(&self) -> Vec<f64> {
        let mut features = self.features();
        let cross = self.early_cross.map_or(0.0, log_odds);
        features.extend([cross, cross * cross]);
        features
    }

    /// The same where shares are the calibration's, so that transport tells it too.
    pub(crate) fn features_of_usual_shares(&self) -> Vec<f64> {
        let (transport, size) = (log_odds(self.transport), self.log_images_per_class());
        let mut features = self.features_of_images();
        features.extend([self.concentration, transport, transport * size, size * size]);
        features
    }

    /// What tells transport where shares are the calibration's: all but the shares of the answers.
    pub(crate) fn features_of_transport(&self) -> Vec<f64> {
        let size = self.log_images_per_class();
        let mut features = self.features_of_images();
        // By chance alone shares of so few images differ from uniform ones by the second.
        features.extend([size * size, (-0.5 * size).exp()]);
        features
    }

    /// The number of classes that the source model's answers are spread over as if evenly.
    pub fn present_classes(&self) -> f64 {
        let classes = self.classes as f64;
        (classes / self.source_concentration.exp()).clamp(1.0, classes)
    }

    fn features_of_images(&self) -> Vec<f64> {
        let (cross, size) = (log_odds(self.cross), self.log_images_per_class());
        let (confidence, reverse) = (log_odds(self.confidence), log_odds(self.reverse));
        vec![cross, cross * cross, size, cross * size, confidence, reverse, self.entropy]
    }
}

fn entropy_of(probs: &[f64]) -> f64 {
    -probs.iter().filter(|p| **p > 0.0).map(|p| p * p.ln()).sum::<f64>()
}

/// The log-odds of a share, kept finite.
pub(crate) fn log_odds(share: f64) -> f64 {
    let share = share.clamp(EDGE, 1.0 - EDGE);
    (share / (1.0 - share)).ln()
}

/// How much more often two of the images have the same answer than under uniform shares, as a logarithm.
pub(crate) fn concentration(counts: &[f64]) -> f64 {
    let images: f64 = counts.iter().sum();
    if images < 2.0 {
        return 0.0;
    }
    let pairs: f64 = counts.iter().map(|count| count * (count - 1.0)).sum();
    (counts.len() as f64 * pairs / (images * (images - 1.0))).max(LEAST_CONCENTRATION).ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signals(source: &[f32], second: &[f32], rows: &[usize]) -> Signals {
        let source = Outputs::new(source.to_vec(), 2).unwrap();
        let second = Outputs::new(second.to_vec(), 2).unwrap();
        Signals::measure(&source, rows, &second, &SubsetCot::new(&source)).unwrap()
    }

    #[test]
    fn signals_follow_their_definitions() {
        // Probabilities 3/4 and 1/4, then 1/3 and 2/3; the second look sees the first image only, and disagrees.
        let (a, b) = (3f32.ln(), 2f32.ln());
        let found = signals(&[a, 0.0, 0.0, b], &[0.0, b], &[0, 1]);
        assert_eq!((found.images, found.looked_at, found.classes), (2, 1, 2));
        assert!((found.confidence - (0.75 + 2.0 / 3.0) / 2.0).abs() < 1e-6);
        let entropy = |p: f64| -p * p.ln() - (1.0 - p) * (1.0 - p).ln();
        assert!((found.entropy - (entropy(0.75) + entropy(1.0 / 3.0)) / 2.0).abs() < 1e-6);
        assert!((found.cross - 0.25).abs() < 1e-6 && (found.reverse - 1.0 / 3.0).abs() < 1e-6);
        assert_eq!(found.source_concentration, LEAST_CONCENTRATION.ln());
        assert!((found.transport - found.confidence).abs() < 1e-6, "one image of each class");
        assert!((found.second_confidence - 2.0 / 3.0).abs() < 1e-6);
        assert!((found.second_entropy - entropy(1.0 / 3.0)).abs() < 1e-6);
        assert!((found.second_transport - 0.5).abs() < 1e-6, "one image for two classes");
    }

    #[test]
    fn an_early_look_adds_what_the_source_model_gives_to_its_answers() {
        let (a, b) = (3f32.ln(), 2f32.ln());
        let source = Outputs::new(vec![a, 0.0, 0.0, b], 2).unwrap();
        let seen = signals(&[a, 0.0, 0.0, b], &[0.0, b, 0.0, a], &[0, 1]);
        let found = seen.with_early_look(&source, &[1, 0], &[1]).unwrap();
        assert!((found.early_cross.unwrap() - 2.0 / 3.0).abs() < 1e-6);
        assert_eq!(Signals { early_cross: None, ..found }, seen);
        assert_eq!(found.features_with_early_look().len(), found.features().len() + 2);
        assert!(seen.with_early_look(&source, &[], &[1]).is_err());
        assert!(seen.with_early_look(&source, &[1, 0], &[]).is_err());
        assert!(seen.with_early_look(&source, &[1, 0], &[2]).is_err());
    }

    #[test]
    fn signals_of_the_second_look_are_those_of_a_source_model_with_its_outputs() {
        let (a, b) = (3f32.ln(), 2f32.ln());
        let (source, second) = ([a, 0.0, 0.0, b], [0.0, b, 0.0, a]);
        let found = signals(&source, &second, &[0, 1]).of_second();
        assert_eq!(found, signals(&second, &source, &[0, 1]));
    }

    #[test]
    fn concentration_does_not_depend_on_the_number_of_images() {
        // A quarter and three quarters: 2 (1/16 + 9/16) = 1.25 without the chance that an image meets itself.
        for scale in [4.0, 400.0, 4000.0] {
            let found = concentration(&[scale, 3.0 * scale]).exp();
            assert!((found - 1.25).abs() < 0.6 / scale, "{scale}: {found}");
        }
        assert_eq!(concentration(&[1.0, 1.0, 1.0]).exp(), LEAST_CONCENTRATION);
        assert_eq!(concentration(&[1.0, 0.0]), 0.0);
    }

    #[test]
    fn sureness_counts_together_with_how_few_classes_are_answered() {
        let (a, b) = (3f32.ln(), 2f32.ln());
        let seen = signals(&[a, 0.0, 0.0, b], &[0.0, b, 0.0, a], &[0, 1]);
        let last =
            |concentration: f64| *Signals { source_concentration: concentration, ..seen }.features().last().unwrap();
        assert_eq!(last(0.0), 0.0);
        assert!((last(2.0) - 4.0 * log_odds(seen.confidence)).abs() < 1e-12);
        // More concentrated than one class in ten: no calibration holds such samples.
        assert_eq!(last(4.0), last(10f64.ln()));
        assert_eq!(seen.features_of_usual_shares().len(), seen.features().len() + 2);
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let source = Outputs::new(vec![0.0; 4], 2).unwrap();
        let transport = SubsetCot::new(&source);
        let measure = |rows: &[usize], second: usize| {
            let second = Outputs::new(vec![0.0; second], 2).unwrap();
            Signals::measure(&source, rows, &second, &transport)
        };
        assert!(measure(&[0, 1], 4).is_ok());
        assert!(measure(&[], 2).is_err());
        assert!(measure(&[0, 2], 2).is_err());
        assert!(measure(&[0], 4).is_err());
    }
}
