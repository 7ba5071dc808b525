use std::sync::Arc;
use std::thread::JoinHandle;

use flipcast_tensor::{Batch, BatchMemory, ByteScale};

use super::queue::{Outcome, Queue};
use super::worker::{Prepared, PreparedPixels, work};
use super::{BadImage, BadImageCause, LoadError, LoaderConfig, OnBadImage, Order};
use crate::Label;
use crate::dataset::{DataError, Dataset};
use crate::preprocess::Size;

/// Most bad images that are named; more are only counted.
const MAX_NAMED: usize = 100;

/// A batch and what belongs to its images.
#[derive(Debug)]
pub struct LoadedBatch {
    /// The pixels, channels-last.
    pub batch: Batch,
    /// Each image's index in the dataset.
    pub indices: Vec<usize>,
    /// Each image's id.
    pub ids: Vec<String>,
    /// Each image's label.
    pub labels: Vec<Label>,
}

/// The images that were left out.
#[derive(Debug, Default)]
pub struct Skipped {
    /// How many.
    pub count: usize,
    /// The first of them.
    pub named: Vec<BadImage>,
}

/// Gives the batches of a dataset, in an order that depends on the configuration alone.
///
/// ```
/// use flipcast_images::dataset::InMemory;
/// use flipcast_images::loader::{Loader, LoaderConfig};
/// use flipcast_images::preprocess::{Normalise, Preprocess};
/// use flipcast_images::{Image, Label};
/// use std::sync::Arc;
///
/// let grey = Image::new(8, 8, vec![128; 8 * 8 * 3]).expect("three bytes a pixel");
/// let dataset = Arc::new(InMemory::new((0..5).map(|i| (grey.clone(), Label::Class(i)))));
/// let preprocess = Preprocess::normalise_only(Normalise::half());
/// let config = LoaderConfig { batch_size: 2, ..LoaderConfig::new(preprocess) };
/// let sizes: Result<Vec<usize>, _> = Loader::new(dataset, config)?.map(|batch| Ok(batch?.labels.len())).collect();
/// assert_eq!(sizes.map_err(|error: flipcast_images::loader::LoadError| error)?, [2, 2, 1]);
/// # Ok::<(), flipcast_images::loader::LoadError>(())
/// ```
pub struct Loader {
    dataset: Arc<dyn Dataset>,
    batch_size: usize,
    on_bad_image: OnBadImage,
    queue: Arc<Queue>,
    workers: Vec<JoinHandle<()>>,
    /// The size every image must have: fixed by the preprocessing, or the first image's.
    size: Option<Size>,
    /// The first image's index.
    first: Option<usize>,
    /// The size that the network usually takes, if known.
    usual_size: Option<Size>,
    skipped: Skipped,
    /// What the bytes of images stand for, if batches hold bytes.
    scale: Option<Arc<ByteScale>>,
    /// Memory of a used batch.
    spare: BatchMemory,
    samples: usize,
    finished: bool,
}

impl Loader {
    /// Starts the workers.
    pub fn new(dataset: Arc<dyn Dataset>, config: LoaderConfig) -> Result<Self, LoadError> {
        config.check()?;
        if dataset.is_stream() && config.order != Order::Stored {
            return Err(LoadError::ShuffledStream);
        }
        let mut order = config.order.indices(dataset.len());
        order.truncate(config.limit.unwrap_or(usize::MAX));
        let samples = order.len();
        let queue = Arc::new(Queue::new(order, config.prefetch));
        let (batch_size, on_bad_image) = (config.batch_size, config.on_bad_image);
        let (size, usual_size) = (config.preprocess.fixed_size(), config.usual_size);
        let scale = config.preprocess.byte_scale().map(Arc::new);
        let threads = config.threads.max(dataset.reads_at_once()).min(samples);
        let config = Arc::new(config);
        let worker = |_| {
            let (dataset, config, queue) = (dataset.clone(), config.clone(), queue.clone());
            std::thread::spawn(move || work(&dataset, &config, &queue))
        };
        let workers = (0..threads).map(worker).collect();
        Ok(Self {
            dataset,
            batch_size,
            on_bad_image,
            queue,
            workers,
            size,
            first: None,
            usual_size,
            skipped: Skipped::default(),
            scale,
            spare: BatchMemory::default(),
            samples,
            finished: false,
        })
    }

    /// Samples that will be visited, bad ones included.
    pub fn samples(&self) -> usize {
        self.samples
    }

    /// The images left out so far.
    pub fn skipped(&self) -> &Skipped {
        &self.skipped
    }

    /// Takes back a used batch, so that its memory is filled again.
    pub fn recycle(&mut self, batch: Batch) {
        self.spare = batch.into_memory();
    }

    /// The next batch, `None` at the end. After an error there are no more.
    pub fn next_batch(&mut self) -> Result<Option<LoadedBatch>, LoadError> {
        let BatchMemory { mut values, mut bytes } = std::mem::take(&mut self.spare);
        values.clear();
        bytes.clear();
        let (mut indices, mut ids, mut labels) = (Vec::new(), Vec::new(), Vec::new());
        while indices.len() < self.batch_size && !self.finished {
            let Some((index, outcome)) = self.queue.next() else {
                self.finished = true;
                break;
            };
            match self.admit(outcome) {
                Ok(image) => {
                    self.first.get_or_insert(index);
                    match image.pixels {
                        PreparedPixels::Bytes(image) => bytes.extend_from_slice(&image),
                        PreparedPixels::Values(image) => {
                            values.extend_from_slice(&image);
                            self.queue.give_back(image);
                        }
                    }
                    indices.push(index);
                    ids.push(image.id);
                    labels.push(image.label);
                }
                Err(cause) => self.note(index, cause)?,
            }
        }
        let Some(size) = self.size.filter(|_| !indices.is_empty()) else {
            return Ok(None);
        };
        let shape = [indices.len(), size.height, size.width, 3];
        let batch = match &self.scale {
            Some(scale) => Batch::from_bytes(shape, bytes, scale, values),
            None => Batch::new(shape, values),
        };
        let batch = batch.expect("every image had the size of the batch");
        Ok(Some(LoadedBatch { batch, indices, ids, labels }))
    }

    /// Passes an image on if it has the size of the others.
    fn admit(&mut self, outcome: Outcome) -> Result<Prepared, BadImageCause> {
        let image = outcome?;
        let expected = *self.size.get_or_insert(image.size);
        if image.size != expected {
            let text = |s: Size| format!("{} x {}", s.width, s.height);
            return Err(BadImageCause::Size { found: text(image.size), expected: text(expected) });
        }
        Ok(image)
    }

    /// Counts a bad image, or stops with it and those already prepared behind it.
    fn note(&mut self, index: usize, cause: BadImageCause) -> Result<(), LoadError> {
        // A store that does not answer says nothing about its images; leaving these out would change what is measured.
        if let BadImageCause::Read(source @ DataError::Store { .. }) = cause {
            self.finished = true;
            return Err(LoadError::Lost { source });
        }
        if self.on_bad_image == OnBadImage::Skip {
            self.count(index, cause);
            return Ok(());
        }
        self.finished = true;
        if let (BadImageCause::Size { found, expected }, Some(first)) = (&cause, self.first) {
            // Neither size is wrong, so no image is to blame.
            return Err(LoadError::MixedSizes {
                first: self.dataset.id(first).into(),
                first_size: expected.as_str().into(),
                other: self.dataset.id(index).into(),
                other_size: found.as_str().into(),
                usual: self.usual_size,
            });
        }
        self.count(index, cause);
        for (index, outcome) in self.queue.drain() {
            if let Err(cause) = self.admit(outcome) {
                self.count(index, cause);
            }
        }
        let skipped = std::mem::take(&mut self.skipped);
        Err(LoadError::BadImages { bad: skipped.named, count: skipped.count })
    }

    fn count(&mut self, index: usize, cause: BadImageCause) {
        self.skipped.count += 1;
        if self.skipped.named.len() < MAX_NAMED {
            let id = self.dataset.id(index);
            self.skipped.named.push(BadImage { index, id, cause });
        }
    }
}

impl Iterator for Loader {
    type Item = Result<LoadedBatch, LoadError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_batch().transpose()
    }
}

impl Drop for Loader {
    fn drop(&mut self) {
        self.queue.close();
        for worker in self.workers.drain(..) {
            // A worker catches panics of its own, so there is nothing to hear from it.
            let _ = worker.join();
        }
    }
}
