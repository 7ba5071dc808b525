//! Reference data: where it lies, what its index says, and the networks it was made with.

mod error;
mod index;
mod resnet;
mod root;
mod tensors;

pub use error::GoldenError;
pub use index::{Block, GoldenCase, Stem, golden_index, load_golden_index};
pub use root::golden_root;
pub use tensors::TensorFile;
