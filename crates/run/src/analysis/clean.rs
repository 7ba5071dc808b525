use super::groups::{Groups, Restriction};
use super::observer::Observer;
use super::subject::{open_some, sample};
use crate::flips::even_chunk;
use crate::{CellRequest, Device, RunError, Watcher};
use flipcast_estimate::embed::{Centres, class_means};
use flipcast_exec::NormMode;
use flipcast_graph::Purpose;
use flipcast_models::Model;
use serde::Serialize;
use std::cell::OnceCell;

/// How the class means of clean images are made.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct CleanSettings {
    /// Images used, at most.
    pub images: usize,
    /// Statistics of batch norms. Those the method adapts with put the means where the method sees them; the paper leaves
    /// this open.
    pub statistics: NormMode,
    /// Images that share batch statistics, at most.
    pub chunk: usize,
    /// Which classes, and which count as one.
    pub restriction: Restriction,
}

/// Labelled clean images, and where the source model puts their classes. Means are made when they are first asked for.
pub struct Clean<'a> {
    model: &'a Model,
    device: Device,
    request: CellRequest<'a>,
    settings: CleanSettings,
    means: OnceCell<SourceMeans>,
}

/// Where the source model puts classes.
#[derive(Clone, Debug, PartialEq)]
pub struct SourceMeans {
    /// The mean embedding of each class that has images.
    pub centres: Centres,
    /// The class, or group of classes, of each mean; ascending.
    pub groups: Vec<usize>,
}

/// What of it belongs into a protocol.
#[derive(Serialize)]
pub(super) struct CleanProtocol {
    data: String,
    seed: u64,
    available: usize,
    #[serde(flatten)]
    settings: CleanSettings,
}

impl<'a> Clean<'a> {
    /// The images of `request` as the source model sees them.
    pub fn new(model: &'a Model, device: Device, request: CellRequest<'a>, settings: CleanSettings) -> Self {
        Self { model, device, request, settings, means: OnceCell::new() }
    }

    pub(super) fn protocol(&self) -> CleanProtocol {
        let limit = self.request.config.limit.unwrap_or(usize::MAX);
        CleanProtocol {
            data: self.request.data.clone(),
            seed: self.request.seed,
            available: self.request.dataset.len().min(limit),
            settings: self.settings,
        }
    }

    /// The class means.
    pub fn means(&self, watcher: &mut dyn Watcher) -> Result<&SourceMeans, RunError> {
        if let Some(means) = self.means.get() {
            return Ok(means);
        }
        let means = self.make(watcher)?;
        Ok(self.means.get_or_init(|| means))
    }

    fn make(&self, watcher: &mut dyn Watcher) -> Result<SourceMeans, RunError> {
        let CellRequest { scope, seed, .. } = self.request;
        let groups = Groups::new(self.settings.restriction, scope)?;
        let chosen = sample(&self.request, self.settings.images, &groups, |group| groups.takes(group))?;
        let images = open_some(&self.request, chosen)?;
        let count = images.len();
        watcher.predicted(0, count);
        let chunk = even_chunk(count, self.settings.chunk);
        let mut observer = Observer {
            images: &images,
            len: count,
            chunk,
            scope,
            seed,
            mode: self.settings.statistics,
            threads: self.request.config.threads,
            net: self.device.network(self.model, Purpose::Predict, chunk)?,
        };
        let seen = observer.observe(None)?;
        watcher.predicted(count, count);
        let of = |label| groups.of(scope, label);
        let found: Vec<Option<usize>> = seen.labels.iter().map(of).collect();
        let unlabelled = found.iter().filter(|group| group.is_none()).count();
        if unlabelled > 0 {
            return Err(RunError::Unlabelled { unlabelled, images: found.len() });
        }
        let found: Vec<usize> = found.into_iter().flatten().collect();
        let mut present = found.clone();
        present.sort_unstable();
        present.dedup();
        let ranks: Vec<usize> = found.iter().map(|group| present.partition_point(|other| other < group)).collect();
        Ok(SourceMeans { centres: class_means(&seen.embeddings, &ranks, present.len())?, groups: present })
    }
}
