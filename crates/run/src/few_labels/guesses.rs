//! Guesses of every image's correctness, from one pass of the source model.

use super::LabelFileError;
use super::answers::{Labelled, match_file};
use super::file::{AskedImage, LabelFile};
use super::names::ClassNames;
use crate::estimate::estimates_protocol;
use crate::images::Images;
use crate::source_pass::{SourcePass, run_source};
use crate::{Basis, CellRequest, Ledger, RunError, Setting, Watcher};
use flipcast_estimate::{
    Answer, ByClassConfig, Estimate, FEWEST_LABELS, Outputs, choose_questions, estimate_by_class, match_temperature,
    normal_quantile, powered_estimate,
};
use flipcast_record::Protocol;
use flipcast_record::results::{ByClassResult, FewLabelsResult};
use std::time::Instant;

/// Raised whenever estimates from a few labels change for the same labels.
const FEW_LABELS_VERSION: u32 = 1;
/// Raised whenever estimates by class change for the same images.
const BY_CLASS_VERSION: u32 = 1;

/// Where a few labels come from.
#[derive(Clone, Copy, Debug)]
pub enum LabelSource<'a> {
    /// Somebody wrote them down.
    File(&'a LabelFile),
    /// The data have labels of which this many are used, of images chosen as [`ImageGuesses::choose_images`] does: to try
    /// out what labels would tell.
    Known {
        /// How many.
        labels: usize,
        /// Which ones.
        seed: u64,
    },
}

/// What the source model says of each image of a request: its answer, and the probability that the answer is right. Made by one
/// pass over the images when it is first needed.
pub struct ImageGuesses<'a> {
    setting: &'a Setting<'a>,
    request: &'a CellRequest<'a>,
    temperature: f64,
    seen: Option<Seen>,
}

/// What was seen of the images.
pub(super) struct Seen {
    pub ids: Vec<String>,
    pub pass: SourcePass,
    pub predicted: Vec<usize>,
    pub guesses: Vec<f64>,
}

impl<'a> ImageGuesses<'a> {
    /// Of the images of `request`; probabilities are made with logits divided by `temperature`, that of the calibration
    /// (`calibration.basis.temperature.value`), or 1 without one.
    pub fn new(setting: &'a Setting<'a>, request: &'a CellRequest<'a>, temperature: f64) -> Self {
        Self { setting, request, temperature, seen: None }
    }

    /// The source model's outputs, one row per image in the order in which they are stored.
    pub fn outputs(&mut self, watcher: &mut dyn Watcher) -> Result<&Outputs, RunError> {
        Ok(&self.look(watcher)?.pass.outputs)
    }

    /// Chooses images to label, by [`choose_questions`].
    pub fn choose_images(
        &mut self,
        labels: usize,
        seed: u64,
        watcher: &mut dyn Watcher,
    ) -> Result<Vec<AskedImage>, RunError> {
        check_count(labels)?;
        let names = self.request.scope.alternative_names(self.setting.model);
        let seen = self.look(watcher)?;
        let question = choose_questions(&seen.guesses, labels, seed)?;
        let asked = |&image: &usize| AskedImage {
            image: seen.ids[image].clone(),
            predicted: names[seen.predicted[image]].clone(),
            stratum: question.strata[image],
        };
        Ok(question.images.iter().map(asked).collect())
    }

    /// What a few labels say about the accuracy, beside what they say with every image's guess ([`powered_estimate`]). From
    /// `ledger`, or else made and kept there.
    pub fn with_labels(
        &mut self,
        labels: LabelSource,
        level: f64,
        ledger: &mut Ledger,
        watcher: &mut dyn Watcher,
    ) -> Result<FewLabelsResult, RunError> {
        let used = match labels {
            LabelSource::File(file) => Protocol::new("labels").with("file", file)?,
            LabelSource::Known { labels, seed } => {
                Protocol::new("labels").with("known", &labels)?.with("seed", &seed)?
            }
        };
        let protocol = self.protocol("few_labels", FEW_LABELS_VERSION, level)?.with("labels", &used.key())?;
        if let Some(known) = ledger.find(&protocol)? {
            return Ok(known);
        }
        let started = Instant::now();
        let (model, request) = (self.setting.model, self.request);
        let seen = self.look(watcher)?;
        let Labelled { answers, strata } = match labels {
            LabelSource::File(file) => {
                let names = ClassNames::new(model, request.scope);
                match_file(file, seen, &names, request.scope, &request.data)?
            }
            LabelSource::Known { labels, seed } => seen.draw(labels, seed, request)?,
        };
        let result = FewLabelsResult {
            images: seen.ids.len(),
            labels: answers.len(),
            right: answers.iter().filter(|answer| answer.right).count(),
            strata: strata.iter().max().map_or(0, |last| last + 1),
            accuracy: seen.pass.accuracy(request.scope),
            powered: powered_estimate(&seen.guesses, &strata, &answers, level)?,
        };
        ledger.keep(protocol, &result, started.elapsed().as_secs_f64())?;
        Ok(result)
    }

    /// What is expected of every class ([`estimate_by_class`]), with confidences that agree with `accuracy` on average. From
    /// `ledger`, or else made and kept there.
    pub fn by_class(
        &mut self,
        accuracy: &Estimate,
        basis: &Basis,
        level: f64,
        ledger: &mut Ledger,
        watcher: &mut dyn Watcher,
    ) -> Result<ByClassResult, RunError> {
        let config = by_class_config(accuracy, basis, level);
        let protocol = self
            .protocol("by_class", BY_CLASS_VERSION, level)?
            .with("accuracy", &accuracy.accuracy)?
            .with("settings", &config)?
            .with("marginal", &basis.marginals.marginal)?;
        if let Some(known) = ledger.find(&protocol)? {
            return Ok(known);
        }
        let started = Instant::now();
        let outputs = &self.look(watcher)?.pass.outputs;
        let result = estimate_classes(outputs, accuracy, basis, level)?;
        ledger.keep(protocol, &result, started.elapsed().as_secs_f64())?;
        Ok(result)
    }

    fn protocol(&self, kind: &str, version: u32, level: f64) -> Result<Protocol, RunError> {
        Ok(estimates_protocol(kind, self.setting, self.request)?
            .with(&format!("{kind}_version"), &version)?
            .with("temperature", &self.temperature)?
            .with("level", &level)?)
    }

    #[cfg(test)]
    pub(super) fn has_looked(&self) -> bool {
        self.seen.is_some()
    }

    fn look(&mut self, watcher: &mut dyn Watcher) -> Result<&Seen, RunError> {
        let seen = match self.seen.take() {
            Some(seen) => seen,
            None => {
                let Setting { model, device, .. } = *self.setting;
                let (dataset, config) = self.setting.sampled(self.request)?;
                let images = Images::open(dataset.clone(), config, self.request.memory_limit)?;
                let pass = run_source(model, &images, self.request.scope, device, watcher)?;
                let ids = pass.indices.iter().map(|&index| dataset.id(index)).collect();
                Seen::new(ids, pass, self.temperature)
            }
        };
        Ok(self.seen.insert(seen))
    }
}

/// What is expected of every class ([`estimate_by_class`]), with confidences of `outputs` that agree with `accuracy` on average.
///
/// # Errors
/// When there are too few images, or none of them could be right as often.
pub fn estimate_classes(
    outputs: &Outputs,
    accuracy: &Estimate,
    basis: &Basis,
    level: f64,
) -> Result<ByClassResult, RunError> {
    let config = by_class_config(accuracy, basis, level);
    let temperature = match_temperature(outputs, accuracy.accuracy)?;
    Ok(ByClassResult {
        images: outputs.images(),
        accuracy: accuracy.accuracy,
        temperature,
        calibration_error: config.calibration_error,
        by_class: estimate_by_class(&outputs.scaled(temperature), &basis.marginals, &config)?,
    })
}

/// The accuracy may be wrong by as much as its interval says, and classes differ by as much as on clean images.
fn by_class_config(accuracy: &Estimate, basis: &Basis, level: f64) -> ByClassConfig {
    let deviation = 0.5 * (accuracy.high - accuracy.low) / normal_quantile(level);
    ByClassConfig { level, calibration_error: deviation.hypot(basis.temperature.ece_after).min(1.0) }
}

/// Refuses to ask for fewer labels than are of use.
fn check_count(labels: usize) -> Result<(), LabelFileError> {
    match labels < FEWEST_LABELS {
        true => Err(LabelFileError::TooFew { found: labels, expected: FEWEST_LABELS }),
        false => Ok(()),
    }
}

impl Seen {
    pub fn new(ids: Vec<String>, pass: SourcePass, temperature: f64) -> Self {
        let calibrated: Outputs = pass.outputs.scaled(temperature);
        Self { ids, predicted: pass.outputs.classes_predicted(), guesses: calibrated.confidences(), pass }
    }

    /// Uses the labels of images that are chosen as those to be labelled are.
    fn draw(&self, labels: usize, seed: u64, request: &CellRequest) -> Result<Labelled, RunError> {
        check_count(labels)?;
        let question = choose_questions(&self.guesses, labels, seed)?;
        let unlabelled = RunError::Unlabelled {
            unlabelled: self.pass.labels.iter().filter(|label| !label.is_known()).count(),
            images: self.ids.len(),
        };
        let answer = |&image: &usize| {
            let right = request.scope.is_correct(self.pass.outputs.row(image), &self.pass.labels[image])?;
            Some(Answer { image, right, stratum: question.strata[image] })
        };
        let answers: Option<Vec<Answer>> = question.images.iter().map(answer).collect();
        Ok(Labelled { answers: answers.ok_or(unlabelled)?, strata: question.strata })
    }
}
