//! Estimates of datasets too large for one machine: every shard of the images gives a [`Part`], and parts are joined to the estimate of the whole.
//!
//! An image belongs to a shard by a hash of its name, so that every shard is a random sample of the whole. A part holds
//!
//! - sums over all images of its shard, which join exactly: images, unreadable ones, answers by class, right answers, confidence, entropy;
//! - the outputs of the images whose keys, other hashes of their names, are the smallest. The smallest keys of all parts are the smallest keys of the
//!   whole, so that the joined sample is the one that a single run would draw, whatever the number of shards;
//! - the second look at the images with the smallest keys of all;
//! - in the part of the first shard, what adaptation did: it takes a fixed number of images, however many there are.
//!
//! Estimators that need every image at once (transport, norms of the whole matrix) work on the joined sample, and intervals count its size. Where the sample holds all images, only
//! the second look and the adaptation differ from an estimate without shards, by which images they draw.

mod census;
mod error;
mod file;
mod make;
mod merge;
mod part;

pub use census::Census;
pub use error::PartError;
pub use make::{DEFAULT_SAMPLE, PartPlan};
pub use merge::{Merged, merge_parts};
pub use part::{PART_FORMAT, Part, Sums};
