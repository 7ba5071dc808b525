use flipcast_ground::Hint;
use flipcast_run::RunError;
use flipcast_run::monitor::MonitorError;
use flipcast_run::open::OpenError;
use std::io;
use std::path::PathBuf;

/// Why the monitor cannot start or go on.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The address cannot be listened on.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address.
        address: String,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// An address that others can reach, and nothing that keeps them out.
    #[error("{address} can be reached from other machines, but no token is set")]
    Unprotected {
        /// The address.
        address: String,
    },
    /// A setting outside its range.
    #[error("{setting} is `{found}`, expected {expected}")]
    Setting {
        /// The setting.
        setting: &'static str,
        /// Its value.
        found: String,
        /// What is allowed.
        expected: &'static str,
    },
    /// The file of the state cannot be used.
    #[error("the state in `{path}` cannot be used")]
    Store {
        /// The file.
        path: PathBuf,
        /// What the database said.
        #[source]
        source: Box<redb::Error>,
    },
    /// The folder of the state cannot be made.
    #[error("the folder `{path}` cannot be made")]
    Folder {
        /// The folder.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The state belongs to another calibration.
    #[error("the state in `{path}` was made with another {what}")]
    OtherState {
        /// The file.
        path: PathBuf,
        /// What differs.
        what: &'static str,
    },
    /// A folder that cannot be watched.
    #[error("the folder `{path}` cannot be watched")]
    Watch {
        /// The folder.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A certificate or key that cannot be used.
    #[error("`{path}` cannot be used for encryption: {reason}")]
    Tls {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// Encryption is asked for, and this build has none.
    #[error("this build leaves out encryption")]
    NoTls,
    /// A stored event that no version wrote.
    #[error("the state holds an event of stream `{stream}` that cannot be read: {reason}")]
    Event {
        /// The stream.
        stream: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A thread or runtime could not be started.
    #[error("the system gives no thread")]
    Thread(#[source] io::Error),
    /// The model has no rule for images.
    #[error("the model cannot be served")]
    Model {
        /// What is missing.
        #[source]
        source: Box<OpenError>,
    },
    /// Streams cannot be watched with this calibration.
    #[error("streams cannot be watched")]
    Monitor(#[from] MonitorError),
    /// The network cannot run.
    #[error("the model cannot be served")]
    Run(#[from] RunError),
}

impl Hint for ServeError {
    fn hint(&self) -> Option<String> {
        match self {
            Self::Unprotected { .. } => Some("set a token for writing, or listen on 127.0.0.1".to_owned()),
            Self::OtherState { .. } => Some("give another folder for the state, or what it was made with".to_owned()),
            Self::Monitor(source) => source.hint(),
            Self::Run(source) => source.hint(),
            Self::Listen { .. } => Some("is another program listening there? Choose another port".to_owned()),
            Self::Model { source } => source.hint(),
            Self::NoTls => Some("build it with the feature `tls`, or put a proxy in front".to_owned()),
            Self::Tls { .. } => Some("certificate and key are PEM files, the key without a password".to_owned()),
            Self::Setting { .. }
            | Self::Store { .. }
            | Self::Folder { .. }
            | Self::Watch { .. }
            | Self::Event { .. }
            | Self::Thread(_) => None,
        }
    }
}
