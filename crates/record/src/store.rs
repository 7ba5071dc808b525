use crate::atomic::sync_folder;
use crate::lines::read_records;
use crate::{RecordError, Records, RunRecord};
use flipcast_ground::is_special;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::Write;
use std::path::{Path, PathBuf};

/// A record file open for writing, by one run at a time.
///
/// A run asks [`contains`](RecordStore::contains) before it computes a result and calls
/// [`append`](RecordStore::append) as soon as it has one, so that after a kill at any moment the same command goes on
/// where it stopped.
///
/// ```
/// use flipcast_record::{Protocol, RecordStore, RunRecord, Timing};
/// use serde_json::json;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = std::env::temp_dir().join(format!("flipcast-doc-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder)?;
/// let path = folder.join("runs.jsonl");
/// let protocol = Protocol::new("estimate").with("data", &"photos")?;
/// let mut store = RecordStore::open(&path)?;
/// if !store.contains(&protocol.key()) {
///     let result = json!({"accuracy": 0.71});
///     store.append(RunRecord::new(protocol.clone(), result, Timing { created: 1_700_000_000, seconds: 2.5 }))?;
/// }
/// drop(store);
/// assert_eq!(RecordStore::open(&path)?.get(&protocol.key()).and_then(RunRecord::data), Some("photos"));
/// # std::fs::remove_dir_all(&folder)?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct RecordStore {
    path: PathBuf,
    file: File,
    /// Length of the whole records.
    end: u64,
    records: Records,
}

impl RecordStore {
    /// Opens or makes the file at `path`. The lock ends with the store; a record that an earlier run left cut off is
    /// removed.
    pub fn open(path: &Path) -> Result<Self, RecordError> {
        let write_error = |source| RecordError::Write { path: path.to_owned(), source };
        let is_new = !path.exists();
        let mut file = OpenOptions::new().read(true).append(true).create(true).open(path).map_err(write_error)?;
        // What is no plain file, such as `/dev/null`, keeps nothing that two runs could spoil.
        if !is_special(path) {
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    return Err(RecordError::InUse { path: path.to_owned() });
                }
                Err(TryLockError::Error(source)) => return Err(write_error(source)),
            }
        }
        let contents = read_records(path, &mut file)?;
        let length = file.metadata().map_err(write_error)?.len();
        if length > contents.whole {
            file.set_len(contents.whole).map_err(write_error)?;
        }
        let mut end = contents.whole;
        if contents.open_ended {
            file.write_all(b"\n").map_err(write_error)?;
            end += 1;
        }
        if is_new {
            sync_folder(path);
        }
        Ok(Self { path: path.to_owned(), file, end, records: contents.records.into_iter().collect() })
    }

    /// Adds a record; it is on disk when this returns. After an error the file is as it was before.
    pub fn append(&mut self, record: RunRecord) -> Result<(), RecordError> {
        let mut line = serde_json::to_string(&record)
            .map_err(|source| RecordError::NotJson { key: record.key.clone(), source })?;
        line.push('\n');
        // One write, so that a reader sees at most one record cut off.
        let written = self.file.write_all(line.as_bytes()).and_then(|()| self.file.sync_data());
        if let Err(source) = written {
            // What a full disk left of the record; if this fails too, the next run drops it.
            let _ = self.file.set_len(self.end);
            return Err(RecordError::Write { path: self.path.clone(), source });
        }
        self.end += line.len() as u64;
        self.records.push(record);
        Ok(())
    }

    /// Whether there is a record with this key.
    pub fn contains(&self, key: &str) -> bool {
        self.records.contains(key)
    }

    /// The last record with this key.
    pub fn get(&self, key: &str) -> Option<&RunRecord> {
        self.records.get(key)
    }

    /// Every record, oldest first.
    pub fn iter(&self) -> std::slice::Iter<'_, RunRecord> {
        self.records.iter()
    }

    /// The records.
    pub fn records(&self) -> &Records {
        &self.records
    }

    /// Where they are written.
    pub fn path(&self) -> &Path {
        &self.path
    }
}
