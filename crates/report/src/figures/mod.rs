//! One file per figure: what is drawn of the records.

mod advice;
mod calibration;
mod correlations;
mod curves;
mod errors;
mod estimates;
mod flips;
mod intervals;
mod map;
mod omission;
mod phases;
mod registry;
mod rows;
mod series;
mod splits;
mod subsets;
mod toy;

pub(crate) use correlations::{Change, phase_1, phase_2, phase_2_silhouette};
pub(crate) use estimates::{groups, headline};
pub(crate) use registry::Shown;
pub use registry::{FIGURES, FigureInfo, build_figure};
pub(crate) use rows::{DotRow, RowDots};
