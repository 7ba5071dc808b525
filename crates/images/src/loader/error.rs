use super::TransformError;
use crate::dataset::DataError;
use crate::decode::DecodeError;
use crate::preprocess::PreprocessError;

/// Why one image was not usable.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BadImageCause {
    /// It could not be read.
    #[error(transparent)]
    Read(#[from] DataError),
    /// It could not be decoded.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// It could not be brought to size.
    #[error(transparent)]
    Preprocess(#[from] PreprocessError),
    /// The transform before the preprocessing refused it.
    #[error(transparent)]
    Transform(TransformError),
    /// Its size differs from the other images' and the preprocessing does not change that.
    #[error("the image is {found} after preprocessing, but the others are {expected}")]
    Size {
        /// Its size.
        found: String,
        /// The batch's size.
        expected: String,
    },
    /// A border wider than the image.
    #[error("the image is {width} x {height}, too small for a border of {border}")]
    Border {
        /// Image width.
        width: usize,
        /// Image height.
        height: usize,
        /// Pixels to cut off each side.
        border: usize,
    },
    /// Decoding hit a bug.
    #[error("decoding stopped unexpectedly: {message}")]
    Panicked {
        /// What it said.
        message: String,
    },
}

/// An image that was not usable.
#[derive(Debug)]
pub struct BadImage {
    /// Its index in the dataset.
    pub index: usize,
    /// Its id.
    pub id: String,
    /// Why.
    pub cause: BadImageCause,
}

impl std::fmt::Display for BadImage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "`{}`: {}", self.id, self.cause)
    }
}

/// Why loading stopped or did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// A setting is out of range.
    #[error("`{field}` is {found}, but 1 to {most} are allowed")]
    OutOfRange {
        /// The setting.
        field: &'static str,
        /// What it was set to.
        found: usize,
        /// The largest value allowed.
        most: usize,
    },
    /// The preprocessing cannot work.
    #[error("the preprocessing was refused")]
    Preprocess {
        /// Why.
        #[source]
        source: PreprocessError,
    },
    /// A stream was to be shuffled.
    #[error("the order of a stream is part of the data, but shuffling was asked for")]
    ShuffledStream,
    /// Bad images, and they were not to be skipped.
    #[error("{count} unusable images, such as {}", first_of(bad))]
    BadImages {
        /// The first of them.
        bad: Vec<BadImage>,
        /// How many there were in what had been prepared.
        count: usize,
    },
}

fn first_of(bad: &[BadImage]) -> String {
    bad.first().map(ToString::to_string).unwrap_or_default()
}

impl LoadError {
    /// What the user can do about it, where there is something.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::BadImages { .. } => Some("repair or remove the files, or skip them with `--on-bad-image skip`"),
            Self::ShuffledStream => Some("read it in stored order"),
            _ => None,
        }
    }
}
