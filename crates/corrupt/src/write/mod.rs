//! Whole corrupted datasets in the published layouts.
//!
//! - [`write_folder`]: `<corruption>/<severity>/<class>/<name>.JPEG`, JPEG of quality 85, as ImageNet-C; the C-bar sets
//!   name the severity folder after the severity number with two decimals.
//! - [`write_arrays`]: `<corruption>.npy`, bytes of shape 5N x H x W x 3 with severity 1 first, and `labels.npy` with the
//!   labels five times over, as CIFAR-10-C.
//!
//! Both can be stopped at any moment and started again: finished files are kept, a file under its final name is always
//! whole, and a folder written with other settings is refused. One process writes a folder at a time.

mod arrays;
mod atomic;
mod error;
mod folder;
mod npy;
mod progress;
mod settings;
mod source;

pub use arrays::write_arrays;
pub use error::WriteError;
pub use folder::write_folder;
pub use progress::{Progress, WriteOptions};
pub use source::ImageSource;
