//! How often the classes occur: assumed, given, or estimated from unlabelled images.

mod bbse;
mod em;
mod kind;
mod mismatch;
mod reference;

pub use kind::Marginal;
pub use mismatch::{MarginalMismatch, measure_mismatch};
pub use reference::{Confusion, MarginalReference};
