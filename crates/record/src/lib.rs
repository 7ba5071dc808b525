//! Record stage: a protocol and a result become one line of a file that outlives the run.
//!
//! Takes a [`Protocol`], everything that defines a number, and the number; gives [`RunRecord`]s in a JSON Lines file
//! that can be appended to, read while it grows, and resumed after a kill at any moment. Predictions per image go to
//! files of their own, see [`predictions`]; what results hold is in [`results`].
//!
//! Guarantees: the same protocol has the same key whatever the order of its fields; a record is on disk when
//! [`RecordStore::append`] returns; a line that was cut off is dropped, and nothing else is ever dropped or rewritten;
//! a file under its final name is complete.
#![forbid(unsafe_code)]

mod atomic;
mod canonical;
mod claim;
mod difference;
mod error;
mod folder;
mod lines;
mod merge;
pub mod predictions;
mod protocol;
mod record;
mod records;
pub mod results;
mod store;

pub use atomic::write_atomically;
pub use canonical::{CHECK, canonical_json, checksum};
pub use claim::Claim;
pub use difference::{Difference, diff};
pub use error::RecordError;
pub use folder::RecordFolder;
pub use merge::{MergeConflict, merge_records, same_but_for_time};
pub use protocol::{Protocol, ProtocolError};
pub use record::{FORMAT, RunRecord, Timing};
pub use records::Records;
pub use store::RecordStore;
