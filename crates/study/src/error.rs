use flipcast_record::{ProtocolError, RecordError};
use flipcast_run::{Device, RunError};

/// Why a study cannot be planned or go on.
#[derive(Debug, thiserror::Error)]
pub enum StudyError {
    /// The plan is no TOML, or not a plan.
    #[error("line {line}, column {column} of the plan: {message}")]
    Syntax {
        /// From 1.
        line: usize,
        /// From 1.
        column: usize,
        /// What the reader found and expected.
        message: String,
    },
    /// A name that stands for nothing.
    #[error("line {line}, column {column} of the plan: no {what} is called `{name}`, expected one such as {nearest}")]
    Unknown {
        /// From 1.
        line: usize,
        /// From 1.
        column: usize,
        /// What was looked for.
        what: &'static str,
        /// The name.
        name: String,
        /// Names that resemble it.
        nearest: String,
    },
    /// A setting that does not go together with the rest.
    #[error("{what} `{name}` of the plan: {problem}")]
    Entry {
        /// What kind of entry.
        what: &'static str,
        /// Its name.
        name: String,
        /// Found and expected.
        problem: String,
    },
    /// A setting of an entry that its own reader refuses.
    #[error("{what} `{name}` of the plan cannot be used")]
    Setting {
        /// What kind of entry.
        what: &'static str,
        /// Its name.
        name: String,
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// No device, or devices whose records differ.
    #[error("the cells would run on {found:?}, expected one device or several that compute in the same arithmetic")]
    Workers {
        /// The devices.
        found: Vec<Device>,
    },
    /// A unit could not be described.
    #[error("the settings cannot be recorded")]
    Protocol(#[from] ProtocolError),
    /// Records could not be read or written.
    #[error("the records cannot be used")]
    Store(#[from] RecordError),
    /// What ends a study as a whole.
    #[error("the study cannot go on")]
    Run(#[from] RunError),
}

impl StudyError {
    pub(crate) fn entry(what: &'static str, name: &str, problem: impl Into<String>) -> Self {
        Self::Entry { what, name: name.to_owned(), problem: problem.into() }
    }

    pub(crate) fn setting(
        what: &'static str,
        name: &str,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self::Setting { what, name: name.to_owned(), source: source.into() }
    }
}
