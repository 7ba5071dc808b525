//! A few labels: what they add to an estimate, and which images to label.

mod ask;
mod powered;

pub use ask::{Question, choose_questions, stratify};
pub use powered::{Answer, FEWEST_LABELS, PoweredEstimate, powered_estimate};
