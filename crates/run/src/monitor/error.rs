use flipcast_estimate::EstimateError;
use flipcast_ground::Hint;
use flipcast_record::ProtocolError;

/// Why a stream cannot be watched.
#[derive(Debug, thiserror::Error)]
pub enum MonitorError {
    /// The calibration is of an earlier version or was made on too few images.
    #[error("the calibration does not hold {missing}, which watching a stream needs")]
    Calibration {
        /// What it lacks.
        missing: &'static str,
    },
    /// A setting outside its range.
    #[error("{setting} is {found}, expected {expected}")]
    Setting {
        /// The setting.
        setting: &'static str,
        /// Its value.
        found: String,
        /// What is allowed.
        expected: &'static str,
    },
    /// Outputs of another classifier.
    #[error("there are {found} outputs for an image, expected {expected}")]
    Classes {
        /// How many came.
        found: usize,
        /// How many classes the calibration has.
        expected: usize,
    },
    /// A second look at another number of images.
    #[error("the second look has {found} images, expected {expected}")]
    SecondLook {
        /// Images of the second look.
        found: usize,
        /// Images named.
        expected: usize,
    },
    /// Embeddings of another network.
    #[error("there are {found} values in an embedding, expected {expected}")]
    Embedding {
        /// How many came.
        found: usize,
        /// How many the calibration's have; 0 where none are needed.
        expected: usize,
    },
    /// A label of an image that nobody asked about.
    #[error("image {image} was not asked about, or so long ago that it is forgotten")]
    NotAsked {
        /// The image.
        image: u64,
    },
    /// A class that does not exist.
    #[error("the label is class {found}, expected one of {classes} classes, counted from 0")]
    Label {
        /// The class.
        found: usize,
        /// Number of classes.
        classes: usize,
    },
    /// A stored state that does not belong to this calibration, or is damaged.
    #[error("the stored state does not fit: {what} has {found} entries, expected {expected}")]
    State {
        /// What differs.
        what: &'static str,
        /// In the state.
        found: usize,
        /// Here.
        expected: usize,
    },
    /// A stored state that is not one.
    #[error("the stored state cannot be read")]
    Json(#[from] serde_json::Error),
    /// A window could not be recorded.
    #[error("the window cannot be recorded")]
    Record(#[from] ProtocolError),
    /// An estimator failed.
    #[error("an estimator failed")]
    Estimate(#[from] EstimateError),
}

impl Hint for MonitorError {
    fn hint(&self) -> Option<String> {
        let text = match self {
            Self::Calibration { .. } => {
                "calibrate the model again with this version, on two kinds of shift or more, and without cells kept from an earlier one"
            }
            Self::NotAsked { .. } => {
                "labels of images that were chosen otherwise would bias the estimate: ask which images to label, and label these"
            }
            Self::State { .. } | Self::Json(_) => "start with an empty state, or use the calibration it was made with",
            _ => return None,
        };
        Some(text.to_owned())
    }
}
