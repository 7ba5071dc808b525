//! CCC, the continuously changing corruptions: pairs of corruptions at fractional severity, walked through smoothly.
//!
//! A stream goes from pair to pair ([`PairSequence`]); within a pair it follows a walk over the two severities
//! ([`AccuracyTable::walk`]) on which a ResNet-50 keeps a target accuracy; every cell of the walk shows a fixed number of
//! images ([`StreamPlan`]), each flipped and cropped at random ([`View`]), corrupted twice and stored as a JPEG
//! ([`Cell::corrupt`]).
//!
//! The walks need a table of ResNet-50 accuracies per ordered pair, 21 x 21 severities. The authors' tables were
//! distributed from their server only and are **not available here**: pass your own, measured or interpolated, and say so
//! with any result. The published streams cannot be replayed in any case, because the choice of images depended on the
//! directory order and the number of processes.

mod constants;
mod pairs;
mod python_random;
mod quarter;
mod stream;
mod view;
mod walk;

pub use constants::constants_at;
pub use pairs::{Difficulty, Pair, PairSequence};
pub use quarter::QuarterSeverity;
pub use stream::{Cell, PlanError, Speed, StreamPlan};
pub use view::View;
pub use walk::{AccuracyTable, SEVERITIES, TableError};
