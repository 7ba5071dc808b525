//! Folders whose images are counted as they come.
//!
//! A thread looks into every folder again and again. A file is taken when it looked the same twice, so that one which is still being written waits, and
//! what was made of it is written together with its image: killed at any moment, every file is counted once. A file that is
//! written anew counts as a new image.

use crate::engine::{Answer, Job, JobInput, Refusal};
use crate::log::now;
use crate::network::BATCH;
use crate::prepared::{Prepared, shown_file};
use crate::server::App;
use crate::store::{FileMark, Write};
use crate::streams::check_name;
use crate::{ServeError, WatchedFolder};
use flipcast_ground::with_causes;
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, UNIX_EPOCH};
use tokio::sync::oneshot;

/// How often folders are looked into.
const POLL: Duration = Duration::from_millis(500);
/// A file that was written so recently may still grow.
const SETTLED: Duration = Duration::from_millis(1000);
/// Folders within folders.
const DEEPEST: usize = 8;
/// Files of other kinds are left alone.
const EXTENSIONS: [&str; 8] = ["jpg", "jpeg", "png", "webp", "gif", "bmp", "tif", "tiff"];
/// Unreadable files that are named.
const NAMED: usize = 20;
/// Bytes of files to keep that one job takes.
const KEPT_BYTES: usize = 16 << 20;

/// How a watched folder stands.
#[derive(Clone, Debug, Serialize)]
pub struct FolderStatus {
    folder: PathBuf,
    stream: String,
    /// Files counted since the server started.
    counted: u64,
    /// Files that still wait to be counted.
    waiting: usize,
    /// Files in the folder that cannot be read as images.
    unreadable: usize,
    /// Some of these, and why.
    problems: BTreeMap<String, String>,
    /// Why the folder could not be looked into, the last time.
    error: Option<String>,
}

/// How all watched folders stand.
#[derive(Debug, Default)]
pub struct WatchStatus(Mutex<Vec<FolderStatus>>);

impl WatchStatus {
    /// As they stand now.
    pub fn folders(&self) -> Vec<FolderStatus> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Files that still wait, and files that cannot be read.
    pub fn totals(&self) -> (usize, usize) {
        self.folders().iter().fold((0, 0), |sum, folder| (sum.0 + folder.waiting, sum.1 + folder.unreadable))
    }

    fn set(&self, place: usize, status: FolderStatus) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match all.get_mut(place) {
            Some(found) => *found = status,
            None => all.push(status),
        }
    }
}

/// Starts the thread that watches, if there is anything to watch. It ends when the server is gone.
pub fn start_watching(app: &Arc<App>) -> Result<Option<JoinHandle<()>>, ServeError> {
    let mut folders = Vec::new();
    for (place, WatchedFolder { path, stream }) in app.config.watch.iter().enumerate() {
        let refused = |found: String, expected| ServeError::Setting { setting: "a watched folder", found, expected };
        if app.preparation.is_none() {
            return Err(refused(path.display().to_string(), "a model that predicts its images"));
        }
        check_name(stream).map_err(|_| refused(stream.clone(), "the name of a stream for it"))?;
        let root = path.canonicalize().map_err(|source| ServeError::Watch { path: path.clone(), source })?;
        std::fs::read_dir(&root).map_err(|source| ServeError::Watch { path: path.clone(), source })?;
        let stored = app.store.files(&root.to_string_lossy());
        let known =
            stored.map_err(|source| ServeError::Store { path: app.config.state.clone(), source: source.into() })?;
        let folder =
            Folder { place, root, stream: stream.clone(), known, last: HashMap::new(), counted: 0, error: None };
        app.watched.set(place, folder.status(0));
        folders.push(folder);
    }
    if folders.is_empty() {
        return Ok(None);
    }
    let app = Arc::downgrade(app);
    let work = move || {
        loop {
            for folder in &mut folders {
                if !folder.look(&app) {
                    return;
                }
            }
            std::thread::sleep(POLL);
        }
    };
    std::thread::Builder::new().name("watch".to_owned()).spawn(work).map(Some).map_err(ServeError::Thread)
}

/// What tells a version of a file apart from others.
type Version = (u64, u64);

struct Folder {
    place: usize,
    root: PathBuf,
    stream: String,
    /// Files that were dealt with, by their path within the folder.
    known: HashMap<String, FileMark>,
    /// New files when the folder was last looked into.
    last: HashMap<String, Version>,
    counted: u64,
    error: Option<String>,
}

impl Folder {
    fn status(&self, waiting: usize) -> FolderStatus {
        let problems = self.known.iter().filter(|(_, mark)| !mark.problem.is_empty());
        FolderStatus {
            folder: self.root.clone(),
            stream: self.stream.clone(),
            counted: self.counted,
            waiting,
            unreadable: problems.clone().count(),
            problems: problems.take(NAMED).map(|(path, mark)| (path.clone(), mark.problem.clone())).collect(),
            error: self.error.clone(),
        }
    }

    /// Looks into the folder once and counts what has settled; `false` once the server is gone.
    fn look(&mut self, app: &Weak<App>) -> bool {
        let mut found = HashMap::new();
        let listed = list(&self.root, Path::new(""), 0, &mut found).map_err(|error| error.to_string()).err();
        let Some(held) = app.upgrade() else { return false };
        if listed != self.error
            && let Some(error) = &listed
        {
            let fields = [("folder", self.root.to_string_lossy().into()), ("error", error.as_str().into())];
            held.shared.log.error("folder_not_read", &fields);
        }
        self.error = listed;
        if self.error.is_none() {
            self.forget_missing(&held, &found);
        }
        drop(held);
        let is_new = |path: &String, version: &Version| {
            self.known.get(path).is_none_or(|mark| (mark.size, mark.modified) != *version)
        };
        let new: HashMap<String, Version> = found.into_iter().filter(|(path, seen)| is_new(path, seen)).collect();
        let before = (now() - SETTLED.as_secs_f64()) * 1e9;
        let mut settled: Vec<(Version, String)> = new
            .iter()
            .filter(|(path, seen)| self.last.get(*path) == Some(seen) && (seen.1 as f64) < before)
            .map(|(path, seen)| (*seen, path.clone()))
            .collect();
        // In the order in which they were written.
        settled.sort_by(|a, b| (a.0.1, &a.1).cmp(&(b.0.1, &b.1)));
        let mut waiting = new.len();
        self.last = new;
        let mut rest = settled.as_slice();
        while !rest.is_empty() {
            let Some(held) = app.upgrade() else { return false };
            held.watched.set(self.place, self.status(waiting));
            let taken = self.count(held, rest);
            if taken == 0 {
                break;
            }
            waiting -= taken;
            rest = &rest[taken..];
        }
        match app.upgrade() {
            Some(held) => held.watched.set(self.place, self.status(waiting)),
            None => return false,
        }
        true
    }

    /// Counts the first of `files`, as many as make a batch; gives how many were dealt with, none where they have to come again.
    fn count(&mut self, app: Arc<App>, files: &[(Version, String)]) -> usize {
        let Some(preparation) = app.preparation.clone() else { return 0 };
        let keeps = app.config.keep_images.is_some();
        let (mut images, mut kept, mut marks): (Vec<Prepared>, Vec<_>, Vec<_>) = Default::default();
        let mut kept_bytes = 0;
        for ((size, modified), path) in files.iter().take(BATCH) {
            let read = self.read(path, app.config.limits.body_bytes as u64);
            let prepared = read.and_then(|bytes| {
                let file = keeps.then(|| shown_file(&bytes)).flatten();
                Ok((preparation.prepare_file(&bytes)?, file))
            });
            let problem = match prepared {
                Ok((image, file)) => {
                    kept_bytes += file.as_ref().map_or(0, |file| file.bytes.len());
                    images.push(image);
                    if keeps {
                        kept.push(file);
                    }
                    String::new()
                }
                Err(problem) => problem,
            };
            marks.push((path.clone(), FileMark { size: *size, modified: *modified, problem }));
            if kept_bytes > KEPT_BYTES {
                break;
            }
        }
        let folder = self.root.to_string_lossy().into_owned();
        let write = |(path, mark): &(String, FileMark)| Write::File {
            folder: folder.clone(),
            path: path.clone(),
            mark: mark.clone(),
        };
        let writes: Vec<Write> = marks.iter().map(write).collect();
        let (reply, answer) = oneshot::channel();
        let count = images.len() as u64;
        if images.is_empty() {
            let nothing = Answer { logits: Vec::new(), first_image: None, adapted: Vec::new() };
            app.shared.lock().commit(writes, Vec::new(), move |written| {
                drop(reply.send(if written { Ok(nothing) } else { Err(Refusal::NotWritten) }));
            });
        } else {
            let job = Job::new(self.stream.clone(), None, JobInput::Images(images), reply);
            if app.jobs.send(Job { files: kept, writes, ..job }).is_err() {
                return 0;
            }
        }
        let log = app.shared.log.clone();
        // While it waits it does not keep the server alive.
        drop(app);
        match answer.blocking_recv() {
            Ok(Ok(_)) => self.dealt_with(marks, count, &log),
            Ok(Err(refusal)) => {
                let reason = format!("{refusal:?}");
                let fields = [("folder", self.root.to_string_lossy().into()), ("error", reason.as_str().into())];
                log.error("files_not_counted", &fields);
                0
            }
            Err(_) => 0,
        }
    }

    /// Remembers what was made of files, and tells which cannot be read.
    fn dealt_with(&mut self, marks: Vec<(String, FileMark)>, counted: u64, log: &crate::Log) -> usize {
        self.counted += counted;
        let taken = marks.len();
        for (path, mark) in marks {
            if !mark.problem.is_empty() {
                let file = self.root.join(&path);
                let fields = [("file", file.to_string_lossy().into()), ("error", mark.problem.as_str().into())];
                log.error("file_not_readable", &fields);
            }
            self.last.remove(&path);
            self.known.insert(path, mark);
        }
        taken
    }

    fn read(&self, path: &str, limit: u64) -> Result<Vec<u8>, String> {
        let path = self.root.join(path);
        let size = path.metadata().map_err(|error| error.to_string())?.len();
        if size > limit {
            return Err(format!("it has {size} bytes, expected at most {limit}"));
        }
        std::fs::read(path).map_err(|error| with_causes(&error))
    }

    /// Files that are gone need not be remembered.
    fn forget_missing(&mut self, app: &App, found: &HashMap<String, Version>) {
        let gone: Vec<String> = self.known.keys().filter(|path| !found.contains_key(*path)).cloned().collect();
        if gone.is_empty() {
            return;
        }
        gone.iter().for_each(|path| drop(self.known.remove(path)));
        let folder = self.root.to_string_lossy().into_owned();
        let writes = gone.into_iter().map(|path| Write::ForgetFile { folder: folder.clone(), path }).collect();
        app.shared.lock().commit(writes, Vec::new(), |_| ());
    }
}

/// Image files in `root` and in folders within, by their paths there. Names that begin with a dot are left out, as programs that copy use them until a
/// file is whole.
fn list(root: &Path, within: &Path, depth: usize, found: &mut HashMap<String, Version>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(root.join(within))? {
        let entry = entry?;
        let name = entry.file_name();
        if name.to_string_lossy().starts_with('.') {
            continue;
        }
        let path = within.join(&name);
        if entry.file_type()?.is_dir() {
            if depth < DEEPEST {
                list(root, &path, depth + 1, found)?;
            }
            continue;
        }
        let extension = path.extension().map(|extension| extension.to_string_lossy().to_ascii_lowercase());
        // A file that is gone in the meantime is no error of the folder.
        if extension.is_some_and(|extension| EXTENSIONS.contains(&extension.as_str()))
            && let Ok(data) = root.join(&path).metadata()
            && data.is_file()
        {
            let modified = data.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
            let modified = modified.map_or(0, |time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
            found.insert(path.to_string_lossy().into_owned(), (data.len(), modified));
        }
    }
    Ok(())
}
