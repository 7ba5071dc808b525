//! Cells that are already known, so that a run that was stopped goes on where it was.

use crate::RunError;
use crate::basis::{Basis, ScoreOptions};
use crate::calibration::ModelIdentity;
use crate::cell::{CellRequest, Setting};
use flipcast_images::loader::LoaderConfig;
use flipcast_record::results::Cell;
use flipcast_record::{Protocol, RecordFolder, RecordStore, RunRecord, Timing};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

/// Raised whenever a cell's numbers change for the same protocol.
const CELL_VERSION: u32 = 3;

/// Where cells are looked up and kept; nowhere without a store. Clones share what they hold.
#[derive(Clone, Default)]
pub struct Ledger {
    store: Option<Arc<Mutex<RecordStore>>>,
    others: Option<Arc<Mutex<RecordFolder>>>,
}

impl Ledger {
    /// Keeps cells in `store`.
    pub fn new(store: RecordStore) -> Self {
        Self { store: Some(Arc::new(Mutex::new(store))), others: None }
    }

    /// The same, but what `others` hold is not made again.
    pub fn beside(self, others: RecordFolder) -> Self {
        Self { others: Some(Arc::new(Mutex::new(others))), ..self }
    }

    /// Looks again at what others have written since.
    pub fn refresh(&self) -> Result<(), RunError> {
        match &self.others {
            Some(others) => Ok(lock(others).refresh()?),
            None => Ok(()),
        }
    }

    /// Every record, its own first.
    pub fn records(&self) -> Vec<RunRecord> {
        let mut all = Vec::new();
        if let Some(store) = &self.store {
            all.extend(lock(store).iter().cloned());
        }
        if let Some(others) = &self.others {
            all.extend(lock(others).iter().cloned());
        }
        all
    }

    /// The result kept for `protocol`.
    pub fn find<T: DeserializeOwned>(&self, protocol: &Protocol) -> Result<Option<T>, RunError> {
        let key = protocol.key();
        let own = self.store.as_ref();
        let own = own.and_then(|store| Some(lock(store).get(&key)?.result.clone()));
        let found = own.or_else(|| {
            let others = self.others.as_ref()?;
            Some(lock(others).get(&key)?.result.clone())
        });
        let Some(result) = found else {
            return Ok(None);
        };
        let result = serde_json::from_value(result);
        Ok(Some(result.map_err(|source| RunError::Record { key, source })?))
    }

    /// The cell kept for `protocol`, or what `make` gives, which is then kept.
    pub(crate) fn find_or_make(
        &mut self,
        protocol: Protocol,
        make: impl FnOnce() -> Result<Cell, RunError>,
    ) -> Result<Cell, RunError> {
        if let Some(cell) = self.find(&protocol)? {
            return Ok(cell);
        }
        let cell = make()?;
        self.keep(protocol, &cell, cell.seconds.total())?;
        Ok(cell)
    }

    /// Keeps a result as soon as it is known.
    pub fn keep(&mut self, protocol: Protocol, result: &impl Serialize, seconds: f64) -> Result<(), RunError> {
        let Some(store) = &self.store else {
            return Ok(());
        };
        let key = protocol.key();
        let value = serde_json::to_value(result).map_err(|source| RunError::Record { key, source })?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let timing = Timing { created: now.map_or(0, |time| time.as_secs()), seconds };
        lock(store).append(RunRecord::new(protocol, value, timing))?;
        Ok(())
    }
}

/// A record is appended whole or not at all, so that a thread that panicked leaves nothing half done.
fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Everything that defines the numbers of a cell.
pub fn cell_protocol(
    kind: &str,
    setting: &Setting,
    request: &CellRequest,
    options: &ScoreOptions,
) -> Result<Protocol, RunError> {
    let limit = request.config.limit.unwrap_or(usize::MAX);
    let protocol = Protocol::new(kind)
        .with("version", &CELL_VERSION)?
        .with("model", &ModelIdentity::of(setting.model))?
        .with("preprocess", request.preprocess)?
        .with("class_space", &request.scope.name())?
        .with("data", &request.data)?
        .with("images", &request.dataset.len().min(limit))?
        .with("seed", &request.seed)?
        .with("options", options)?
        .with("flips", setting.protocol)?;
    with_storage(setting.device.describe(protocol)?, &request.config)
}

/// `protocol` with the storage step of a corruption made in memory. There is no field where there is no such step, as in
/// records from before there was one.
pub fn with_storage(protocol: Protocol, config: &LoaderConfig) -> Result<Protocol, RunError> {
    match config.change.as_ref().and_then(|change| change.storage()) {
        Some(storage) => Ok(protocol.with("storage", &storage)?),
        None => Ok(protocol),
    }
}

/// The same for a cell whose scores rest on `basis`.
pub fn scored_protocol(
    kind: &str,
    setting: &Setting,
    request: &CellRequest,
    basis: &Basis,
) -> Result<Protocol, RunError> {
    let key = Protocol::new("basis").with("basis", basis)?.key();
    Ok(cell_protocol(kind, setting, request, &basis.options)?.with("basis", &key)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use flipcast_corrupt::{CorruptionStep, Corruptor, Storage};
    use flipcast_images::preprocess::{Normalise, Preprocess};

    #[test]
    fn only_a_storage_step_that_changes_pixels_is_part_of_a_protocol() {
        let clean = LoaderConfig::new(Preprocess::normalise_only(Normalise::imagenet()));
        let stored = |storage| {
            let corruptor = Arc::new(Corruptor::new(1).with_storage(storage));
            CorruptionStep::join(clean.clone(), "fog:1".parse().unwrap(), corruptor)
        };
        let key = |config: &LoaderConfig| with_storage(Protocol::new("cell"), config).unwrap();
        assert_eq!(key(&stored(Storage::None)).key(), key(&clean).key());
        let jpeg = key(&stored(Storage::Jpeg85));
        assert_ne!(jpeg.key(), key(&clean).key());
        assert_eq!(jpeg.get("storage"), Some(&serde_json::json!("jpeg85")));
    }
}
