use flipcast_estimate::Estimate;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Whether and how to adapt a model to some images, and what the model does as it is. Records hold these.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AdviceResult {
    /// The source model's estimated accuracy on all images.
    pub source: Option<Estimate>,
    /// Its true accuracy, if every image has a label. No advice uses it.
    pub accuracy: Option<f64>,
    /// What was tried, and what to do.
    pub advice: Advice,
}

/// The format of advice in files.
pub const ADVICE_FORMAT: u32 = 1;

impl AdviceResult {
    /// The advice on `data` as files hold it, with the level of its intervals.
    pub fn to_file(&self, data: &str, level: f64) -> Value {
        serde_json::json!({
            "flipcast_advice": ADVICE_FORMAT, "data": data, "level": level, "source": self.source, "advice": self.advice
        })
    }
}

/// What to do with a model on some images.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Advice {
    /// Images that were looked at.
    pub images: usize,
    /// Images of a step.
    pub batch_size: usize,
    /// Candidates, the best first; those tried on all images stand before the others.
    pub tried: Vec<TriedCandidate>,
    /// The first of them, if it is worth it; otherwise the model is best left as it is.
    pub recommended: Option<AdvisedMethod>,
    /// Where the gain falls in the end: images after which to stop adapting, or to begin anew.
    pub stop_after: Option<usize>,
    /// What the trials cost, in adaptations to all images.
    pub adaptations: f64,
}

/// A method with its settings, as files hold it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AdvisedMethod {
    /// What it is called in tables and files.
    pub name: String,
    /// Its settings.
    pub config: Value,
    /// Whether batch norms are anchored at clean images first.
    pub anchored: bool,
}

/// A candidate and what is expected of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TriedCandidate {
    /// Its settings.
    pub candidate: AdvisedMethod,
    /// Images it was tried on.
    pub images: usize,
    /// The accuracy it is expected to gain over the source model.
    pub gain: f64,
    /// Lower end of the gain's interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Probability that it loses accuracy; `None` where the calibration knows too few kinds of shift to tell.
    pub risk: Option<f64>,
    /// Share of answers that differ from the source model's.
    pub flips: f64,
    /// The gain expected on every part of the images, for candidates that were tried on all of them.
    pub curve: Vec<f64>,
    /// Where the run is at its end; `None` without a curve.
    pub phase: Option<Phase>,
    /// The true gain, if every image has a label. No advice uses it.
    pub truth: Option<f64>,
}

/// Where a run is: the paper's two phases, seen in the gain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// The gain grows: clusters tighten near the training classes.
    Growing,
    /// The gain stays.
    Level,
    /// The gain falls: clusters drift away from the training classes.
    Falling,
}

impl Phase {
    /// In a word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Growing => "growing",
            Self::Level => "level",
            Self::Falling => "falling",
        }
    }
}
