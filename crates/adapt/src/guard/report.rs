use serde::{Deserialize, Serialize};
use std::fmt;

/// How an adapting model looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GuardState {
    /// Nothing stands out.
    Healthy,
    /// Something stands out that a harmless stream, such as a class-sorted one, can also cause.
    Warning,
    /// The model no longer tells classes apart.
    Collapsed,
}

/// One thing that stands out.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GuardReason {
    /// The mean prediction favours few classes.
    LowEntropy {
        /// Entropy of the mean prediction, in nats.
        found: f64,
        /// What a window of this size over all classes would have: `ln K` for a long one.
        expected: f64,
    },
    /// The mean prediction favours fewer classes than it did at the start.
    EntropyFell {
        /// Entropy of the mean prediction, in nats.
        found: f64,
        /// Its largest value over the first window, in nats.
        start: f64,
    },
    /// Few classes are predicted.
    FewClasses {
        /// Effective number of predicted classes.
        found: f64,
        /// What a window of this size over all classes would hold.
        expected: f64,
    },
    /// The source model sees more classes in the same images.
    FewerThanSource {
        /// Effective number of predicted classes.
        found: f64,
        /// The same of the source model's predictions.
        source: f64,
    },
    /// Fewer predictions agree with the source model's than at the start.
    FlipsRose {
        /// Share of flipped predictions.
        found: f64,
        /// The same over the first window.
        start: f64,
    },
    /// Class means have left their classes.
    Drift {
        /// Distance moved, as a share of the distance between classes.
        found: f64,
        /// The limit.
        limit: f64,
    },
}

impl fmt::Display for GuardReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::LowEntropy { found, expected } => {
                write!(f, "the mean prediction has {found:.2} nats of entropy, a mixed stream {expected:.2}")
            }
            Self::EntropyFell { found, start } => {
                write!(f, "the mean prediction has {found:.2} nats of entropy, at the start it had {start:.2}")
            }
            Self::FewClasses { found, expected } => {
                write!(f, "{found:.1} classes are predicted, a mixed stream would hold {expected:.1}")
            }
            Self::FewerThanSource { found, source } => {
                write!(f, "{found:.1} classes are predicted, the source model sees {source:.1} in the same images")
            }
            Self::FlipsRose { found, start } => write!(
                f,
                "{:.1}% of predictions differ from the source model's, at the start {:.1}%",
                100.0 * found,
                100.0 * start
            ),
            Self::Drift { found, limit } => {
                write!(f, "class means moved by {found:.2} of the distance between classes, the limit is {limit:.2}")
            }
        }
    }
}

/// What the guard sees after a batch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GuardReport {
    /// The verdict.
    pub state: GuardState,
    /// What it rests on; empty when healthy.
    pub reasons: Vec<GuardReason>,
    /// Entropy of the mean prediction over the window, in nats.
    pub entropy_of_mean: f64,
    /// Effective number of predicted classes: `exp` of the entropy of the histogram of predictions.
    pub effective_classes: f64,
    /// Share of the window's predictions that differ from the source model's, where those are known.
    pub flip_rate: Option<f64>,
    /// The last drift that was given, as a share of the distance between classes.
    pub drift: Option<f64>,
}
