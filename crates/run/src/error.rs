use crate::few_labels::LabelFileError;
use crate::outputs::OutputsError;
use crate::parts::PartError;
use flipcast_adapt::AdaptError;
use flipcast_corrupt::CorruptError;
use flipcast_estimate::EstimateError;
use flipcast_estimate::embed::EmbedError;
use flipcast_exec::ExecError;
use flipcast_ground::Hint;
use flipcast_images::dataset::DataError;
use flipcast_images::labelspace::LabelError;
use flipcast_images::loader::LoadError;
use flipcast_models::{ModelError, RestoreError};
use flipcast_record::predictions::PredictionError;
use flipcast_record::{ProtocolError, RecordError};
use std::path::PathBuf;

/// Why a run could not be made.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// Advice that names settings no method has.
    #[error("the settings of `{name}` in the advice are not those of a method")]
    Advised {
        /// What the advice calls it.
        name: String,
        /// What is wrong with them.
        source: serde_json::Error,
    },
    /// What a calibration knows of adapting is too old to be watched by.
    #[error(
        "the calibration was made by an earlier version, which did not learn whose answers to trust where two models differ"
    )]
    EarlierAdvice,
    /// There is nothing to look at.
    #[error("there are no images, expected at least one that can be read")]
    NoImages,
    /// A setting is outside its range.
    #[error("{setting} is {found}, expected {expected}")]
    Setting {
        /// The setting.
        setting: &'static str,
        /// Its value.
        found: usize,
        /// What is allowed.
        expected: &'static str,
    },
    /// A setting that is a fraction is outside its range.
    #[error("{setting} is {found}, expected {expected}")]
    Number {
        /// The setting.
        setting: &'static str,
        /// Its value.
        found: f64,
        /// What is allowed.
        expected: &'static str,
    },
    /// No protocol has this name.
    #[error("no protocol is called `{name}`, expected one of {known}")]
    UnknownProtocol {
        /// What was asked for.
        name: String,
        /// All names.
        known: String,
    },
    /// A probe image was not among the images of the source pass.
    #[error("image {index} of the probe was not read by the source model's pass")]
    ProbeNotSeen {
        /// Its index in the dataset.
        index: usize,
    },
    /// Calibration needs answers.
    #[error("{unlabelled} of {images} images have no label, expected a label for every one")]
    Unlabelled {
        /// Images without.
        unlabelled: usize,
        /// All images.
        images: usize,
    },
    /// Errors are measured on kinds of shift left out, so that another must be left.
    #[error("the calibration has {found}, expected at least two kinds of shift")]
    FewKinds {
        /// The kinds, counted.
        found: String,
    },
    /// A label that is no single class of the network.
    #[error("image {index} has a label that is not one of the model's {classes} classes")]
    OutsideClassSpace {
        /// Its index in the dataset.
        index: usize,
        /// Alternatives of a decision.
        classes: usize,
    },
    /// A corruption could not be set up.
    #[error("the corruption cannot be made")]
    Corrupt(#[from] CorruptError),
    /// A record does not hold what its key promises.
    #[error("the record `{key}` does not hold a cell")]
    Record {
        /// The record's key.
        key: String,
        /// What is wrong with it.
        #[source]
        source: serde_json::Error,
    },
    /// Records could not be read or written.
    #[error("the records cannot be used")]
    Store(#[from] RecordError),
    /// An artefact could not be read.
    #[error("`{path}` cannot be read")]
    CalibrationFile {
        /// The artefact.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// Not an artefact, or one of another version.
    #[error("`{path}` is not a calibration this version can use")]
    CalibrationJson {
        /// The artefact.
        path: PathBuf,
        /// Where and why.
        #[source]
        source: serde_json::Error,
    },
    /// An artefact of a kind that is of no use here.
    #[error("`{path}` is {found}, expected {expected}")]
    OtherKind {
        /// The artefact.
        path: PathBuf,
        /// What it is.
        found: &'static str,
        /// What was expected.
        expected: &'static str,
    },
    /// An artefact of other weights, settings or time.
    #[error("the calibration is for {what} `{found}`, but this run has `{expected}`")]
    OtherCalibration {
        /// What differs.
        what: &'static str,
        /// In the artefact.
        found: String,
        /// Here.
        expected: String,
    },
    /// The source model was told not to predict.
    #[error("the source model does not predict, but anchored norms and estimated gains compare with it")]
    NeedsSource,
    /// A model could not be changed.
    #[error("the model cannot be used")]
    Model(#[from] ModelError),
    /// The images could not be read.
    #[error("the images cannot be loaded")]
    Load(#[from] LoadError),
    /// The network failed.
    #[error("the network cannot run")]
    Exec(#[from] ExecError),
    /// Adaptation failed.
    #[error("adaptation failed")]
    Adapt(#[from] AdaptError),
    /// A vector of another network.
    #[error("the affine vector has {found} values, but the model has {expected}")]
    AffineLength {
        /// Its length.
        found: usize,
        /// The model's.
        expected: usize,
    },
    /// A class space that does not fit the model.
    #[error("the class space does not fit the model")]
    Label(#[from] LabelError),
    /// Predictions could not be saved.
    #[error("the predictions cannot be saved")]
    Predictions(#[from] PredictionError),
    /// Settings could not be recorded.
    #[error("the settings cannot be recorded")]
    Protocol(#[from] ProtocolError),
    /// An estimator failed.
    #[error("an estimator failed")]
    Estimate(#[from] EstimateError),
    /// The geometry of embeddings could not be computed.
    #[error("the embeddings cannot be described")]
    Embed(#[from] EmbedError),
    /// A few labels do not fit the images or the model.
    #[error("the labels cannot be used")]
    LabelFile(#[from] LabelFileError),
    /// Outputs do not fit each other or their calibration.
    #[error("the outputs cannot be used")]
    Outputs(#[from] OutputsError),
    /// Parts of an estimate cannot be made or joined.
    #[error("the parts cannot be used")]
    Part(#[from] PartError),
    /// Batch norms could not be restored.
    #[error("the batch norms cannot be restored")]
    Restore(#[from] RestoreError),
    /// A part of a dataset could not be taken.
    #[error("the dataset cannot be read")]
    Data(#[from] DataError),
}

impl Hint for RunError {
    fn hint(&self) -> Option<String> {
        let text = match self {
            Self::Unlabelled { .. } => {
                "answers are needed here: give a dataset with labels, such as class folders or a list file"
            }
            Self::FewKinds { .. } => {
                "add another corruption, or other labelled images; severities of one corruption are of one kind"
            }
            Self::Restore(source) => return source.hint(),
            Self::OutsideClassSpace { .. } => "check that the dataset has the model's classes",
            Self::CalibrationJson { .. } => "calibrate the model, which writes such a file",
            Self::OtherKind { .. } => {
                "outputs alone go with a calibration made of outputs, a network with one made of images"
            }
            Self::EarlierAdvice => {
                "make it again with `flipcast calibrate --advise`; its cells are kept, its trials are run again"
            }
            Self::OtherCalibration { .. } => "calibrate this model again, or use the artefact that belongs to it",
            _ => return None,
        };
        Some(text.to_owned())
    }
}
