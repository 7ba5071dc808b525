//! The norm layers' state on the device.

use crate::device::{Device, DeviceMemory, DeviceSlice};
use crate::error::CudaError;
use crate::launch::norm::Tables;
use crate::precision::Element;
use flipcast_executor::NormStatistics;
use flipcast_graph::{AffineEntry, NormKind, NormSlot};
use std::ops::Range;
use std::sync::Arc;

/// One norm layer.
#[derive(Debug)]
pub(crate) struct Norm {
    pub slot: NormSlot,
    /// Where its scale and shift lie in the flat vector.
    pub scale: Range<usize>,
    pub shift: Range<usize>,
    tables: DeviceMemory,
    table_len: usize,
    /// Running mean, then variance; for batch norms.
    running: Option<DeviceMemory>,
    source: Vec<f32>,
}

impl Norm {
    /// A norm planned for `images`; `running` is mean then variance of a batch norm, else empty.
    pub fn new(
        device: &Arc<Device>,
        slot: NormSlot,
        entry: &AffineEntry,
        images: usize,
        running: Vec<f32>,
    ) -> Result<Self, CudaError> {
        let table_len = match slot.layer.kind {
            NormKind::Batch => slot.layer.channels,
            NormKind::Layer => 0,
            _ => images * slot.layer.channels,
        };
        let batch = slot.layer.kind == NormKind::Batch;
        Ok(Self {
            slot,
            scale: entry.scale(),
            shift: entry.shift(),
            tables: device.allocate("norm tables", Element::F32, Tables::floats(table_len))?,
            table_len,
            running: batch.then(|| device.upload("running statistics", Element::F32, &running)).transpose()?,
            source: running,
        })
    }

    /// Its tables.
    pub fn tables(&self) -> Tables {
        Tables { slice: self.tables.slice(), len: self.table_len, per_image: self.slot.layer.kind != NormKind::Batch }
    }

    /// Running mean and variance of a batch norm.
    pub fn running(&self) -> Option<[DeviceSlice; 2]> {
        let both = self.running.as_ref()?.slice();
        Some([both.first(both.len / 2), both.part(both.len / 2..both.len)])
    }

    /// Makes the statistics that were last used the running ones, if this is a batch norm.
    pub fn absorb(&self, device: &Device) -> Result<(), CudaError> {
        if let Some([mean, variance]) = self.running() {
            device.copy(self.tables().centre(), mean)?;
            device.copy(self.tables().variance(), variance)?;
        }
        Ok(())
    }

    /// Restores the running statistics of the weights.
    pub fn restore(&self, device: &Device) -> Result<(), CudaError> {
        match &self.running {
            Some(running) => device.copy_in(running.slice(), crate::device::bytes_of(&self.source)),
            None => Ok(()),
        }
    }
}

/// How batch norms use the running statistics: their share, and whether the batch's variance is unbiased.
pub(crate) fn mixture(with: NormStatistics) -> (f32, bool) {
    match with {
        NormStatistics::Running => (1.0, false),
        NormStatistics::Batch => (0.0, false),
        NormStatistics::Mixed { source_weight } => (source_weight, true),
    }
}

/// How much of mean and variance comes from the batch, per value, when `count` values share them.
pub(crate) fn of_batch(with: NormStatistics, count: usize) -> [f32; 2] {
    let count = count as f32;
    match with {
        NormStatistics::Running => [0.0, 0.0],
        NormStatistics::Batch => [1.0 / count, 1.0 / count],
        NormStatistics::Mixed { source_weight } => {
            [(1.0 - source_weight) / count, (1.0 - source_weight) / (count - 1.0)]
        }
    }
}
