//! The published datasets by name: where their files lie below a root folder, which splits and classes they have, how
//! many images, and what must happen to their pixels.

mod info;
mod open;
mod table;

pub use info::{Count, DatasetInfo, Group, PixelRule, Splits};
pub use open::{CountRule, Named, find, open_named};
pub(crate) use table::is_corruption;
pub use table::{DATASETS, datasets};
