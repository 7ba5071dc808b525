//! [`Image`](crate::Image)s to the numbers a network takes: resize, centre crop, normalise.
//!
//! The settings belong to the weights. Resampling equals Pillow's 8-bit arithmetic bit for bit, so that an image gets
//! the same bytes here as in a torchvision or timm pipeline; normalisation is a table of 256 entries a channel.
//! Values are written channels-last, `[y][x][channel]`.

mod apply;
mod change;
mod config;
mod crop;
mod error;
mod float_bilinear;
mod normalise;
mod resample;

pub use change::PreprocessChange;
pub use config::{Interpolation, Preprocess, Resize, Size};
pub use error::PreprocessError;
pub use normalise::Normalise;
pub use resample::{PassOrder, resize};
