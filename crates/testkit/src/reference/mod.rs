//! A plain `f64` interpreter of a graph: forward only, one node after the other, as a textbook would write it.

mod activation;
mod conv;
mod dense;
mod error;
mod interpreter;
mod kinks;
mod norm;
mod pool;
mod run;
mod value;

pub use error::ReferenceError;
pub use interpreter::Reference;
pub use norm::ReferenceNorm;
pub use run::ReferenceRun;
pub use value::ReferenceValue;
