use super::csv::CsvRows;
use super::error::EncodeError;
use super::jsonl::JsonRows;
use super::parquet::ParquetRows;
use super::{Format, PredictionError, PredictionRow};
use crate::atomic::sync_folder;
use flipcast_ground::is_special;
use std::fs::{File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};

/// Rows to bytes of one format.
pub(super) trait Encoder: Send {
    /// Adds rows; text formats have them in the file when this returns.
    fn write(&mut self, rows: &[PredictionRow]) -> Result<(), EncodeError>;
    /// Ends the file, which can be read as a whole from then on.
    fn finish(self: Box<Self>) -> Result<File, EncodeError>;
}

/// Writes predictions as they are made. Dropped without [`finish`](PredictionWriter::finish), it leaves what was
/// written under the partial name; a file without a single row is removed.
pub struct PredictionWriter {
    path: PathBuf,
    partial: PathBuf,
    /// Until the file is ended.
    encoder: Option<Box<dyn Encoder>>,
    rows: u64,
}

impl PredictionWriter {
    /// Starts `<path>.partial`; one that an earlier run left is replaced. What is no plain file, such as a pipe, is
    /// written to directly.
    pub fn create(path: &Path, format: Format) -> Result<Self, PredictionError> {
        let partial = if is_special(path) {
            path.to_owned()
        } else {
            let mut name = path.as_os_str().to_owned();
            name.push(".partial");
            PathBuf::from(name)
        };
        let failed = |source| PredictionError::Write { path: partial.clone(), source };
        // Not cut off before it is locked: another run may be writing it.
        let file = OpenOptions::new().write(true).create(true).truncate(false).open(&partial).map_err(failed)?;
        if partial != path {
            match file.try_lock() {
                Ok(()) => file.set_len(0).map_err(failed)?,
                Err(TryLockError::WouldBlock) => {
                    return Err(PredictionError::InUse { path: partial });
                }
                Err(TryLockError::Error(source)) => return Err(failed(source)),
            }
        }
        let encoder: Result<Box<dyn Encoder>, EncodeError> = match format {
            Format::Csv => CsvRows::new(file).map(|rows| Box::new(rows) as _),
            Format::Jsonl => Ok(Box::new(JsonRows::new(file))),
            Format::Parquet => ParquetRows::new(file).map(|rows| Box::new(rows) as _),
        };
        Ok(Self {
            path: path.to_owned(),
            encoder: Some(encoder.map_err(|error| error.at(partial.clone()))?),
            partial,
            rows: 0,
        })
    }

    /// Adds the rows of a batch.
    pub fn write(&mut self, rows: &[PredictionRow]) -> Result<(), PredictionError> {
        let written = self.encoder.as_mut().expect("the file is ended by value").write(rows);
        written.map_err(|error| error.at(self.partial.clone()))?;
        self.rows += rows.len() as u64;
        Ok(())
    }

    /// Rows written so far.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Where they are until the file is complete.
    pub fn partial_path(&self) -> &Path {
        &self.partial
    }

    /// Completes the file and gives it its name.
    pub fn finish(self) -> Result<(), PredictionError> {
        let (path, partial) = (self.path.clone(), self.partial.clone());
        self.stop()?;
        if partial != path {
            std::fs::rename(&partial, &path).map_err(|source| PredictionError::Write { path: path.clone(), source })?;
            sync_folder(&path);
        }
        Ok(())
    }

    /// Ends the file early: what was written can be read, under the partial name, which is returned.
    pub fn stop(mut self) -> Result<PathBuf, PredictionError> {
        let partial = self.partial.clone();
        let special = partial == self.path;
        let encoder = self.encoder.take().expect("the file is ended by value");
        let ended = encoder.finish().and_then(|file| {
            if !special {
                file.sync_all()?;
            }
            Ok(())
        });
        match ended {
            Ok(()) => Ok(partial),
            Err(error) => Err(error.at(partial)),
        }
    }
}

impl Drop for PredictionWriter {
    fn drop(&mut self) {
        if self.encoder.is_some() && self.rows == 0 && self.partial != self.path {
            // Nobody is told of it, and the next run replaces it.
            let _ = std::fs::remove_file(&self.partial);
        }
    }
}
