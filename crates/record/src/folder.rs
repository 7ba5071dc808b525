use crate::{Claim, RecordError, Records, RunRecord};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// What record files are called: `records-1-of-4.jsonl`.
const PREFIX: &str = "records-";
const SUFFIX: &str = ".jsonl";

/// The record files of a folder, read only, while other runs may be writing them.
///
/// Several runs that share a folder each write a file of their own and look into the others' with this.
#[derive(Debug, Default)]
pub struct RecordFolder {
    folder: PathBuf,
    /// The file that is left out, because a [`RecordStore`](crate::RecordStore) holds it.
    own: Option<PathBuf>,
    files: BTreeMap<PathBuf, ReadFile>,
}

/// A file as it was when it was last read.
#[derive(Debug)]
struct ReadFile {
    length: u64,
    records: Records,
}

impl RecordFolder {
    /// The name of the record file called `name`: `records-<name>.jsonl`.
    pub fn file_name(name: &str) -> String {
        format!("{PREFIX}{name}{SUFFIX}")
    }

    /// Reads every record file of `folder` but `own`.
    pub fn open(folder: &Path, own: Option<&Path>) -> Result<Self, RecordError> {
        let mut opened = Self { folder: folder.to_owned(), own: own.map(Path::to_owned), files: BTreeMap::new() };
        opened.refresh()?;
        Ok(opened)
    }

    /// Reads the files that have grown or appeared.
    pub fn refresh(&mut self) -> Result<(), RecordError> {
        for path in record_files(&self.folder)? {
            if self.own.as_deref() == Some(path.as_path()) {
                continue;
            }
            let length = std::fs::metadata(&path).map_or(0, |found| found.len());
            if self.files.get(&path).is_some_and(|f| f.length == length) {
                continue;
            }
            let records = Records::load(&path)?;
            self.files.insert(path, ReadFile { length, records });
        }
        Ok(())
    }

    /// Claims what is called `name`, for as long as the claim is there; `None` while another run that shares the folder has it.
    pub fn claim(&self, name: &str) -> Option<Claim> {
        Claim::new(&self.folder, name)
    }

    /// The same with the records of `path`, a file of any name that nobody writes.
    pub fn with_file(mut self, path: &Path) -> Result<Self, RecordError> {
        let records = Records::load(path)?;
        let length = std::fs::metadata(path).map_or(0, |found| found.len());
        self.files.insert(path.to_owned(), ReadFile { length, records });
        Ok(self)
    }

    /// A record with this key, from the first file that has one.
    pub fn get(&self, key: &str) -> Option<&RunRecord> {
        self.files.values().find_map(|file| file.records.get(key))
    }

    /// Every record, file by file; one that several files hold comes several times.
    pub fn iter(&self) -> impl Iterator<Item = &RunRecord> {
        self.files.values().flat_map(|file| file.records.iter())
    }

    /// The files.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        self.files.keys().map(PathBuf::as_path)
    }
}

/// The record files of a folder, by name; none if there is no such folder.
fn record_files(folder: &Path) -> Result<Vec<PathBuf>, RecordError> {
    let read_error = |source| RecordError::Read { path: folder.to_owned(), source };
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(read_error(error)),
    };
    let mut files = Vec::new();
    for entry in entries {
        let path = entry.map_err(read_error)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with(PREFIX) && name.ends_with(SUFFIX) && path.is_file() {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}
