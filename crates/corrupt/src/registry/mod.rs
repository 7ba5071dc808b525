//! Every corruption of every set, with its constants.

mod lookup;
mod nearest;
mod table;

pub(crate) use lookup::find_any;
pub use lookup::{Entry, entries, find, names};
