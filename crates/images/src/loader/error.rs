use flipcast_ground::Hint;

use super::TransformError;
use crate::dataset::DataError;
use crate::decode::DecodeError;
use crate::preprocess::{PreprocessError, Size};

/// Why one image was not usable.
#[derive(Debug, thiserror::Error)]
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
    /// Its size differs from what the preprocessing or the images before it lead to.
    #[error("the image is {found} pixels after preprocessing, but {expected} like the images before it were expected")]
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
    /// An image that a store did not give, whether bad images are skipped or not.
    #[error("an image is there but did not arrive")]
    Lost {
        /// Why.
        #[source]
        source: DataError,
    },
    /// Images that come in more than one size and are not brought to one.
    #[error("the images come in more than one size: `{first}` is {first_size} pixels after preprocessing, `{other}` {other_size}{}", usual_text(*usual))]
    MixedSizes {
        /// The first image.
        first: Box<str>,
        /// Its size.
        first_size: Box<str>,
        /// The first of another size.
        other: Box<str>,
        /// Its size.
        other_size: Box<str>,
        /// The size that the network usually takes, if known.
        usual: Option<Size>,
    },
    /// Bad images, and they were not to be skipped.
    #[error("{count} unusable images, such as {}", first_of(bad))]
    BadImages {
        /// The first of them.
        bad: Vec<BadImage>,
        /// How many there were in what had been prepared.
        count: usize,
    },
}

fn usual_text(usual: Option<Size>) -> String {
    usual.map_or_else(String::new, |size| format!("; the network usually takes {} x {}", size.width, size.height))
}

fn first_of(bad: &[BadImage]) -> String {
    bad.first().map(ToString::to_string).unwrap_or_default()
}

impl Hint for LoadError {
    fn hint(&self) -> Option<String> {
        match self {
            Self::MixedSizes { .. } => Some("bring all images to one size".to_owned()),
            Self::BadImages { bad, .. } => {
                let cause = bad.first().and_then(|bad| match &bad.cause {
                    BadImageCause::Decode(cause @ DecodeError::NotRead { .. }) => cause.hint(),
                    _ => None,
                });
                Some(cause.unwrap_or_else(|| "repair or remove the files, or skip images that cannot be read".into()))
            }
            Self::ShuffledStream => Some("read it in stored order".into()),
            Self::Preprocess { .. } | Self::OutOfRange { .. } | Self::Lost { .. } => None,
        }
    }
}
