//! Functions from a score to an accuracy: how they are fitted, what they predict, and the published ones.

mod fit;
mod monotone;
mod polynomial;
mod published;

pub use fit::{Curve, CurveKind, CurveShape, Direction, Prediction, fit_curve};
pub use monotone::MonotoneSpline;
pub use polynomial::{Polynomial, fit_polynomial};
pub use published::{PUBLISHED_CURVES, PublishedCurve};
