//! Calibration and estimates from a classifier's outputs alone, for networks that never leave their server.
//!
//! [`LabelledOutputs`] are logits of images whose labels are known; [`OutputsCalibration::fit`] learns from those of clean images, and
//! from those of further cells, what the logits of new images say about accuracy. There is no network: nothing is adapted, no flips
//! are counted, and nothing can check that the logits come from the classifier the calibration was made with.

mod calibration;
mod error;
mod labelled;

pub use calibration::{LooksAtImages, OUTPUTS_CALIBRATION_FORMAT, OutputsCalibration};
pub use error::OutputsError;
pub use labelled::LabelledOutputs;
