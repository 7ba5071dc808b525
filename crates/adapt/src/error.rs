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
    /// The network has no norm layer with a scale and shift.
    #[error("the network has no normalisation layer, so there is nothing to adapt")]
    NothingToAdapt,
}
