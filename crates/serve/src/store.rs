//! The state on disk: one file, written in whole transactions.

use crate::ServeError;
use redb::{Database, ReadableDatabase, ReadableTable, ReadableTableMetadata, TableDefinition};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

/// A stream's state after some of its events.
const SNAPSHOTS: TableDefinition<&str, &[u8]> = TableDefinition::new("snapshots");
/// Events behind the snapshot, by stream and number.
const EVENTS: TableDefinition<(&str, u64), &[u8]> = TableDefinition::new("events");
/// Closed windows as JSON, by stream, kind and number.
const WINDOWS: TableDefinition<(&str, u8, u64), &[u8]> = TableDefinition::new("windows");
/// Images that are kept because somebody asked for it: the second they came in and their type, then their bytes.
const IMAGES: TableDefinition<(&str, u64), (u64, &str, &[u8])> = TableDefinition::new("images");
/// Files of watched folders that were dealt with, by folder and path: their size, when they were written, and why they cannot be read, if so.
const FILES: TableDefinition<(&str, &str), (u64, u64, &str)> = TableDefinition::new("files");
/// Streams' adaptations.
const ADAPTATIONS: TableDefinition<&str, &[u8]> = TableDefinition::new("adaptations");
/// What the state belongs to.
const ORIGIN: TableDefinition<&str, &str> = TableDefinition::new("origin");

/// A file smaller than this is left as it is.
const LEAST_COMPACTED: u64 = 64 << 20;
/// How many times as large as what it holds a file is before it is made smaller.
const WASTE: u64 = 3;
/// How long after a failed write the state counts as unusable; then senders may try whether it is better.
const AFTER_FAILURE: Duration = Duration::from_secs(10);

/// The file of the state.
pub struct Store {
    path: PathBuf,
    /// Nothing after a write failed and the file could not be opened again.
    database: RwLock<Option<Database>>,
    /// When a write last failed.
    failed: Mutex<Option<Instant>>,
}

/// One change of the file.
#[derive(Clone, Debug, PartialEq)]
pub enum Write {
    /// Adds an event.
    Event {
        /// The stream.
        stream: String,
        /// Its number.
        number: u64,
        /// What happened.
        bytes: Vec<u8>,
    },
    /// Replaces a stream's snapshot, which holds all events below `number`.
    Snapshot {
        /// The stream.
        stream: String,
        /// The first event that it does not hold.
        number: u64,
        /// The state.
        bytes: Vec<u8>,
    },
    /// Keeps a closed window.
    Window {
        /// The stream.
        stream: String,
        /// 0 by count, 1 by time.
        kind: u8,
        /// Its number.
        number: u64,
        /// The window as JSON.
        bytes: Vec<u8>,
    },
    /// Keeps an image.
    Image {
        /// The stream.
        stream: String,
        /// Its number.
        image: u64,
        /// The second it came in.
        time: u64,
        /// Its type, such as `image/png`.
        media_type: &'static str,
        /// The file.
        bytes: Vec<u8>,
    },
    /// Replaces what a stream's adaptation has come to.
    Adaptation {
        /// The stream.
        stream: String,
        /// Vector, memory and guard.
        bytes: Vec<u8>,
    },
    /// Forgets images that came before a second.
    ForgetImages {
        /// The second.
        before: u64,
    },
    /// Remembers what was made of a file in a watched folder.
    File {
        /// The folder.
        folder: String,
        /// The file within it.
        path: String,
        /// Which version of it, and what came of it.
        mark: FileMark,
    },
    /// Forgets a file that is gone.
    ForgetFile {
        /// The folder.
        folder: String,
        /// The file within it.
        path: String,
    },
    /// Forgets the windows of a kind below a number.
    ForgetWindows {
        /// The stream.
        stream: String,
        /// 0 by count, 1 by time.
        kind: u8,
        /// The first that stays.
        below: u64,
    },
}

/// A version of a file that was dealt with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileMark {
    /// Its bytes.
    pub size: u64,
    /// When it was written, in nanoseconds since 1970.
    pub modified: u64,
    /// Why it cannot be read as an image; empty where it was counted.
    pub problem: String,
}

/// A stream as it lies on disk.
pub struct Stored {
    /// The snapshot, if there is one.
    pub snapshot: Option<Vec<u8>>,
    /// Events with their numbers, in order.
    pub events: Vec<(u64, Vec<u8>)>,
}

impl Store {
    /// Opens the state in `folder`, or begins one there. `origin` says what it belongs to; a state of another origin is refused.
    pub fn open(folder: &Path, origin: &[(&'static str, String)]) -> Result<Self, ServeError> {
        std::fs::create_dir_all(folder).map_err(|source| ServeError::Folder { path: folder.to_owned(), source })?;
        let path = folder.join("flipcast.redb");
        let cannot = |source: redb::Error| ServeError::Store { path: path.clone(), source: Box::new(source) };
        let mut database = Database::create(&path).map_err(|error| cannot(error.into()))?;
        let differs = prepare(&database, origin).map_err(cannot)?;
        if let Some(what) = differs {
            return Err(ServeError::OtherState { path, what });
        }
        compact(&mut database, &path, LEAST_COMPACTED).map_err(cannot)?;
        Ok(Self { path, database: RwLock::new(Some(database)), failed: Mutex::new(None) })
    }

    /// Makes all changes or none; they are on disk when this returns.
    pub fn write(&self, writes: &[Write]) -> Result<(), redb::Error> {
        let result = self.with(|database| apply(database, writes));
        if result.is_err() {
            *self.failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
            self.reopen();
        }
        result
    }

    /// A stream, if it is known.
    pub fn load(&self, stream: &str) -> Result<Option<Stored>, redb::Error> {
        self.with(|database| {
            let transaction = database.begin_read()?;
            let snapshot = transaction.open_table(SNAPSHOTS)?.get(stream)?.map(|found| found.value().to_vec());
            let mut events = Vec::new();
            for entry in transaction.open_table(EVENTS)?.range((stream, 0)..=(stream, u64::MAX))? {
                let (key, value) = entry?;
                events.push((key.value().1, value.value().to_vec()));
            }
            Ok((snapshot.is_some() || !events.is_empty()).then_some(Stored { snapshot, events }))
        })
    }

    /// Names of streams behind `after`, at most `limit`, in order. Every stream has a snapshot from its beginning.
    pub fn streams(&self, after: &str, limit: usize) -> Result<Vec<String>, redb::Error> {
        self.with(|database| {
            let table = database.begin_read()?.open_table(SNAPSHOTS)?;
            let behind = (std::ops::Bound::Excluded(after), std::ops::Bound::Unbounded);
            let names = table.range::<&str>(behind)?.take(limit);
            names.map(|entry| Ok(entry?.0.value().to_owned())).collect()
        })
    }

    /// Number of streams.
    pub fn count(&self) -> Result<u64, redb::Error> {
        self.with(|database| Ok(database.begin_read()?.open_table(SNAPSHOTS)?.len()?))
    }

    /// The last `limit` windows of a kind, oldest first, as JSON.
    pub fn windows(&self, stream: &str, kind: u8, limit: usize) -> Result<Vec<Vec<u8>>, redb::Error> {
        self.with(|database| {
            let table = database.begin_read()?.open_table(WINDOWS)?;
            let range = table.range((stream, kind, 0)..=(stream, kind, u64::MAX))?;
            let mut windows = Vec::new();
            for entry in range.rev().take(limit) {
                windows.push(entry?.1.value().to_vec());
            }
            windows.reverse();
            Ok(windows)
        })
    }

    /// An image that was kept, with its type.
    pub fn image(&self, stream: &str, image: u64) -> Result<Option<(String, Vec<u8>)>, redb::Error> {
        self.with(|database| {
            let table = database.begin_read()?.open_table(IMAGES)?;
            let found = table.get((stream, image))?;
            Ok(found.map(|found| {
                let (_, media_type, bytes) = found.value();
                (media_type.to_owned(), bytes.to_vec())
            }))
        })
    }

    /// What a stream's adaptation has come to, if there is one.
    pub fn adaptation(&self, stream: &str) -> Result<Option<Vec<u8>>, redb::Error> {
        self.with(|database| {
            let table = database.begin_read()?.open_table(ADAPTATIONS)?;
            Ok(table.get(stream)?.map(|found| found.value().to_vec()))
        })
    }

    /// Files of a watched folder that were dealt with.
    pub fn files(&self, folder: &str) -> Result<HashMap<String, FileMark>, redb::Error> {
        self.with(|database| {
            let table = database.begin_read()?.open_table(FILES)?;
            let mut files = HashMap::new();
            for entry in table.range((folder, "")..)? {
                let (key, value) = entry?;
                let ((found, path), (size, modified, problem)) = (key.value(), value.value());
                if found != folder {
                    break;
                }
                files.insert(path.to_owned(), FileMark { size, modified, problem: problem.to_owned() });
            }
            Ok(files)
        })
    }

    /// Whether it can be read now, and no write failed a moment ago.
    pub fn is_usable(&self) -> bool {
        let failed = *self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        if failed.is_some_and(|failed| failed.elapsed() <= AFTER_FAILURE) {
            return false;
        }
        // Where nobody sends anything to an unusable state, nobody else would open it again.
        if self.count().is_err() {
            self.reopen();
        }
        self.count().is_ok()
    }

    fn with<T>(&self, act: impl FnOnce(&Database) -> Result<T, redb::Error>) -> Result<T, redb::Error> {
        let database = self.database.read().unwrap_or_else(PoisonError::into_inner);
        act(database.as_ref().ok_or(redb::Error::PreviousIo)?)
    }

    /// After a failed write the database refuses everything until it is opened again.
    fn reopen(&self) {
        let mut database = self.database.write().unwrap_or_else(PoisonError::into_inner);
        *database = None;
        *database = Database::open(&self.path).ok();
    }
}

fn prepare(database: &Database, origin: &[(&'static str, String)]) -> Result<Option<&'static str>, redb::Error> {
    let transaction = database.begin_write()?;
    {
        transaction.open_table(SNAPSHOTS)?;
        transaction.open_table(EVENTS)?;
        transaction.open_table(WINDOWS)?;
        transaction.open_table(IMAGES)?;
        transaction.open_table(FILES)?;
        transaction.open_table(ADAPTATIONS)?;
        let mut table = transaction.open_table(ORIGIN)?;
        for (what, value) in origin {
            let found = table.get(what)?.map(|found| found.value().to_owned());
            match found {
                Some(found) if found != *value => return Ok(Some(what)),
                Some(_) => {}
                None => drop(table.insert(what, value.as_str())?),
            }
        }
    }
    transaction.commit()?;
    Ok(None)
}

/// Gives room back to the disk where most of the file is unused, as after images or streams were forgotten. Files never become smaller by themselves, and
/// this may take a while, so that it happens at the start alone.
fn compact(database: &mut Database, path: &Path, least: u64) -> Result<(), redb::Error> {
    let size = path.metadata()?.len();
    if size < least {
        return Ok(());
    }
    let transaction = database.begin_write()?;
    let stats = transaction.stats()?;
    transaction.abort()?;
    if size > WASTE * (stats.stored_bytes() + stats.metadata_bytes()) {
        database.compact()?;
    }
    Ok(())
}

fn apply(database: &Database, writes: &[Write]) -> Result<(), redb::Error> {
    let transaction = database.begin_write()?;
    {
        let mut snapshots = transaction.open_table(SNAPSHOTS)?;
        let mut events = transaction.open_table(EVENTS)?;
        let mut windows = transaction.open_table(WINDOWS)?;
        let mut images = transaction.open_table(IMAGES)?;
        let mut files = transaction.open_table(FILES)?;
        let mut adaptations = transaction.open_table(ADAPTATIONS)?;
        for write in writes {
            match write {
                Write::Event { stream, number, bytes } => drop(events.insert((stream.as_str(), *number), &bytes[..])?),
                Write::Snapshot { stream, number, bytes } => {
                    snapshots.insert(stream.as_str(), &bytes[..])?;
                    events.retain_in((stream.as_str(), 0)..(stream.as_str(), *number), |_, _| false)?;
                }
                Write::Window { stream, kind, number, bytes } => {
                    windows.insert((stream.as_str(), *kind, *number), &bytes[..])?;
                }
                Write::Image { stream, image, time, media_type, bytes } => {
                    images.insert((stream.as_str(), *image), (*time, *media_type, &bytes[..]))?;
                }
                Write::Adaptation { stream, bytes } => drop(adaptations.insert(stream.as_str(), &bytes[..])?),
                Write::ForgetImages { before } => images.retain(|_, (time, _, _)| time >= *before)?,
                Write::File { folder, path, mark } => {
                    let value = (mark.size, mark.modified, mark.problem.as_str());
                    files.insert((folder.as_str(), path.as_str()), value)?;
                }
                Write::ForgetFile { folder, path } => drop(files.remove((folder.as_str(), path.as_str()))?),
                Write::ForgetWindows { stream, kind, below } => {
                    let range = (stream.as_str(), *kind, 0)..(stream.as_str(), *kind, *below);
                    windows.retain_in(range, |_, _| false)?;
                }
            }
        }
    }
    transaction.commit()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(stream: &str, number: u64) -> Write {
        Write::Event { stream: stream.to_owned(), number, bytes: vec![number as u8] }
    }

    #[test]
    fn a_snapshot_takes_the_place_of_the_events_it_holds() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path(), &[("calibration", "a".to_owned())]).unwrap();
        store.write(&[event("x", 0), event("x", 1), event("x", 2), event("y", 0)]).unwrap();
        let bytes = b"state".to_vec();
        store.write(&[Write::Snapshot { stream: "x".to_owned(), number: 2, bytes }]).unwrap();
        let stored = store.load("x").unwrap().unwrap();
        assert_eq!(stored.snapshot.unwrap(), b"state");
        assert_eq!(stored.events, [(2, vec![2])]);
        assert_eq!(store.load("y").unwrap().unwrap().events.len(), 1);
        assert!(store.load("z").unwrap().is_none());
        assert_eq!(store.streams("", 10).unwrap(), ["x"]);
    }

    #[test]
    fn room_of_forgotten_images_is_given_back_and_the_rest_stays() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path(), &[]).unwrap();
        let image = |image| {
            let (stream, bytes) = ("s".to_owned(), vec![image as u8; 100_000]);
            Write::Image { stream, image, time: image, media_type: "image/png", bytes }
        };
        store.write(&(0..60).map(image).collect::<Vec<_>>()).unwrap();
        store.write(&[event("x", 0), Write::ForgetImages { before: 58 }]).unwrap();
        drop(store);
        let path = folder.path().join("flipcast.redb");
        let before = path.metadata().unwrap().len();
        let mut database = Database::open(&path).unwrap();
        compact(&mut database, &path, before + 1).unwrap();
        assert_eq!(path.metadata().unwrap().len(), before, "small files are left alone");
        compact(&mut database, &path, 1 << 20).unwrap();
        drop(database);
        let after = path.metadata().unwrap().len();
        assert!(after < before, "{before} bytes, now {after}");
        let store = Store::open(folder.path(), &[]).unwrap();
        assert_eq!(store.image("s", 59).unwrap().unwrap().1, vec![59; 100_000]);
        assert_eq!(store.load("x").unwrap().unwrap().events.len(), 1);
    }

    #[test]
    fn a_state_of_another_calibration_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let open = |key: &str| Store::open(folder.path(), &[("calibration", key.to_owned())]);
        drop(open("a").unwrap());
        assert!(open("a").is_ok());
        assert!(matches!(open("b"), Err(ServeError::OtherState { what: "calibration", .. })));
    }

    #[test]
    fn windows_and_images_are_forgotten_when_their_time_has_come() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path(), &[]).unwrap();
        let stream = || "s".to_owned();
        let window = |number| Write::Window { stream: stream(), kind: 0, number, bytes: vec![number as u8] };
        let image = |image| {
            let (time, media_type, bytes) = (100 * image, "image/png", vec![1, 2]);
            Write::Image { stream: stream(), image, time, media_type, bytes }
        };
        store.write(&[window(0), window(1), window(2), image(1), image(2)]).unwrap();
        assert_eq!(store.windows("s", 0, 2).unwrap(), [vec![1], vec![2]]);
        store.write(&[Write::ForgetWindows { stream: stream(), kind: 0, below: 2 }]).unwrap();
        assert_eq!(store.windows("s", 0, 9).unwrap(), [vec![2]]);
        store.write(&[Write::ForgetImages { before: 150 }]).unwrap();
        assert!(store.image("s", 1).unwrap().is_none());
        assert_eq!(store.image("s", 2).unwrap().unwrap().0, "image/png");
    }
}
