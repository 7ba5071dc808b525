//! Image stage: files, archives and arrays become [`Image`]s and labels, and images become batches of pixels.
//!
//! Takes a path, a shard pattern or the name of a published dataset; gives [`Batch`](flipcast_tensor::Batch)es of
//! channels-last `f32` with ids and labels. The way there, and the module for each step:
//!
//! | step | module |
//! |---|---|
//! | find samples | [`dataset`], one file per layout; [`registry`] for published datasets by name |
//! | bytes to pixels | [`decode`], as Pillow's `convert('RGB')` |
//! | pixels to numbers | [`preprocess`], as Pillow and torchvision, settings from the weights |
//! | images to batches | [`loader`], on worker threads, in an order fixed by the seed |
//! | predictions to right or wrong | [`labelspace`] |
//! | what is in this path? | [`check`] |
//!
//! Guarantees: files are hostile until checked, so lengths are compared with what is there and sizes with limits before
//! memory is taken; a bad image is an error with its name, never a panic or a guess; batches do not depend on the
//! number of threads.
//!
//! ```no_run
//! use std::sync::Arc;
//! use flipcast_images::{dataset, loader::{Loader, LoaderConfig}, preprocess::Preprocess};
//!
//! let data = dataset::open("imagenet/val")?;
//! let config = LoaderConfig::new(Preprocess::torchvision_v1());
//! let mut loader = Loader::new(Arc::from(data), config)?;
//! while let Some(loaded) = loader.next_batch()? {
//!     println!("{} images, first {}", loaded.batch.images(), loaded.ids[0]);
//!     loader.recycle(loaded.batch);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

pub mod check;
pub mod dataset;
pub mod decode;
mod guard;
mod image;
mod label;
pub mod labelspace;
pub mod loader;
pub mod preprocess;
pub mod registry;
pub mod table;

pub use image::Image;
pub use label::Label;
