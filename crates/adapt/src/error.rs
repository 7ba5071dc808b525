use flipcast_executor::{ExecError, SettingError};
use flipcast_ground::Hint;

/// Why a step could not be made.
#[derive(Debug, thiserror::Error)]
pub enum AdaptError {
    /// The network failed.
    #[error("the network could not run the batch")]
    Exec(#[from] ExecError),
    /// A setting is outside its range.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// The network has no norm layer with a scale and shift, or the method leaves all of them alone.
    #[error("the network has no normalisation layer the method may change, so there is nothing to adapt")]
    NothingToAdapt,
    /// The rule of what adapts leaves every norm layer alone.
    #[error("`{rule}` selects none of the network's {layers} norm layers, which are {kinds}")]
    NothingSelected {
        /// The rule.
        rule: String,
        /// Norm layers of the network.
        layers: usize,
        /// What they are.
        kinds: String,
    },
    /// A listed layer does not exist.
    #[error("the network has no norm layer `{name}` and none below it; the nearest names are {nearest}")]
    UnknownLayer {
        /// The name asked for.
        name: String,
        /// The most similar names, quoted.
        nearest: String,
    },
    /// There is no rule of this name for what adapts.
    #[error("there is no rule `{name}` for what adapts, expected `all-norm`, `batch-norm`, `sar` or `list:` and names")]
    UnknownParamRule {
        /// The name asked for.
        name: String,
    },
    /// A method that replaces running statistics met a network without any.
    #[error("`{method}` replaces the running statistics of batch norms, but the network has no batch norm")]
    NoStatistics {
        /// The method.
        method: &'static str,
    },
    /// The method must see clean images before its first step.
    #[error("`{method}` was asked for a step before it was prepared on clean images")]
    NotPrepared {
        /// The method.
        method: &'static str,
    },
    /// There is no method of this name.
    #[error("there is no method `{name}`; the nearest names are {nearest}")]
    UnknownMethod {
        /// The name asked for.
        name: String,
        /// The most similar names, quoted.
        nearest: String,
    },
}

impl Hint for AdaptError {
    fn hint(&self) -> Option<String> {
        let advice = match self {
            Self::NotPrepared { .. } => "give it batches of clean images first, or use `eta`, which needs none",
            Self::NothingToAdapt => "use `source`, which changes nothing",
            Self::NothingSelected { .. } => "let every norm layer adapt with `all-norm`",
            Self::UnknownParamRule { .. } => "a list holds layers or modules: `list:layer1,layer2.0.bn1`",
            Self::NoStatistics { .. } => {
                "layer and group norms take their statistics from the image itself: use `source`, or a method that changes \
                 scales and shifts, such as `tent`"
            }
            // What failed inside gives its own advice, further down the chain.
            Self::Exec(_) | Self::Setting(_) | Self::UnknownMethod { .. } | Self::UnknownLayer { .. } => return None,
        };
        Some(advice.to_owned())
    }
}

impl AdaptError {
    /// An error that names the setting, unless it is `ok`.
    pub(crate) fn unless(ok: bool, setting: &'static str, found: f64, expected: &'static str) -> Result<(), Self> {
        Ok(SettingError::unless(ok, setting, found, expected)?)
    }
}
