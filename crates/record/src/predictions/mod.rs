//! Predictions, one row per image, in a table other programs can read.
//!
//! Rows are written batch by batch under `<name>.partial`; the file gets its own name when it is complete. CSV and JSON
//! Lines hold whole rows at any moment, so that a killed run leaves a file that can be read; a Parquet file can be read
//! once it was closed.

mod csv;
mod error;
mod format;
mod jsonl;
mod parquet;
mod row;
mod writer;

pub use error::PredictionError;
pub use format::Format;
pub use row::PredictionRow;
pub use writer::PredictionWriter;
