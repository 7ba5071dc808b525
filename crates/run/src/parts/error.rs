use flipcast_ground::{Hint, Shard, write_hint};
use std::path::PathBuf;

/// Why a part of an estimate cannot be made, read or joined.
#[derive(Debug, thiserror::Error)]
pub enum PartError {
    /// A stream cannot be cut.
    #[error("the images are a stream, whose order is part of the data, but shards are drawn at random")]
    Stream,
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
    /// It is no part, or not all of one.
    #[error("`{path}` is not a part that this version can read: {problem}")]
    Format {
        /// The file.
        path: PathBuf,
        /// What was found and expected.
        problem: String,
    },
    /// There is nothing to join.
    #[error("no part is given, but one for every shard was expected")]
    None,
    /// Parts of different estimates.
    #[error("`{name}` and `{other}` are parts of different estimates: `{setting}` is {left} there and {right} here")]
    Different {
        /// One part.
        name: String,
        /// The other.
        other: String,
        /// In which setting they differ.
        setting: String,
        /// Its value in the first.
        left: String,
        /// Its value in the second.
        right: String,
    },
    /// A shard that is there more than once.
    #[error("shard {shard} is in `{name}` and in `{other}`, but every shard once was expected")]
    Twice {
        /// The shard.
        shard: Shard,
        /// A file that has it.
        name: String,
        /// Another.
        other: String,
    },
    /// Shards that are not there.
    #[error("{missing} of {count} shards are missing: {examples}")]
    Missing {
        /// How many.
        missing: usize,
        /// Of how many.
        count: u64,
        /// The first of them.
        examples: String,
    },
    /// The shards do not add up to the list of images that they were taken from.
    #[error("the shards name {found} images that are not those of the whole list of {expected}")]
    Listing {
        /// Images of all shards.
        found: u64,
        /// Images of the list.
        expected: u64,
    },
    /// Another calibration than the shards were looked at with.
    #[error("the parts were made with the calibration `{found}`, but `{expected}` was given")]
    Calibration {
        /// The parts'.
        found: String,
        /// The one given.
        expected: String,
    },
}

impl Hint for PartError {
    fn hint(&self) -> Option<String> {
        let text = match self {
            Self::Stream => "estimate a stream in one run",
            Self::Format { .. } => "make the part of this shard again",
            Self::Different { .. } => {
                "make all parts with the same version, model, calibration and settings, from the same unchanged images"
            }
            Self::Missing { .. } => "make the missing parts, or look for failed jobs",
            Self::Twice { .. } => "give one part per shard",
            Self::Listing { .. } => "images were added or removed between the shards; make all parts again",
            Self::Calibration { .. } => "give the calibration that the parts were made with",
            Self::Write { source, .. } => return write_hint(source),
            Self::Read { .. } | Self::None => return None,
        };
        Some(text.to_owned())
    }
}
