use flipcast_exec::ExecError;

/// Why a step could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AdaptError {
    /// The network failed.
    #[error("the network could not run the batch")]
    Exec(#[from] ExecError),
    /// A setting is outside its range.
    #[error("{setting} is {found}, expected {expected}")]
    Setting {
        /// The setting.
        setting: &'static str,
        /// Its value.
        found: f64,
        /// The allowed range.
        expected: &'static str,
    },
    /// The network has no norm layer with a scale and shift, or the method leaves all of them alone.
    #[error(
        "the network has no normalisation layer the method may change, so there is nothing to adapt"
    )]
    NothingToAdapt,
    /// The method must see clean images before its first step.
    #[error("`{method}` was asked for a step before it was prepared on clean images")]
    NotPrepared {
        /// The method.
        method: &'static str,
    },
    /// There is no method of this name.
    #[error(
        "there is no method `{name}`; the nearest names are {}",
        quoted(nearest)
    )]
    UnknownMethod {
        /// The name asked for.
        name: String,
        /// The most similar names.
        nearest: Vec<&'static str>,
    },
}

impl AdaptError {
    /// What to do about it, where there is something.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::NotPrepared { .. } => {
                Some("give it batches of clean images first, or use `eta`, which needs none")
            }
            Self::NothingToAdapt => Some("use `source`, which changes nothing"),
            Self::Exec(_) | Self::Setting { .. } | Self::UnknownMethod { .. } => None,
        }
    }

    /// An error that names the setting, unless it is `ok`.
    pub(crate) fn unless(
        ok: bool,
        setting: &'static str,
        found: f64,
        expected: &'static str,
    ) -> Result<(), Self> {
        if ok {
            return Ok(());
        }
        Err(Self::Setting {
            setting,
            found,
            expected,
        })
    }
}

fn quoted(names: &[&'static str]) -> String {
    let quoted: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
    quoted.join(", ")
}
