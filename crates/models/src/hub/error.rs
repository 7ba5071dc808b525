use crate::ArchitectureError;
use crate::text::shown;
use flipcast_ground::Hint;
use flipcast_images::preprocess::PreprocessError;

/// Why the folder of a hub cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum HubError {
    /// A folder of something else.
    #[error("the folder has no `config.json`, which tells what its weights are")]
    NoConfig,
    /// A folder without weights.
    #[error("the folder has none of {expected}")]
    NoWeights {
        /// Names looked for.
        expected: String,
    },
    /// A configuration of something else.
    #[error("`config.json` has neither `architecture`, as timm's, nor `model_type`, as those of Transformers")]
    UnknownConfig,
    /// The operating system refused.
    #[error("cannot read `{path}`")]
    Read {
        /// The file.
        path: String,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// Not JSON, or fields of the wrong kind.
    #[error("`{path}` is malformed")]
    Json {
        /// The file.
        path: String,
        /// Where and why.
        #[source]
        source: serde_json::Error,
    },
    /// A setting that is not understood.
    #[error("the configuration's `{field}` is `{found}`, expected {expected}")]
    Setting {
        /// The field.
        field: &'static str,
        /// Its text, shortened.
        found: String,
        /// What is understood.
        expected: String,
    },
    /// No such architecture here.
    #[error("the configuration's architecture is not known")]
    Architecture {
        /// What is wrong with it.
        #[source]
        source: ArchitectureError,
    },
    /// The preprocessing cannot work.
    #[error("the configuration's preprocessing cannot work")]
    Preprocess {
        /// The setting at fault.
        #[source]
        source: PreprocessError,
    },
}

impl HubError {
    pub(super) fn setting(field: &'static str, found: &str, expected: impl Into<String>) -> Self {
        Self::Setting { field, found: shown(found), expected: expected.into() }
    }
}

impl Hint for HubError {
    fn hint(&self) -> Option<String> {
        match self {
            Self::Architecture { .. } | Self::Setting { .. } | Self::UnknownConfig => Some(
                "any network can be exported in Python with `torch.export` and used as a `.pt2` file; \
                 docs/exported-programs.md says how"
                    .into(),
            ),
            Self::NoConfig | Self::NoWeights { .. } => {
                Some("give the folder as the hub has it, or the weight file itself".into())
            }
            Self::Read { .. } | Self::Json { .. } | Self::Preprocess { .. } => None,
        }
    }
}
