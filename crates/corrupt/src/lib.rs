//! Image stage: an [`Image`](flipcast_images::Image), a severity and a seed become a corrupted image.
//!
//! Takes 8-bit RGB images of any size; gives images of the same size, corrupted as ImageNet-C, Tiny-ImageNet-C,
//! CIFAR-10-C, ImageNet-C-bar, CIFAR-10-C-bar or CCC corrupt theirs, or by one of flipcast's own kinds to calibrate with, and
//! writes whole datasets in the published layouts.
//!
//! Guarantees:
//! - The result is a function of (image, corruption, severity, seed, image index); order and threads do not matter.
//! - Published semantics, quirks included: bytes are truncated and never rounded, glass blur copies instead of swapping,
//!   motion blur is one-sided. Drawing random fields and applying them are two functions, so that each corruption can be
//!   compared with the reference on the same field.
//! - No published image can be replayed: the published sets were made without recording a seed.
//!
//! Constants exist for 224, 64 and 32 pixels. Other sizes use the set that [`CorruptionSet::by_size`] names; lengths given
//! in pixels keep their values, and lengths given as a share of the side refer to the shorter one.
#![forbid(unsafe_code)]

pub mod blocks;
pub mod c_bar;
pub mod calibration;
pub mod ccc;
mod change;
mod corruptor;
mod dataset;
mod error;
pub mod frost_textures;
pub mod imagenet_c;
mod job;
mod poisson;
pub mod registry;
mod rng;
mod set;
mod spec;
mod storage;
pub mod write;

pub use calibration::CALIBRATION_KINDS;
pub use corruptor::{Corruptor, MAX_SIDE, corrupt};
pub use dataset::{CorruptionStep, DataSpec, StepError, published_storage};
pub use error::CorruptError;
pub use frost_textures::{FrostError, FrostTextures};
pub use poisson::Poisson;
pub use rng::{CounterRng, StreamKey};
pub use set::{CIFAR_SIDE_LIMIT, CorruptionSet, TINY_SIDE_LIMIT};
pub use spec::{CorruptionRequest, CorruptionSpec, Severity};
pub use storage::{STORED_QUALITY, Storage};
