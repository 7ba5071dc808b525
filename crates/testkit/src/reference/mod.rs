//! A plain `f64` interpreter of a graph, forward and back, one node after the other, as a textbook would write it.

mod activation;
mod attention;
mod backward;
mod conv;
mod crossings;
mod dense;
mod error;
mod interpreter;
mod kinks;
mod norm;
mod pool;
mod run;
mod statistics;
mod tokens;
mod value;

pub use crossings::{Crossing, crossing_taps};
pub use error::ReferenceError;
pub use interpreter::Reference;
pub use norm::ReferenceNorm;
pub use run::ReferenceRun;
pub use value::ReferenceValue;
