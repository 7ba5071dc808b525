//! Small named networks, one or more per operator and per pattern an executor may fuse, and random ones.
//!
//! Sizes are irregular on purpose: oblong images, channels that fill no vector register, scales that are not 1 (some
//! are negative) and shifts that are not 0.

mod activations;
mod blocks;
mod case;
mod convolutions;
mod norms;
mod pools;
mod random_graph;
mod sketch;
mod tokens;

pub use case::{Case, cases};
pub use random_graph::random_graph;
