//! The text of a plan and what it must fulfil.

use crate::refit_entry::{Placed, RefitEntry};
use crate::{AnalysisEntry, DataRef, ProtocolEntry, StudyError};
use flipcast_corrupt::Storage;
use flipcast_estimate::Marginal;
use flipcast_ground::{nearest_quoted, with_causes};
use flipcast_run::open::{DecisionRule, LabelRule, ModelRequest};
use flipcast_run::{CalibrationShift, PAPER_FITS, PaperFit, RunError, SCORES, score_info};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;
use toml::Spanned;

/// What is to be found out, and with which models, protocols and data.
///
/// ```
/// use flipcast_study::{ExpandOptions, Plan, expand};
///
/// let plan = Plan::parse(
///     r#"
///     [study]
///     name = "noise"
///     question = "How well do estimates follow noise and fog?"
///     [[models]]
///     name = "mine"
///     weights = "${WEIGHTS}/mine.safetensors"
///     [[calibrations]]
///     name = "clean"
///     data = "${DATA}/val"
///     [[datasets]]
///     name = "noisy"
///     data = "${DATA}/test"
///     corruptions = ["gaussian_noise", "fog"]
///     severities = [1, 3, 5]
///     "#,
/// )?;
/// assert_eq!(expand(&plan, &ExpandOptions::default())?.len(), 6);
/// # Ok::<(), flipcast_study::StudyError>(())
/// ```
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// The study as a whole.
    pub study: StudyEntry,
    /// Values of the variables in paths, where neither the environment nor the caller has one.
    #[serde(default)]
    pub data: BTreeMap<String, String>,
    /// The networks.
    pub models: Vec<ModelEntry>,
    /// How flips are counted; without any, as protocol `flipcast` says.
    #[serde(default)]
    pub protocols: Vec<ProtocolEntry>,
    /// What estimates rest on.
    #[serde(default)]
    pub calibrations: Vec<CalibrationEntry>,
    /// What accuracy is estimated on.
    pub datasets: Vec<DatasetEntry>,
    /// What else is looked at.
    #[serde(default)]
    pub analyses: Vec<AnalysisEntry>,
    /// What is fitted again once all cells are there.
    #[serde(default)]
    refits: Vec<Placed>,
    /// What it was read from, to name places in it.
    #[serde(skip)]
    text: String,
}

/// The study as a whole.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StudyEntry {
    /// Its name.
    pub name: String,
    /// What it is to answer.
    pub question: String,
    /// Seeds of corruptions, shuffles and adaptation; each is a study of its own.
    #[serde(default = "default_seeds")]
    pub seeds: Vec<u64>,
    /// Probability with which intervals are meant to hold the truth.
    #[serde(default = "default_level")]
    pub level: f64,
    /// The storage step of corruptions made in memory; that of the published sets if not given.
    pub storage: Option<Storage>,
    /// Whether entropy minimisation is shown on points of a plane, too.
    #[serde(default)]
    pub toy: bool,
}

fn default_seeds() -> Vec<u64> {
    vec![0]
}

fn default_level() -> f64 {
    0.9
}

/// A network.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelEntry {
    /// What the plan calls it.
    pub name: String,
    /// Its weight file.
    pub weights: String,
    /// Architecture or published weights, such as `resnet50.tv_in1k`, where the file does not say.
    pub architecture: Option<String>,
    /// Number of classes, where it differs from the usual one.
    pub classes: Option<usize>,
    /// Where to get it.
    pub get: Option<String>,
}

/// What estimates rest on: labelled images to calibrate with, one of the paper's fits, or both.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CalibrationEntry {
    /// What the plan calls it.
    pub name: String,
    /// Clean labelled images.
    pub data: Option<String>,
    /// The published dataset whose root they are.
    pub dataset: Option<String>,
    /// Its split.
    pub split: Option<String>,
    /// How labels are understood.
    #[serde(default)]
    pub labels: LabelRule,
    /// Use at most this many images.
    pub limit: Option<usize>,
    /// Whether logits are divided by a temperature fitted on the clean images.
    #[serde(default)]
    pub temperature: bool,
    /// The classes' shares that transport assumes.
    #[serde(default)]
    pub marginal: Marginal,
    /// What is done to the images: `held-out` (the paper's, if not given), `family` (flipcast's own), corruptions, or several of
    /// these parted by commas.
    pub shifts: Option<String>,
    /// One of the paper's fits.
    pub published: Option<String>,
    /// The models it is for; all without a list.
    pub models: Option<Vec<Spanned<String>>>,
    /// The protocols it is for; all without a list.
    pub protocols: Option<Vec<Spanned<String>>>,
    /// Where to get the images.
    pub get: Option<String>,
}

/// Images whose accuracy is estimated: a row of a table, of one or more splits.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DatasetEntry {
    /// The row's name.
    pub name: String,
    /// Where the images lie.
    pub data: String,
    /// The published dataset whose root that is.
    pub dataset: Option<Spanned<String>>,
    /// Its splits; all of them without a list.
    pub splits: Option<Vec<Spanned<String>>>,
    /// Corruptions made in memory: names, sets such as `cifar-c-bar`, or `c` for the 15 of ImageNet-C with constants chosen by
    /// image size.
    #[serde(default)]
    pub corruptions: Vec<Spanned<String>>,
    /// Their severities.
    #[serde(default = "default_severities")]
    pub severities: Vec<u8>,
    /// Whether the images as they are belong to a row with corruptions.
    #[serde(default)]
    pub clean: bool,
    /// How labels are understood.
    #[serde(default)]
    pub labels: LabelRule,
    /// Which outputs count.
    #[serde(default)]
    pub decision: DecisionRule,
    /// Use at most this many images.
    pub limit: Option<usize>,
    /// The models it is for; all without a list.
    pub models: Option<Vec<Spanned<String>>>,
    /// Where to get the images.
    pub get: Option<String>,
}

fn default_severities() -> Vec<u8> {
    vec![1, 2, 3, 4, 5]
}

impl Plan {
    /// Reads a plan and refuses what cannot work.
    pub fn parse(text: &str) -> Result<Self, StudyError> {
        let mut plan: Self = toml::from_str(text).map_err(|error| {
            let (line, column) = place(text, error.span().map_or(0, |span| span.start));
            StudyError::Syntax { line, column, message: error.message().replace('\n', ", ") }
        })?;
        if plan.protocols.is_empty() {
            plan.protocols.push(ProtocolEntry::plain("flipcast"));
        }
        plan.check(text)?;
        plan.text = text.to_owned();
        Ok(plan)
    }

    /// The error about a name in it that none of `known` is.
    pub(crate) fn unknown<'a>(
        &self,
        what: &'static str,
        name: &Spanned<String>,
        known: impl Iterator<Item = &'a str>,
    ) -> StudyError {
        unknown(&self.text, what, name, known)
    }

    /// What is fitted again.
    pub fn refits(&self) -> impl ExactSizeIterator<Item = &RefitEntry> {
        self.refits.iter().map(Spanned::get_ref)
    }

    /// Every text in which variables are replaced.
    pub(crate) fn templates(&self) -> impl Iterator<Item = &str> {
        let models = self.models.iter().map(|model| model.weights.as_str());
        let calibrations = self.calibrations.iter().filter_map(|c| c.data.as_deref());
        let datasets = self.datasets.iter().map(|dataset| dataset.data.as_str());
        models.chain(calibrations).chain(datasets)
    }

    fn check(&self, text: &str) -> Result<(), StudyError> {
        let name = &self.study.name;
        if !(self.study.level > 0.0 && self.study.level < 1.0) {
            let problem = format!("the level is {}, expected more than 0 and less than 1", self.study.level);
            return Err(StudyError::entry("study", name, problem));
        }
        if self.study.seeds.is_empty() {
            let problem = "there are no seeds, expected at least one";
            return Err(StudyError::entry("study", name, problem));
        }
        let models: Vec<&str> = self.models.iter().map(|m| m.name.as_str()).collect();
        let protocols: Vec<&str> = self.protocols.iter().map(|p| p.name.as_str()).collect();
        let calibrations: Vec<&str> = self.calibrations.iter().map(|c| c.name.as_str()).collect();
        let datasets: Vec<&str> = self.datasets.iter().map(|d| d.name.as_str()).collect();
        unique("model", &models)?;
        unique("protocol", &protocols)?;
        unique("calibration", &calibrations)?;
        unique("dataset", &datasets)?;
        for protocol in &self.protocols {
            protocol.resolve(0)?;
        }
        for calibration in &self.calibrations {
            known(text, "model", calibration.models.as_deref(), &models)?;
            known(text, "protocol", calibration.protocols.as_deref(), &protocols)?;
            calibration.check()?;
        }
        for dataset in &self.datasets {
            known(text, "model", dataset.models.as_deref(), &models)?;
        }
        let analyses: Vec<&str> = self.analyses.iter().map(|a| a.name.as_str()).collect();
        unique("analysis", &analyses)?;
        for analysis in &self.analyses {
            known(text, "model", analysis.models.as_deref(), &models)?;
            known(text, "dataset", analysis.datasets.as_deref(), &datasets)?;
            let calibration = analysis.calibration.as_ref().map(std::slice::from_ref);
            known(text, "calibration", calibration, &calibrations)?;
            analysis.check()?;
        }
        for refit in &self.refits {
            self.check_refit(text, refit, &models)?;
        }
        Ok(())
    }

    fn check_refit(&self, text: &str, refit: &Placed, models: &[&str]) -> Result<(), StudyError> {
        let (line, column) = place(text, refit.span().start);
        let unknown =
            |what, name: &str, nearest| StudyError::Unknown { line, column, what, name: name.to_owned(), nearest };
        for name in refit.get_ref().estimators() {
            if score_info(name).is_none() {
                let nearest = nearest_quoted(name, SCORES.iter().map(|info| info.name));
                return Err(unknown("estimator", name, nearest));
            }
        }
        if let RefitEntry::Transfer { from, to, .. } = refit.get_ref() {
            for name in [from, to].into_iter().flatten() {
                if !models.contains(&name.as_str()) {
                    let nearest = nearest_quoted(name, models.iter().copied());
                    return Err(unknown("model", name, nearest));
                }
            }
        }
        Ok(())
    }
}

impl ModelEntry {
    /// The model whose weights lie at `weights`.
    pub(crate) fn request<'a>(&'a self, weights: &'a str) -> ModelRequest<'a> {
        ModelRequest {
            architecture: self.architecture.as_deref(),
            classes: self.classes,
            ..ModelRequest::new(Path::new(weights))
        }
    }
}

impl CalibrationEntry {
    /// At most `limit` of its images; `None` where it has none.
    pub(crate) fn data_ref(&self, limit: Option<usize>) -> Option<DataRef> {
        Some(DataRef {
            template: self.data.clone()?,
            corruption: None,
            dataset: self.dataset.clone(),
            split: self.split.clone(),
            labels: self.labels,
            decision: DecisionRule::Published,
            limit,
            storage: None,
        })
    }

    fn check(&self) -> Result<(), StudyError> {
        let refused = |problem: String| Err(StudyError::entry("calibration", &self.name, problem));
        if self.data.is_none() && self.published.is_none() {
            return refused("there is nothing to rest on, expected `data` or `published`".into());
        }
        if let Some(name) = &self.published
            && PaperFit::find(name).is_none()
        {
            let nearest = nearest_quoted(name, PAPER_FITS.iter().map(|fit| fit.name));
            return refused(format!("no published fit is called `{name}`, expected one such as {nearest}"));
        }
        match self.shifts() {
            Ok(shifts) if shifts.is_empty() => refused("`shifts` is empty, expected at least one".into()),
            Ok(_) => Ok(()),
            Err(error) => refused(format!("`shifts` cannot be read: {}", with_causes(&error))),
        }
    }

    /// What is done to its images.
    pub(crate) fn shifts(&self) -> Result<Vec<CalibrationShift>, RunError> {
        match &self.shifts {
            Some(list) => CalibrationShift::parse_list(list),
            None => Ok(CalibrationShift::held_out()),
        }
    }

    /// Whether it is for this model and this protocol.
    pub(crate) fn is_for(&self, model: &str, protocol: &str) -> bool {
        lists(self.models.as_deref(), model) && lists(self.protocols.as_deref(), protocol)
    }
}

impl DatasetEntry {
    /// Whether it is for this model.
    pub(crate) fn is_for(&self, model: &str) -> bool {
        lists(self.models.as_deref(), model)
    }
}

impl AnalysisEntry {
    /// Whether it is for this model and this dataset.
    pub(crate) fn is_for(&self, model: &str, dataset: &str) -> bool {
        lists(self.models.as_deref(), model) && lists(self.datasets.as_deref(), dataset)
    }
}

fn lists(names: Option<&[Spanned<String>]>, name: &str) -> bool {
    names.is_none_or(|names| names.iter().any(|known| known.get_ref() == name))
}

fn unique(what: &'static str, names: &[&str]) -> Result<(), StudyError> {
    for (i, name) in names.iter().enumerate() {
        if name.is_empty() {
            return Err(StudyError::entry(what, name, "a name was expected"));
        }
        if names[..i].contains(name) {
            let problem = "there are two of that name, expected different names";
            return Err(StudyError::entry(what, name, problem));
        }
    }
    Ok(())
}

fn known(text: &str, what: &'static str, names: Option<&[Spanned<String>]>, known: &[&str]) -> Result<(), StudyError> {
    for name in names.unwrap_or_default() {
        if !known.contains(&name.get_ref().as_str()) {
            return Err(unknown(text, what, name, known.iter().copied()));
        }
    }
    Ok(())
}

fn unknown<'a>(
    text: &str,
    what: &'static str,
    name: &Spanned<String>,
    known: impl Iterator<Item = &'a str>,
) -> StudyError {
    let (line, column) = place(text, name.span().start);
    StudyError::Unknown {
        line,
        column,
        what,
        name: name.get_ref().clone(),
        nearest: nearest_quoted(name.get_ref(), known),
    }
}

/// Line and column of a byte, from 1.
fn place(text: &str, at: usize) -> (usize, usize) {
    let before = text.get(..at).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let start = before.rfind('\n').map_or(0, |end| end + 1);
    (line, before[start..].chars().count() + 1)
}

#[cfg(test)]
mod tests;
