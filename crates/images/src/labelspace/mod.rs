//! Class spaces: when is a network's prediction right on a dataset that has other classes than the network?
//!
//! A [`LabelSpace`] says what a label means and which network outputs count for it; a [`ClassSpace`] adds how the
//! network decides (over all outputs, over the listed ones, over class means) and so fixes the number of classes `K`.
//! The built-in tables are data files with their sources; see `data/README.md`.

mod builtin;
mod class_space;
mod error;
mod file;
mod space;

pub use builtin::{builtin, builtin_names, imagenet_index_of_wnid, imagenet_name, imagenet_wnid};
pub use class_space::{ClassSpace, Decision};
pub use error::LabelError;
pub use space::{FolderClass, LabelFrom, LabelSpace, Rule, SpaceClass};
