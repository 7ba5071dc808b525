use crate::figures::FIGURES;
use flipcast_ground::{Hint, nearest_quoted};
use flipcast_record::RecordError;
use std::path::PathBuf;

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// A record file is missing, damaged or newer.
    #[error("the records cannot be read")]
    Records {
        /// Why.
        #[source]
        source: RecordError,
    },
    /// A folder cannot be listed.
    #[error("cannot list `{path}`")]
    Folder {
        /// The folder.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// A folder without record files.
    #[error("`{path}` holds no file that ends in `.jsonl` or `.jsonl.gz`")]
    NoFiles {
        /// The folder.
        path: PathBuf,
    },
    /// The file of a paper's items cannot be read.
    #[error("cannot read `{path}`")]
    Items {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The file of a paper's items is not what it should be.
    #[error("`{path}` holds no items of a paper: {problem}")]
    ItemsText {
        /// The file.
        path: PathBuf,
        /// Where and why.
        problem: String,
    },
    /// Nothing in the records can be shown.
    #[error("none of the records that were read is of a kind a report shows: {found} in all")]
    NothingToShow {
        /// How many there are.
        found: usize,
    },
    /// There is no such figure.
    #[error("there is no figure `{name}`, expected one of {}", names())]
    UnknownFigure {
        /// What was asked for.
        name: String,
    },
    /// The records do not hold what a figure shows.
    #[error("no record holds what the figure `{name}` shows")]
    EmptyFigure {
        /// The figure.
        name: &'static str,
        /// Which commands write such records.
        commands: &'static [&'static str],
    },
    /// A frame that is not there.
    #[error("frame {found} was asked for, but `{name}` has {frames}")]
    Frame {
        /// The figure.
        name: &'static str,
        /// The frame, from 1.
        found: usize,
        /// How many there are.
        frames: usize,
    },
    /// There is no such table.
    #[error("there is no table `{name}`, expected one of {known}")]
    UnknownTable {
        /// What was asked for.
        name: String,
        /// Those there are.
        known: String,
    },
    /// A picture too small or too large to be made.
    #[error(
        "a picture of {width} x {height} pixels was asked for, expected at least 1 x 1 and at most 100 million pixels"
    )]
    Size {
        /// Pixels.
        width: f64,
        /// Pixels.
        height: f64,
    },
    /// The picture cannot be encoded.
    #[error("the picture cannot be written as PNG")]
    Png {
        /// Why.
        #[source]
        source: png::EncodingError,
    },
}

fn names() -> String {
    let names: Vec<String> = FIGURES.iter().map(|f| format!("`{}`", f.name)).collect();
    names.join(", ")
}

impl Hint for ReportError {
    fn hint(&self) -> Option<String> {
        match self {
            Self::Records { source } => source.hint(),
            Self::NoFiles { .. } => Some("give the record files of runs, or the folder that holds them".to_owned()),
            Self::NothingToShow { .. } => Some(
                "`flipcast estimate`, `flipcast adapt`, `flipcast study run` and `flipcast analyse` write records that are shown"
                    .to_owned(),
            ),
            Self::UnknownFigure { name } => {
                let nearest = nearest_quoted(name, FIGURES.iter().map(|figure| figure.name));
                Some(format!("the nearest are {nearest}"))
            }
            Self::EmptyFigure { commands, .. } => Some(match commands {
                [command] => format!("`{command}` writes such records"),
                several => format!("`{}` write such records", several.join("` and `")),
            }),
            Self::Items { .. } => Some("give the text file that lists a paper's tables and figures".to_owned()),
            Self::Folder { .. }
            | Self::ItemsText { .. }
            | Self::Frame { .. }
            | Self::UnknownTable { .. }
            | Self::Size { .. }
            | Self::Png { .. } => None,
        }
    }
}
