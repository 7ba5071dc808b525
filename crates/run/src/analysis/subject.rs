use super::groups::Groups;
use crate::calibration::ModelIdentity;
use crate::flips::even_chunk;
use crate::images::Images;
use crate::ledger::with_storage;
use crate::{CellRequest, Device, RunError};
use flipcast_adapt::MethodConfig;
use flipcast_images::dataset::{Dataset, Subset};
use flipcast_images::loader::{LoaderConfig, Order};
use flipcast_models::Model;
use flipcast_record::Protocol;
use std::sync::Arc;

/// Raised whenever an analysis gives other numbers for the same protocol.
const VERSION: u32 = 1;

/// What an analysis is about: a network, a way of adapting it, and images.
pub struct Subject<'a> {
    /// The network.
    pub model: &'a Model,
    /// The images. Their seed is also that of shuffles, samples and the method.
    pub request: CellRequest<'a>,
    /// How it adapts.
    pub method: &'a MethodConfig,
    /// Images of an adaptation step; a smaller dataset is one batch.
    pub batch_size: usize,
    /// Images that share batch statistics when they are only predicted, at most.
    pub chunk: usize,
    /// Where it runs.
    pub device: Device,
}

impl Subject<'_> {
    /// Refuses what cannot work.
    pub(super) fn check(&self) -> Result<(), RunError> {
        at_least("batch size", self.batch_size, 2, "at least 2")?;
        at_least("chunk", self.chunk, 2, "at least 2")?;
        self.method.check()?;
        if self.method.needs_clean() {
            return Err(RunError::Setting {
                setting: "number of clean images for the method",
                found: 0,
                expected: "a method that needs none, such as `eta`",
            });
        }
        Ok(())
    }

    /// What every analysis of this subject depends on.
    pub(super) fn protocol(&self, kind: &str) -> Result<Protocol, RunError> {
        let request = &self.request;
        let protocol = Protocol::new(kind)
            .with("version", &VERSION)?
            .with("model", &ModelIdentity::of(self.model))?
            .with("data", &request.data)?
            .with("preprocess", request.preprocess)?
            .with("class_space", &request.scope.name())?
            .with("images", &self.images())?
            .with("seed", &request.seed)?
            .with("method", self.method)?
            .with("batch_size", &self.batch_size)?
            .with("chunk", &self.chunk)?;
        with_storage(self.device.describe(protocol)?, &request.config)
    }

    /// Number of images.
    pub(super) fn images(&self) -> usize {
        let limit = self.request.config.limit.unwrap_or(usize::MAX);
        self.request.dataset.len().min(limit)
    }

    /// All images.
    pub(super) fn open(&self) -> Result<Images, RunError> {
        let request = &self.request;
        Images::open(request.dataset.clone(), request.config.clone(), request.memory_limit)
    }

    /// The images at `indices` of the dataset.
    pub(super) fn open_some(&self, indices: Vec<usize>) -> Result<Images, RunError> {
        open_some(&self.request, indices)
    }

    /// Up to `most` images whose group `wanted` accepts, drawn by the seed; `groups` may be asked about labels.
    pub(super) fn sample(
        &self,
        most: usize,
        groups: &Groups,
        wanted: impl Fn(Option<usize>) -> bool,
    ) -> Result<Vec<usize>, RunError> {
        sample(&self.request, most, groups, wanted)
    }

    /// The size of even chunks of `images`.
    pub(super) fn chunk_of(&self, images: usize) -> usize {
        even_chunk(images, self.chunk)
    }
}

/// The images at `indices` of a dataset.
pub(super) fn open_some(request: &CellRequest, indices: Vec<usize>) -> Result<Images, RunError> {
    let dataset: Arc<dyn Dataset> = Arc::new(Subset::new(request.dataset.clone(), indices)?);
    let config = LoaderConfig { limit: None, ..request.config.clone() };
    Images::open(dataset, config, request.memory_limit)
}

/// Up to `most` images whose group `wanted` accepts, drawn by the seed, in stored order.
pub(super) fn sample(
    request: &CellRequest,
    most: usize,
    groups: &Groups,
    wanted: impl Fn(Option<usize>) -> bool,
) -> Result<Vec<usize>, RunError> {
    let limit = request.config.limit.unwrap_or(usize::MAX);
    let images = request.dataset.len().min(limit);
    let mut chosen = Vec::new();
    let order = Order::Shuffled { seed: request.seed };
    for index in order.indices(images) {
        if chosen.len() == most {
            break;
        }
        let label = request.dataset.label(index)?;
        if wanted(groups.of(request.scope, &label)) {
            chosen.push(index);
        }
    }
    if chosen.is_empty() {
        return Err(RunError::NoImages);
    }
    chosen.sort_unstable();
    Ok(chosen)
}

/// Refuses a `setting` below `least`.
pub(super) fn at_least(
    setting: &'static str,
    found: usize,
    least: usize,
    expected: &'static str,
) -> Result<(), RunError> {
    if found >= least {
        return Ok(());
    }
    Err(RunError::Setting { setting, found, expected })
}
