//! Every corruption of every set, with its constants.
//!
//! ```
//! use flipcast_corrupt::CorruptionSet;
//! use flipcast_corrupt::registry::{find, names};
//!
//! assert_eq!(names(CorruptionSet::ImageNetC)[0], "gaussian_noise");
//! assert_eq!(find(CorruptionSet::ImageNetC, "gaussian_noise")?.rows[2], [0.18]);
//! let error = find(CorruptionSet::ImageNetC, "gausian_noise").expect_err("a letter is missing");
//! assert!(error.to_string().contains("nearest known: gaussian_noise"));
//! # Ok::<(), flipcast_corrupt::CorruptError>(())
//! ```

mod lookup;
mod table;

pub(crate) use lookup::find_any;
pub use lookup::{Entry, entries, find, names};
