//! What the records say, in the form sections and figures need.

mod curve;
mod estimators;
mod flags;
mod kinds;
mod load;
mod quality;
mod subject;

pub(crate) use curve::FittedCurve;
pub(crate) use estimators::{estimator_label, estimator_order};
pub use flags::FLAGS;
pub(crate) use flags::flag_text;
pub(crate) use kinds::{
    Calibration, Checkpoint, Estimates, Flips, Frame, Guess, Omission, OmissionPoint, Phases,
};
pub(crate) use load::Entry;
pub use load::Study;
pub(crate) use quality::{Quality, Which, estimators_of, quality_of};
pub(crate) use subject::Subject;
