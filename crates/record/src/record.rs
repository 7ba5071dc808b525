use crate::Protocol;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The format this version writes, and the newest it reads.
pub const FORMAT: u32 = 1;

/// When a run happened and how long it took. Part of a record, not of its key.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Timing {
    /// Seconds since 1970-01-01 UTC at which the result was known.
    pub created: u64,
    /// Seconds the run took.
    pub seconds: f64,
}

/// One result and everything that defines it: one line of a record file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunRecord {
    /// Version of this layout. Stands first, so that a line cut off behind it still shows its version.
    pub format: u32,
    /// [`Protocol::key`].
    pub key: String,
    /// What kind of run it was: `adapt`, `calibrate`, `estimate`.
    pub kind: String,
    /// What defines the result.
    pub protocol: Protocol,
    /// What was found.
    pub result: Value,
    /// Version of flipcast that ran.
    pub flipcast: String,
    /// Commit it was built from, if the build was told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// Seconds since 1970-01-01 UTC.
    pub created: u64,
    /// Seconds the run took.
    pub seconds: f64,
}

impl RunRecord {
    /// The record of `result` under `protocol`, by this version. The commit is the build's `FLIPCAST_COMMIT`.
    pub fn new(protocol: Protocol, result: Value, timing: Timing) -> Self {
        Self {
            format: FORMAT,
            key: protocol.key(),
            kind: protocol.kind().to_owned(),
            protocol,
            result,
            flipcast: env!("CARGO_PKG_VERSION").to_owned(),
            commit: option_env!("FLIPCAST_COMMIT").map(str::to_owned),
            created: timing.created,
            seconds: timing.seconds,
        }
    }
}
