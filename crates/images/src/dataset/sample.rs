use super::{DataError, Ignored, Layout};
use crate::decode::{DecodeError, DecodeOptions, decode_with};
use crate::{Image, Label};

/// The picture of a sample: still encoded, or stored as pixels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Payload {
    /// The bytes of an image file.
    Encoded(Vec<u8>),
    /// Pixels.
    Pixels(Image),
}

impl Payload {
    /// The pixels, decoding if needed.
    pub fn into_image(self, options: &DecodeOptions) -> Result<Image, DecodeError> {
        match self {
            Self::Encoded(bytes) => decode_with(&bytes, options),
            Self::Pixels(image) => Ok(image),
        }
    }
}

/// One element of a dataset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Names the sample within its dataset: a path, a shard and key, a row number.
    pub id: String,
    /// The picture.
    pub payload: Payload,
    /// The answer, if there is one.
    pub label: Label,
}

/// A numbered list of samples that can be read in any order and from several threads.
pub trait Dataset: Send + Sync {
    /// How it is stored.
    fn layout(&self) -> Layout;

    /// Number of samples.
    fn len(&self) -> usize;

    /// Whether there are no samples.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Names of the classes in label order; empty when the labels are unnamed or absent. A class number that no folder has
    /// has an empty name.
    fn classes(&self) -> &[String];

    /// The id of sample `index`, without reading it.
    fn id(&self, index: usize) -> String;

    /// The label of sample `index`, without its picture where labels are stored apart from it.
    fn label(&self, index: usize) -> Result<Label, DataError> {
        self.sample(index).map(|sample| sample.label)
    }

    /// Reads sample `index`, which must be below `len`.
    fn sample(&self, index: usize) -> Result<Sample, DataError>;

    /// The index of sample `index` in the data as stored, which differs in a subset. Random corruptions are drawn by
    /// it, so an image looks the same in every subset.
    fn stored_index(&self, index: usize) -> usize {
        index
    }

    /// The files that lie beside the images and are not read.
    fn ignored(&self) -> &Ignored {
        static NONE: Ignored = Ignored::none();
        &NONE
    }

    /// How many samples are worth reading at once, where reading is mostly waiting.
    fn reads_at_once(&self) -> usize {
        1
    }

    /// Whether the stored order is part of the data, so that shuffling would change what is measured.
    fn is_stream(&self) -> bool {
        false
    }
}
