//! Where images come from. Every layout is read through one trait, [`Dataset`]: a numbered list of samples, each an
//! id, the encoded bytes or the pixels, and a label if there is one. Archives are indexed once and
//! read in place, so any order costs the same; only gzipped tars are unpacked, into a temporary file.
//!
//! [`open`] finds out the layout of a path; a [`Part`] behind it chooses training or test images, or a half, as in
//! `cifar10#train#first-half:7`. [`Subset`] takes any list of images, and [`InMemory`] those a program has made.
//!
//! `s3://bucket/prefix`, `gs://` and `az://` are read as folders are, in builds with the feature `objects`; [`list_objects`] keeps their names in a file that is read in their place.
//!
//! Files are taken as hostile: declared lengths are compared with what is there before memory is taken.

mod address;
mod archive;
mod arrays;
mod bytes_at;
mod cifar;
mod classes;
mod error;
mod evenly;
mod files;
mod folder;
mod halves;
mod idx;
mod ignored;
mod in_memory;
mod kind;
mod list;
mod npy;
mod npy_header;
mod npz;
mod object_list;
#[cfg(feature = "objects")]
mod objects;
#[cfg(not(feature = "objects"))]
#[path = "objects_left_out.rs"]
mod objects;
mod open;
mod parquet;
mod parquet_columns;
mod part;
mod pixels;
mod png_rows;
mod relabelled;
mod sample;
mod shards;
mod subset;
mod tar_index;
mod webdataset;
mod zip_index;

use address::Address;
pub use address::{is_address, local_path};
pub use arrays::ImageArray;
pub(crate) use bytes_at::{FileAt, open_regular};
pub use classes::{ClassRule, are_numbers};
pub use error::DataError;
pub use evenly::{spread_evenly, take_evenly};
pub use files::ImageFiles;
pub use halves::{Half, split_halves};
pub use ignored::Ignored;
pub use in_memory::InMemory;
pub use kind::Layout;
pub use npy::Severity;
pub(crate) use npy_header::{Kind, NpyHeader};
pub(crate) use npz::unpack_array;
pub use object_list::list_objects;
pub use open::{OpenOptions, Split, open, open_with};
pub use parquet::Parquet;
pub use part::Part;
pub use relabelled::Relabelled;
pub use sample::{Dataset, Payload, Sample};
pub use shards::expand_shards;
pub use subset::Subset;
pub use webdataset::WebDataset;
pub(crate) use zip_index::{names_in, open_zip};
