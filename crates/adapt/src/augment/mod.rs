//! Changed views of a batch: what CoTTA and ROID average or compare over, and what DeYO destroys.
//!
//! A batch comes and goes in the values the network takes; the colours are changed as pixels from 0 to 1. One draw holds for
//! all images of a batch, as in the published code, but for noise and for the order of patches.

mod apply;
mod colour;
mod config;
mod geometry;
mod patches;

pub use config::{AugmentConfig, Padding, PixelSpace};

pub(crate) use apply::augment;
pub(crate) use patches::{shuffle_patches, take_images};
