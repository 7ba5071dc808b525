use flipcast_estimate::{ClassShares, Flag, Signals};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// One cell: scores of the source and of the adapted model, and the truth where it is known. Records hold these.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cell {
    /// Images that were read.
    pub images: usize,
    /// Images that could not be read.
    pub skipped: usize,
    /// Accuracy of the source model, if labels are known.
    pub accuracy: Option<f64>,
    /// Accuracy of the adapted model on the probe, if labels are known.
    pub adapted_accuracy: Option<f64>,
    /// By estimator, for the source model's accuracy.
    pub source: BTreeMap<String, ScoreSummary>,
    /// By estimator, for the adapted model's accuracy.
    pub adapted: BTreeMap<String, ScoreSummary>,
    /// Images of the probe.
    pub probe_images: usize,
    /// What the adaptation did.
    pub adaptation: Adaptation,
    /// Doubts about the images.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flags: Vec<Flag>,
    /// What the source model and a second look say together. Cells of earlier versions have none, or signals that know less, which are left out.
    #[serde(default, deserialize_with = "whole_signals", skip_serializing_if = "Option::is_none")]
    pub signals: Option<Signals>,
    /// Accuracy of the second look at the images that were looked at twice, if labels are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub second_accuracy: Option<f64>,
    /// What the steps of the adaptation changed; cells of earlier versions have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps: Option<Steps>,
    /// Samples of the images with other class shares and sizes, where they were drawn: for calibration.
    #[serde(default, deserialize_with = "whole_samples", skip_serializing_if = "Vec::is_empty")]
    pub samples: Vec<CellSample>,
    /// Where the time went.
    pub seconds: Seconds,
}

/// A sample of a cell's images.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CellSample {
    /// How it was drawn.
    pub shares: ClassShares,
    /// What was seen.
    pub signals: Signals,
    /// Accuracy of the source model.
    pub accuracy: f64,
    /// Accuracy of the second look at the images that were looked at twice.
    pub second_accuracy: f64,
}

/// What the steps of an adaptation changed on the probe, beyond the statistics that it began with.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Steps {
    /// Share of the probe whose answer is another than before the first step.
    pub flips: f64,
    /// What the accuracy rose by, if labels are known.
    pub gain: Option<f64>,
}

/// The field that signals of earlier versions lack.
const NEWEST_SIGNAL: &str = "second_confidence";

fn whole_signals<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Signals>, D::Error> {
    let found = Option::<Value>::deserialize(from)?.filter(|signals| signals.get(NEWEST_SIGNAL).is_some());
    found.map(serde_json::from_value).transpose().map_err(D::Error::custom)
}

fn whole_samples<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<CellSample>, D::Error> {
    let mut found = Vec::<Value>::deserialize(from)?;
    found.retain(|sample| sample.get("signals").is_none_or(|signals| signals.get(NEWEST_SIGNAL).is_some()));
    found.into_iter().map(serde_json::from_value).collect::<Result<_, _>>().map_err(D::Error::custom)
}

/// A score as it is stored: its value and how far chance moves it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScoreSummary {
    /// The value.
    pub value: f64,
    /// Standard error over the images it was taken from, where it is a mean over images.
    pub standard_error: Option<f64>,
    /// Doubts about it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flags: Vec<Flag>,
}

/// Totals over all steps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Adaptation {
    /// Steps made.
    pub steps: usize,
    /// Images seen, repeats included.
    pub seen: usize,
    /// Of these, images that passed the entropy filter.
    pub reliable: usize,
    /// Of these, images whose loss moved the parameters.
    pub used: usize,
    /// Times the method restored the source parameters.
    pub resets: usize,
}

impl Adaptation {
    /// Share of the images seen that moved the parameters.
    pub fn used_share(&self) -> f64 {
        self.used as f64 / self.seen.max(1) as f64
    }
}

/// Seconds spent on a cell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Seconds {
    /// The source model's pass.
    pub source: f64,
    /// Adapting and probing.
    pub flips: f64,
    /// The second look at the images, and at samples of them.
    #[serde(default)]
    pub second_look: f64,
    /// All estimators together.
    pub estimators: f64,
}

impl Seconds {
    /// All of them.
    pub fn total(&self) -> f64 {
        self.source + self.flips + self.second_look + self.estimators
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[derive(Deserialize)]
    struct Seen {
        #[serde(default, deserialize_with = "whole_signals")]
        signals: Option<Signals>,
        #[serde(default, deserialize_with = "whole_samples")]
        samples: Vec<CellSample>,
    }

    #[test]
    fn signals_of_earlier_versions_are_left_out_and_broken_ones_refused() {
        let mut signals = json!({
            "images": 9, "looked_at": 9, "classes": 2, "confidence": 0.8, "entropy": 0.3, "cross": 0.7, "reverse": 0.7, "concentration": 0.0,
            "source_concentration": 0.0, "transport": 0.7, "second_confidence": 0.8, "second_entropy": 0.3, "second_transport": 0.7,
        });
        let cell = |signals: &Value| {
            let sample = json!({"shares": "sample", "signals": signals, "accuracy": 0.5, "second_accuracy": 0.5});
            serde_json::from_value::<Seen>(json!({"signals": signals, "samples": [sample]}))
        };
        let now = cell(&signals).unwrap();
        assert_eq!((now.signals.map(|signals| signals.images), now.samples.len()), (Some(9), 1));
        signals["cross"] = json!("much");
        assert!(cell(&signals).is_err());
        let earlier = cell(&json!({"images": 9, "classes": 2, "confidence": 0.8})).unwrap();
        assert_eq!((earlier.signals, earlier.samples.len()), (None, 0));
        let none = serde_json::from_value::<Seen>(json!({})).unwrap();
        assert_eq!((none.signals, none.samples.len()), (None, 0));
    }
}
