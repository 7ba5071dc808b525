use flipcast_ground::{Hint, write_hint};
use std::path::PathBuf;

/// Why predictions could not be written.
#[derive(Debug, thiserror::Error)]
pub enum PredictionError {
    /// The file's name does not tell a format.
    #[error("`{path}` ends in `{found}`, but `.csv`, `.jsonl` or `.parquet` was expected")]
    UnknownFormat {
        /// The file.
        path: PathBuf,
        /// The end of its name.
        found: String,
    },
    /// Another run writes to the same file.
    #[error("`{path}` is being written by another run, but one writer at a time was expected")]
    InUse {
        /// The file.
        path: PathBuf,
    },
    /// The system refused, or the disk is full.
    #[error("cannot write `{path}`")]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The Parquet encoder refused.
    #[error("cannot encode `{path}` as Parquet")]
    Parquet {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: parquet::errors::ParquetError,
    },
}

impl Hint for PredictionError {
    fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::UnknownFormat { .. } => "the end of the file's name chooses the format",
            Self::InUse { .. } => "wait for the other run, or choose another file",
            Self::Write { source, .. } => return write_hint(source),
            Self::Parquet { .. } => return None,
        };
        Some(hint.to_owned())
    }
}

/// What an encoder fails with; the writer adds the path.
#[derive(Debug)]
pub(super) enum EncodeError {
    Io(std::io::Error),
    Parquet(parquet::errors::ParquetError),
}

impl EncodeError {
    pub fn at(self, path: PathBuf) -> PredictionError {
        match self {
            Self::Io(source) => PredictionError::Write { path, source },
            Self::Parquet(source) => PredictionError::Parquet { path, source },
        }
    }
}

impl From<std::io::Error> for EncodeError {
    fn from(source: std::io::Error) -> Self {
        Self::Io(source)
    }
}

impl From<parquet::errors::ParquetError> for EncodeError {
    fn from(source: parquet::errors::ParquetError) -> Self {
        // A full disk should look the same in every format.
        match source {
            parquet::errors::ParquetError::External(cause) => match cause.downcast() {
                Ok(io) => Self::Io(*io),
                Err(cause) => Self::Parquet(parquet::errors::ParquetError::External(cause)),
            },
            other => Self::Parquet(other),
        }
    }
}
