use super::AdaptJob;
use crate::RunError;
use flipcast_images::dataset::Dataset;
use flipcast_images::loader::{LoadedBatch, Loader, LoaderConfig, Order};
use flipcast_tensor::Batch;
use std::sync::Arc;

/// The batches of all passes over a dataset. A last batch that is too small for statistics of its own is put to the
/// one before it.
pub(super) struct Batches {
    dataset: Arc<dyn Dataset>,
    config: LoaderConfig,
    passes: Option<usize>,
    smallest: usize,
    /// Passes begun.
    begun: usize,
    loader: Option<Loader>,
    /// Read ahead, to see whether it is the last and too small.
    ahead: Option<LoadedBatch>,
    /// Images left out in passes that are over.
    skipped: usize,
}

impl Batches {
    pub fn new(job: &AdaptJob<'_>, smallest: usize) -> Result<Self, RunError> {
        if job.loader.batch_size < smallest {
            return Err(RunError::Setting {
                setting: "batch size",
                found: job.loader.batch_size,
                expected: "at least 2 for a method that normalises with the statistics of the batch",
            });
        }
        Ok(Self {
            dataset: job.dataset.clone(),
            config: job.loader.clone(),
            passes: job.passes(),
            smallest,
            begun: 0,
            loader: None,
            ahead: None,
            skipped: 0,
        })
    }

    /// Images of the largest batch there can be.
    pub fn largest(&self) -> usize {
        let images = self.config.limit.unwrap_or(usize::MAX);
        let most = self.config.batch_size + self.smallest - 1;
        most.min(images).min(self.dataset.len()).max(1)
    }

    /// Images of all passes, if their number is fixed.
    pub fn total(&self) -> Option<usize> {
        let images = self.config.limit.unwrap_or(usize::MAX);
        Some(self.passes? * images.min(self.dataset.len()))
    }

    /// Images left out so far.
    pub fn skipped(&self) -> usize {
        let now = self.loader.as_ref().map_or(0, |l| l.skipped().count);
        self.skipped + now
    }

    /// The next batch, `None` after the last pass.
    pub fn next(&mut self) -> Result<Option<LoadedBatch>, RunError> {
        loop {
            if self.loader.is_none() {
                if self.passes.is_some_and(|passes| self.begun >= passes) {
                    return Ok(None);
                }
                self.begin()?;
            }
            let read = match self.ahead.take() {
                Some(batch) => Some(batch),
                None => self.read()?,
            };
            let Some(batch) = read else {
                self.skipped = self.skipped();
                self.loader = None;
                continue;
            };
            return self.settle(batch).map(Some);
        }
    }

    /// Starts the next pass.
    fn begin(&mut self) -> Result<(), RunError> {
        let mut config = self.config.clone();
        if let Order::Shuffled { seed } = config.order {
            let seed = seed.wrapping_add(self.begun as u64);
            config.order = Order::Shuffled { seed };
        }
        self.begun += 1;
        self.loader = Some(Loader::new(self.dataset.clone(), config)?);
        // Without this a dataset of nothing but bad images would be passed over for ever.
        self.ahead = self.read()?;
        match self.ahead {
            Some(_) => Ok(()),
            None => Err(RunError::NoImages),
        }
    }

    fn read(&mut self) -> Result<Option<LoadedBatch>, RunError> {
        match &mut self.loader {
            Some(loader) => Ok(loader.next_batch()?),
            None => Ok(None),
        }
    }

    /// `batch`, with the next one if that is too small to stand alone.
    fn settle(&mut self, batch: LoadedBatch) -> Result<LoadedBatch, RunError> {
        if self.smallest < 2 {
            return Ok(batch);
        }
        let batch = match self.read()? {
            Some(next) if next.indices.len() < self.smallest => join(batch, next),
            next => {
                self.ahead = next;
                batch
            }
        };
        if batch.indices.len() < self.smallest {
            return Err(RunError::Setting {
                setting: "number of images",
                found: batch.indices.len(),
                expected: "at least 2 for a method that normalises with the statistics of the batch",
            });
        }
        Ok(batch)
    }
}

fn join(mut first: LoadedBatch, second: LoadedBatch) -> LoadedBatch {
    let images = first.batch.images() + second.batch.images();
    let extents = [images, first.batch.height(), first.batch.width(), first.batch.channels()];
    let joined = match (first.batch.bytes(), second.batch.bytes()) {
        (Some((bytes, scale)), Some((more, _))) => {
            Batch::from_bytes(extents, [bytes, more].concat(), scale, Vec::new())
        }
        _ => {
            let values = [first.batch.values(), second.batch.values()].concat();
            Batch::new(extents, values)
        }
    };
    first.indices.extend(second.indices);
    first.ids.extend(second.ids);
    first.labels.extend(second.labels);
    LoadedBatch { batch: joined.expect("a loader's images have one size"), ..first }
}
