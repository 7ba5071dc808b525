//! Streams of images: tests that may be looked at after every image, and what a few labels say at any time.

mod classes;
mod confidence_sequence;
mod rank_test;
mod reference;
mod wealth;

pub use classes::ClassTest;
pub use confidence_sequence::ConfidenceSequence;
pub use rank_test::RankTest;
pub use reference::{FLIP_BATCH, ShiftReference};
pub use wealth::Wealth;
