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
    /// Mean and biased variance of the batch in the first norms, the running statistics in the others. What first layers see depends on how images look, and hardly on the classes that
    /// are among them.
    Early {
        /// Share of the norms that take the batch's, in [0, 1], rounded up to whole norms.
        share: f32,
    },
}

/// What one batch norm normalises with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum NormStatistics {
    /// Its running statistics.
    Running,
    /// Mean and biased variance of the batch.
    Batch,
    /// `source_weight` of its running statistics, the rest from the batch, with its unbiased variance.
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
            Self::Early { share } if !(0.0..=1.0).contains(&share) => Err(ExecError::EarlyShare { found: share }),
            Self::Running | Self::Batch | Self::Mixed { .. } | Self::Early { .. } => Ok(()),
        }
    }

    /// What the norm at `index` of `norms` normalises with, in the order of the graph.
    ///
    /// ```
    /// use flipcast_executor::{NormMode, NormStatistics};
    ///
    /// let early = NormMode::Early { share: 0.25 };
    /// let first = [0, 1, 2].map(|index| early.of_norm(index, 8));
    /// assert_eq!(first, [NormStatistics::Batch, NormStatistics::Batch, NormStatistics::Running]);
    /// assert_eq!(NormMode::Batch.of_norm(7, 8), NormStatistics::Batch);
    /// ```
    pub fn of_norm(self, index: usize, norms: usize) -> NormStatistics {
        match self {
            Self::Running => NormStatistics::Running,
            Self::Batch => NormStatistics::Batch,
            Self::Mixed { source_weight } => NormStatistics::Mixed { source_weight },
            Self::Early { share } if index < (f64::from(share) * norms as f64).ceil() as usize => NormStatistics::Batch,
            Self::Early { .. } => NormStatistics::Running,
        }
    }
}
