//! Cells that are already known, so that a run that was stopped goes on where it was.

use crate::RunError;
use crate::basis::{Basis, ScoreOptions};
use crate::calibration::ModelIdentity;
use crate::cell::{CellRequest, Setting};
use flipcast_images::loader::LoaderConfig;
use flipcast_record::{Claim, Protocol, RecordFolder, RecordStore, RunRecord, Timing};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

/// Raised whenever a cell's numbers change for the same protocol.
const CELL_VERSION: u32 = 4;

/// Where cells are looked up and kept; nowhere without a store. Clones share what they hold.
#[derive(Clone, Default)]
pub struct Ledger {
    store: Option<Arc<Mutex<RecordStore>>>,
    others: Option<Arc<Mutex<RecordFolder>>>,
    /// Results by key, for as long as the ledger is there.
    memory: Option<Arc<Mutex<HashMap<String, Value>>>>,
}

impl Ledger {
    /// Keeps cells in `store`.
    pub fn new(store: RecordStore) -> Self {
        Self { store: Some(Arc::new(Mutex::new(store))), ..Self::default() }
    }

    /// Keeps results for as long as the ledger is there, and in no file.
    pub fn in_memory() -> Self {
        Self { memory: Some(Arc::default()), ..Self::default() }
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

    /// Claims what `protocol` defines, so that others who share the records leave it to this run; `None` while one of them makes it.
    pub fn claim(&self, protocol: &Protocol) -> Option<Claim> {
        match &self.others {
            Some(others) => lock(others).claim(&protocol.key()),
            None => Some(Claim::alone()),
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
        let found = found.or_else(|| lock(self.memory.as_ref()?).get(&key).cloned());
        let Some(result) = found else {
            return Ok(None);
        };
        let result = serde_json::from_value(result);
        Ok(Some(result.map_err(|source| RunError::Record { key, source })?))
    }

    /// Keeps a result as soon as it is known.
    pub fn keep(&mut self, protocol: Protocol, result: &impl Serialize, seconds: f64) -> Result<(), RunError> {
        if self.store.is_none() && self.memory.is_none() {
            return Ok(());
        }
        let key = protocol.key();
        let to_value = serde_json::to_value(result);
        let value = to_value.map_err(|source| RunError::Record { key: key.clone(), source })?;
        if let Some(memory) = &self.memory {
            lock(memory).insert(key, value.clone());
        }
        let Some(store) = &self.store else {
            return Ok(());
        };
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
    fn a_ledger_in_memory_gives_back_what_it_was_given_and_one_without_a_store_does_not() {
        let protocol = Protocol::new("cell");
        for (ledger, expected) in [(Ledger::in_memory(), Some(0.1)), (Ledger::default(), None)] {
            ledger.clone().keep(protocol.clone(), &0.1, 1.0).unwrap();
            assert_eq!(ledger.find::<f64>(&protocol).unwrap(), expected);
        }
    }

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
