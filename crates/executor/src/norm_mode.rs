use crate::ExecError;

/// Which statistics batch norms normalise with. Group and layer norms have only their own.
///
/// ```
/// use flipcast_executor::NormMode;
///
/// assert!(NormMode::Mixed { source_weight: 0.5 }.check().is_ok());
/// let wrong = NormMode::Mixed { source_weight: 2.0 }.check().unwrap_err();
/// assert!(wrong.to_string().contains('2'));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum NormMode {
    /// The running statistics stored with the weights.
    Running,
    /// Mean and biased variance of the batch.
    Batch,
    /// A mixture: `source_weight` of the running statistics, the rest from the batch, with its unbiased variance.
    Mixed {
        /// Share of the running statistics, in [0, 1].
        source_weight: f32,
    },
}

impl NormMode {
    /// Refuses a share outside [0, 1].
    pub fn check(self) -> Result<(), ExecError> {
        match self {
            Self::Mixed { source_weight } if !(0.0..=1.0).contains(&source_weight) => {
                Err(ExecError::SourceWeight { found: source_weight })
            }
            Self::Running | Self::Batch | Self::Mixed { .. } => Ok(()),
        }
    }
}
