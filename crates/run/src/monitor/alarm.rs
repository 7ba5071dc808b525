use serde::{Deserialize, Serialize};

/// What an alarm says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AlarmKind {
    /// Images look different: entropies within groups of classes have moved.
    CovariateShift,
    /// More or fewer predictions flip under the statistics of the batch.
    Flips,
    /// Classes are predicted in other shares than before.
    ClassShares,
    /// Three windows in a row have intervals below the line.
    AccuracyBelow,
    /// Labels say that the accuracy is below the line.
    LabelledAccuracyBelow,
    /// Two windows in a row say that the adapted network is right less often than the source model.
    AdaptationHarms,
}

impl AlarmKind {
    /// All kinds.
    pub const ALL: [Self; 6] = [
        Self::CovariateShift,
        Self::Flips,
        Self::ClassShares,
        Self::AccuracyBelow,
        Self::LabelledAccuracyBelow,
        Self::AdaptationHarms,
    ];

    /// Its name in files, metrics and requests.
    pub fn name(self) -> &'static str {
        match self {
            Self::CovariateShift => "covariate_shift",
            Self::Flips => "flips",
            Self::ClassShares => "class_shares",
            Self::AccuracyBelow => "accuracy_below",
            Self::LabelledAccuracyBelow => "labelled_accuracy_below",
            Self::AdaptationHarms => "adaptation_harms",
        }
    }
}

/// What an alarm rests on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Evidence {
    /// A test: the logarithm of its e-value, and where that becomes an alarm.
    Test {
        /// Logarithm of the e-value.
        log_e_value: f64,
        /// The line that it crossed.
        line: f64,
    },
    /// An accuracy: the upper end of its interval, and the line above it.
    Accuracy {
        /// Upper end of the interval.
        high: f64,
        /// The line.
        line: f64,
    },
    /// What adapting gains: the upper end of its interval, which lies below 0.
    Gain {
        /// Upper end of the interval.
        high: f64,
    },
}

/// Something has changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Alarm {
    /// What.
    pub kind: AlarmKind,
    /// Seconds since 1970.
    pub time: f64,
    /// The image after which it was raised.
    pub image: u64,
    /// What it rests on.
    pub evidence: Evidence,
    /// One sentence for a reader.
    pub text: String,
    /// Images that speak most for it.
    pub images: Vec<u64>,
    /// Whether it still stands: until somebody resets it.
    pub active: bool,
}
