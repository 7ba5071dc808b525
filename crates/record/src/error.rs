use flipcast_ground::{Hint, write_hint};
use std::path::PathBuf;

/// Why a record file could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The system refused to read.
    #[error("cannot read `{path}`")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The system refused to write, or the disk is full.
    #[error("cannot write `{path}`")]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// Another program writes to the file.
    #[error("`{path}` is being written by another run, but one writer at a time was expected")]
    InUse {
        /// The file.
        path: PathBuf,
    },
    /// The file was written by a newer version.
    #[error("line {line} of `{path}` has format {found}, but this version reads formats up to {known}")]
    Newer {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The format found.
        found: u64,
        /// The newest format this version knows.
        known: u32,
    },
    /// A file of something else.
    #[error("`{path}` is no record file: it begins with `{found}`, but records begin with `{{\"format\":`")]
    NoRecords {
        /// The file.
        path: PathBuf,
        /// Its first bytes.
        found: String,
    },
    /// A line that is no record.
    #[error("line {line} of `{path}` is no record")]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What the parser found.
        #[source]
        source: serde_json::Error,
    },
    /// A record whose protocol was changed after it was written.
    #[error("line {line} of `{path}` has key `{found}`, but its protocol gives `{expected}`")]
    OtherKey {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The key in the line.
        found: String,
        /// The key of its protocol.
        expected: String,
    },
    /// A record that was changed after it was written.
    #[error("line {line} of `{path}` has checksum `{found}`, but what it holds gives `{expected}`")]
    Changed {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The checksum in the line.
        found: String,
        /// The checksum of the rest of it.
        expected: String,
    },
    /// A file or line too long to be records.
    #[error("{what} of `{path}` has {found} bytes, but at most {limit} are read")]
    TooLong {
        /// The file.
        path: PathBuf,
        /// The file as a whole, or a line.
        what: String,
        /// Its length.
        found: u64,
        /// The limit.
        limit: u64,
    },
    /// A record that cannot be written as JSON.
    #[error("the record `{key}` cannot be written as JSON")]
    NotJson {
        /// Its key.
        key: String,
        /// Why.
        #[source]
        source: serde_json::Error,
    },
}

impl Hint for RecordError {
    fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::InUse { .. } => "wait for the other run, or use another record file",
            Self::Newer { .. } => "use the newer flipcast that wrote it, or another record file",
            Self::NoRecords { .. } => {
                "give a file that runs were recorded in, or a new name to record in; this one is left as it is"
            }
            Self::Malformed { .. } | Self::OtherKey { .. } | Self::Changed { .. } => {
                "the line was changed after it was written; remove it or restore the file"
            }
            Self::Write { source, .. } => return write_hint(source),
            Self::Read { .. } | Self::TooLong { .. } | Self::NotJson { .. } => return None,
        };
        Some(hint.to_owned())
    }
}
