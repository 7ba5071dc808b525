//! Dataset to batches on worker threads.
//!
//! Workers read, decode, transform and preprocess single images a bounded number ahead of the consumer; the consumer
//! puts them together in order. Order and shuffling are a function of the seed alone, so neither the number of
//! threads nor their scheduling can change a batch.

mod batches;
mod config;
mod error;
mod order;
mod queue;
mod worker;

pub use batches::{LoadedBatch, Loader, Skipped};
pub use config::{LoaderConfig, OnBadImage, Transform, TransformError};
pub use error::{BadImage, BadImageCause, LoadError};
pub use order::Order;
pub(crate) use order::draw_below;
