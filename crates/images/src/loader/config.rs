use std::error::Error;
use std::sync::Arc;

use flipcast_tensor::ByteChange;

use super::{LoadError, Order};
use crate::Image;
use crate::decode::DecodeOptions;
use crate::preprocess::{Preprocess, Size};

/// Why a transform refused an image.
pub type TransformError = Box<dyn Error + Send + Sync>;

/// Applied to each decoded image before preprocessing, with the image's index in the data as stored. Its result may
/// depend on nothing else, so that batches stay independent of the threads. An error makes the image a bad one.
pub type Transform = Arc<dyn Fn(usize, Image) -> Result<Image, TransformError> + Send + Sync>;

/// What to do about an image that cannot be used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnBadImage {
    /// Stop, naming the bad image and the bad ones among the next `prefetch` images.
    #[default]
    Fail,
    /// Leave it out, count it and name it; later images move up.
    Skip,
}

/// How a dataset is turned into batches.
#[derive(Clone)]
pub struct LoaderConfig {
    /// Images per batch; the last batch may be smaller.
    pub batch_size: usize,
    /// Worker threads.
    pub threads: usize,
    /// Images prepared ahead of the consumer at most.
    pub prefetch: usize,
    /// The order of the samples.
    pub order: Order,
    /// Stop after this many samples of the order.
    pub limit: Option<usize>,
    /// What to do about bad images.
    pub on_bad_image: OnBadImage,
    /// Pixels cut off on every side after decoding, for datasets with a drawn border.
    pub border: usize,
    /// Limits and rotation.
    pub decode: DecodeOptions,
    /// The weights' rule.
    pub preprocess: Preprocess,
    /// The size that the network usually takes, where it is known: for advice alone.
    pub usual_size: Option<Size>,
    /// What happens to each image between decoding and preprocessing.
    pub transform: Option<Transform>,
    /// What happens to the bytes of each image once they have their size, before they become values. It gets the index of
    /// [`Transform`], and its errors are treated alike.
    pub change: Option<Arc<dyn ByteChange>>,
}

impl LoaderConfig {
    /// Batches of 64 in stored order, one thread per core, two batches ahead.
    pub fn new(preprocess: Preprocess) -> Self {
        let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
        Self {
            batch_size: 64,
            threads,
            prefetch: 128,
            order: Order::Stored,
            limit: None,
            on_bad_image: OnBadImage::Fail,
            border: 0,
            decode: DecodeOptions::default(),
            preprocess,
            usual_size: None,
            transform: None,
            change: None,
        }
    }

    /// Refuses settings that cannot work.
    pub fn check(&self) -> Result<(), LoadError> {
        let ranges = [
            ("batch_size", self.batch_size, 65_536),
            ("threads", self.threads, 1024),
            ("prefetch", self.prefetch, 1 << 20),
        ];
        for (field, found, most) in ranges {
            if !(1..=most).contains(&found) {
                return Err(LoadError::OutOfRange { field, found, most });
            }
        }
        self.preprocess.check().map_err(|source| LoadError::Preprocess { source })
    }
}
