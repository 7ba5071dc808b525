use crate::lines::{is_packed, read_packed_records, read_records};
use crate::{RecordError, RunRecord};
use std::collections::HashMap;
use std::fs::File;
use std::path::Path;

/// The records of a file, in the order they were written.
#[derive(Debug, Default)]
pub struct Records {
    records: Vec<RunRecord>,
    by_key: HashMap<String, usize>,
}

impl Records {
    /// Reads the file at `path`, which a run may still be writing: a record that is not complete yet is left out. A name that ends in
    /// `.gz` is that of a file packed by gzip.
    pub fn load(path: &Path) -> Result<Self, RecordError> {
        let mut file = File::open(path).map_err(|source| RecordError::Read { path: path.to_owned(), source })?;
        let contents = match is_packed(path) {
            true => read_packed_records(path, file)?,
            false => read_records(path, &mut file)?,
        };
        Ok(contents.records.into_iter().collect())
    }

    /// Whether there is a record with this key.
    pub fn contains(&self, key: &str) -> bool {
        self.by_key.contains_key(key)
    }

    /// The last record with this key.
    pub fn get(&self, key: &str) -> Option<&RunRecord> {
        self.by_key.get(key).map(|&i| &self.records[i])
    }

    /// Every record, oldest first.
    pub fn iter(&self) -> std::slice::Iter<'_, RunRecord> {
        self.records.iter()
    }

    /// Number of records.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    pub(crate) fn push(&mut self, record: RunRecord) {
        self.by_key.insert(record.key.clone(), self.records.len());
        self.records.push(record);
    }
}

impl FromIterator<RunRecord> for Records {
    fn from_iter<I: IntoIterator<Item = RunRecord>>(records: I) -> Self {
        let mut all = Self::default();
        for record in records {
            all.push(record);
        }
        all
    }
}

impl<'a> IntoIterator for &'a Records {
    type Item = &'a RunRecord;
    type IntoIter = std::slice::Iter<'a, RunRecord>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}
