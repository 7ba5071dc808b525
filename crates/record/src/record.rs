use crate::{Protocol, checksum};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The format this version writes, and the newest it reads. Records of format 1 have no `check` and no `data`.
pub const FORMAT: u32 = 2;

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
    /// What the images were called where the protocol knows them by their content alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<String>,
    /// [`checksum`] of all the other fields.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check: Option<String>,
}

impl RunRecord {
    /// The record of `result` under `protocol`, by this version. The commit is the build's `FLIPCAST_COMMIT`.
    pub fn new(protocol: Protocol, result: Value, timing: Timing) -> Self {
        let record = Self {
            format: FORMAT,
            key: protocol.key(),
            kind: protocol.kind().to_owned(),
            protocol,
            result,
            flipcast: env!("CARGO_PKG_VERSION").to_owned(),
            commit: option_env!("FLIPCAST_COMMIT").map(str::to_owned),
            created: timing.created,
            seconds: timing.seconds,
            data: None,
            check: None,
        };
        record.sealed()
    }

    /// The same record, which tells what the images were called.
    #[must_use]
    pub fn with_data(self, data: &str) -> Self {
        Self { data: Some(data.to_owned()), ..self }.sealed()
    }

    /// What the images are called, if the protocol or the record says so.
    pub fn data(&self) -> Option<&str> {
        self.protocol.get("data").and_then(Value::as_str).or(self.data.as_deref())
    }

    fn sealed(self) -> Self {
        let value = serde_json::to_value(&self).expect("a record has text for keys and JSON for the rest");
        Self { check: Some(checksum(&value)), ..self }
    }
}
