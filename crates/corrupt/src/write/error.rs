//! What can go wrong while a dataset is written.

use std::error::Error;
use std::path::PathBuf;

use flipcast_ground::Hint;

use crate::blocks::jpeg::EncodeJpegError;
use crate::ccc::PlanError;
use crate::error::CorruptError;

/// A dataset that could not be written to its end. What was finished stays and is kept by the next run.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// A file or folder could not be read, made or renamed.
    #[error("cannot write `{path}`")]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// A clean image could not be read.
    #[error("cannot read image {index} (`{path}`)")]
    Load {
        /// Position in the dataset.
        index: usize,
        /// Path below the dataset.
        path: String,
        /// Why.
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
    /// A clean image could not be corrupted.
    #[error("cannot corrupt image {index} (`{path}`)")]
    Corrupt {
        /// Position in the dataset.
        index: usize,
        /// Path below the dataset.
        path: String,
        /// Why.
        #[source]
        source: CorruptError,
    },
    /// A corrupted image could not be encoded.
    #[error("cannot encode image {index} (`{path}`)")]
    Encode {
        /// Position in the dataset.
        index: usize,
        /// Path below the dataset.
        path: String,
        /// Why.
        #[source]
        source: EncodeJpegError,
    },
    /// A path of the dataset would leave the output folder.
    #[error("image path `{path}` found, but a path of plain names expected, such as `class/name.jpg`")]
    UnsafePath {
        /// The path.
        path: String,
    },
    /// Two images would be written to the same file.
    #[error("images {first} and {second} would both become `{path}`")]
    SamePath {
        /// Position of the earlier image.
        first: usize,
        /// Position of the later image.
        second: usize,
        /// Path below a severity folder.
        path: String,
    },
    /// Arrays need images of one size.
    #[error("image {index} of {width} x {height} pixels found, but {expected_width} x {expected_height} expected")]
    SizeMismatch {
        /// Position in the dataset.
        index: usize,
        /// Pixels across.
        width: usize,
        /// Pixels down.
        height: usize,
        /// Pixels across of the first image.
        expected_width: usize,
        /// Pixels down of the first image.
        expected_height: usize,
    },
    /// Shards store a label with every image.
    #[error("image {index} (`{path}`) without a label found, but shards hold one for every image")]
    NoLabel {
        /// Position in the dataset.
        index: usize,
        /// Path below the dataset.
        path: String,
    },
    /// The stream cannot be planned.
    #[error("cannot plan the stream")]
    Plan {
        /// Why.
        #[source]
        source: PlanError,
    },
    /// The dataset has no images.
    #[error("dataset without images found, but at least one expected")]
    NoImages,
    /// Another run is writing to the folder.
    #[error("`{path}` is being written by another run")]
    InUse {
        /// The folder.
        path: PathBuf,
    },
    /// The folder holds a dataset made with other settings.
    #[error("`{path}` was written with `{found}`, but `{expected}` is asked for")]
    OtherSettings {
        /// The settings file.
        path: PathBuf,
        /// What it says.
        found: String,
        /// What it should say.
        expected: String,
    },
}

impl Hint for WriteError {
    fn hint(&self) -> Option<String> {
        let advice = match self {
            Self::OtherSettings { .. } => "choose an empty folder, or use the settings of the earlier run",
            Self::InUse { .. } => "wait until the other run has ended, or choose another folder",
            Self::SizeMismatch { .. } => "resize and crop the images first, or write a folder tree",
            Self::NoLabel { .. } => "put the images into class folders, or give a list with labels",
            Self::Load { .. } | Self::Io { .. } => "finished files are kept; start the same command again",
            Self::Plan { source } => return source.hint(),
            Self::Corrupt { .. }
            | Self::Encode { .. }
            | Self::UnsafePath { .. }
            | Self::SamePath { .. }
            | Self::NoImages => return None,
        };
        Some(advice.to_owned())
    }
}
