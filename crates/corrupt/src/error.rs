//! What can be wrong with a request to corrupt an image.

use flipcast_ground::Hint;

use crate::set::CorruptionSet;

/// A request that cannot be carried out.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum CorruptError {
    /// The name is in no set, or not in the one asked for.
    #[error("unknown corruption `{name}`{}, nearest known: {}", in_set(*.set), .nearest.join(", "))]
    UnknownCorruption {
        /// What was asked for.
        name: String,
        /// Where it was looked for; `None` for all sets.
        set: Option<CorruptionSet>,
        /// Known names, most similar first.
        nearest: Vec<&'static str>,
    },
    /// The set does not exist.
    #[error("unknown corruption set `{name}`, known: {}", .known.join(", "))]
    UnknownSet {
        /// What was asked for.
        name: String,
        /// All names.
        known: Vec<&'static str>,
    },
    /// The severity is not one of the published five.
    #[error("severity `{found}` found, but 1, 2, 3, 4 or 5 expected")]
    BadSeverity {
        /// What was found.
        found: String,
    },
    /// The severity of a smoothly varying corruption is not a quarter step.
    #[error("severity {found} found, but a multiple of 0.25 from 0 to 5 expected")]
    BadQuarterSeverity {
        /// What was found.
        found: f64,
    },
    /// The text is no corruption.
    #[error("`{found}` found, but `NAME:SEVERITY` or `SET/NAME:SEVERITY` expected, such as `gaussian_noise:3`")]
    MalformedSpec {
        /// What was found.
        found: String,
    },
    /// The storage step does not exist.
    #[error("storage step `{found}` found, but `none` or `jpeg85` expected")]
    UnknownStorage {
        /// What was found.
        found: String,
    },
    /// What follows the severity is no setting.
    #[error("`{found}` found behind the severity, but `storage=none` or `storage=jpeg85` expected")]
    UnknownSetting {
        /// What was found.
        found: String,
    },
    /// The image has no pixels.
    #[error("image of {width} x {height} pixels found, but at least 1 x 1 expected")]
    EmptyImage {
        /// Pixels across.
        width: usize,
        /// Pixels down.
        height: usize,
    },
    /// The image is too large to be corrupted in memory.
    #[error("image of {width} x {height} pixels found, but sides of at most {limit} expected")]
    ImageTooLarge {
        /// Pixels across.
        width: usize,
        /// Pixels down.
        height: usize,
        /// Longest side allowed.
        limit: usize,
    },
}

impl Hint for CorruptError {
    fn hint(&self) -> Option<String> {
        let advice = match self {
            Self::UnknownCorruption { .. } => "published names keep their spelling, typos included",
            Self::BadSeverity { .. } => "fractional severities exist only in the smoothly varying set `ccc`",
            Self::ImageTooLarge { .. } => "resize and crop the images first, as the published sets do",
            Self::UnknownSet { .. }
            | Self::BadQuarterSeverity { .. }
            | Self::MalformedSpec { .. }
            | Self::UnknownStorage { .. }
            | Self::UnknownSetting { .. }
            | Self::EmptyImage { .. } => return None,
        };
        Some(advice.to_owned())
    }
}

fn in_set(set: Option<CorruptionSet>) -> String {
    set.map(|set| format!(" in set `{}`", set.name())).unwrap_or_default()
}
