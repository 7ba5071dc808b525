//! CCC, the continuously changing corruptions: pairs of corruptions at fractional severity, walked through smoothly.
//!
//! A stream goes from pair to pair ([`PairSequence`]); within a pair it follows a walk over the two severities
//! ([`AccuracyTable::walk`]) on which a ResNet-50 keeps a target accuracy; every cell of the walk shows a fixed number of
//! images ([`StreamPlan`]), each flipped and cropped at random ([`View`]), corrupted twice and stored as a JPEG
//! ([`Cell::corrupt`]).
//!
//! The walks need a table of ResNet-50 accuracies per ordered pair, 21 x 21 severities. The authors' tables were
//! distributed from their server only and are **not available here**: pass your own, measured or interpolated, and say so
//! with any result. [`load_tables`] reads them from a JSON file:
//!
//! ```json
//! {"flipcast_accuracy_tables": 1, "tables": {"gaussian_noise+shot_noise": [[76.1, 75.9], [75.8, 75.5]]}}
//! ```
//!
//! A key joins the corruption applied first and the one applied second. Its table has 21 rows of 21 numbers (the example
//! is cut short): row `i`, column `j` is the accuracy in per cent, 0 to 100, on images with the first corruption at severity
//! `i / 4` and the second at `j / 4`, as [`Cell::corrupt`] makes them. Only pairs the stream goes through are needed.
//!
//! The published streams cannot be replayed in any case, because the choice of images depended on the
//! directory order and the number of processes.

mod constants;
mod pairs;
mod python_random;
mod quarter;
mod stream;
mod tables;
mod view;
mod walk;

pub use constants::constants_at;
pub use pairs::{Difficulty, Pair, PairSequence};
pub use quarter::QuarterSeverity;
pub use stream::{Cell, PlanError, Speed, StreamPlan};
pub use tables::{TablesError, load_tables, read_tables};
pub use view::View;
pub use walk::{AccuracyTable, SEVERITIES, TableError};
