use flipcast_adapt::{GuardAction, GuardReason, GuardState};
pub use flipcast_record::results::Ending;
use serde::{Deserialize, Serialize};

/// Something the guard saw.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GuardEvent {
    /// Batches before it, its own included.
    pub batch: usize,
    /// The verdict.
    pub state: GuardState,
    /// What was done about it; `None` for a mere warning or an all-clear.
    pub action: Option<GuardAction>,
    /// What the verdict rests on.
    pub reasons: Vec<GuardReason>,
}

/// What an adaptation run did. Shares are fractions.
pub type AdaptSummary = flipcast_record::results::AdaptSummary<GuardEvent>;
