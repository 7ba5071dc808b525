//! Whole corrupted datasets in the published layouts.
//!
//! - [`write_folder`]: `<corruption>/<severity>/<class>/<name>.JPEG`, JPEG of quality 85, as ImageNet-C; the C-bar sets
//!   name the severity folder after the severity number with two decimals.
//! - [`write_arrays`]: `<corruption>.npy`, bytes of shape 5N x H x W x 3 with severity 1 first, and `labels.npy` with the
//!   labels five times over, as CIFAR-10-C.
//!
//! - [`write_shards`]: `baseline_B_transition+speed_S_seed_X/serial_00000.tar` and so on, WebDataset shards of JPEG files of
//!   quality 85, their labels and how each was made, in the order of the stream, as CCC.
//!
//! All can be stopped at any moment and started again: finished files are kept, a file under its final name is always
//! whole, and a folder written with other settings is refused. One run writes a folder at a time; a second one is refused.

mod arrays;
mod atomic;
mod error;
mod folder;
mod npy;
mod parallel;
mod progress;
mod settings;
mod shard_file;
mod shards;
mod source;

pub use arrays::write_arrays;
pub use error::WriteError;
pub use folder::write_folder;
pub use progress::{Progress, WriteOptions};
pub use shards::{stream_folder, stream_images, write_shards};
pub use source::ImageSource;
