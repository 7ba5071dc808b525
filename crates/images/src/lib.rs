//! Image stage: files, archives and arrays become [`Image`]s and labels, and images become batches of pixels.
#![forbid(unsafe_code)]

mod image;

pub use image::Image;
