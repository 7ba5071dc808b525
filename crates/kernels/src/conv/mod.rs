//! Convolutions with frozen weights, forward and backward to their input.
//!
//! Both directions are the same computation with other taps: see [`pass`]. Four algorithms share the fill that reads
//! the input (with norm and activation folded in) and the sink that writes the output (with statistics gathered):
//! pointwise (1x1), Winograd (3x3), depthwise, and direct for everything else.

mod algorithm;
mod chunks;
mod depthwise;
mod direct;
mod pass;
mod pointwise;
mod prepared;
mod shape;
mod window;
mod winograd;

pub use chunks::{Chunk, Chunking};
pub(crate) use flipcast_graph::ConvShape;
pub use prepared::Conv;
pub use shape::Exactness;
