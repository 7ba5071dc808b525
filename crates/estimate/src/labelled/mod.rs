//! A few labels: what they add to an estimate, and which images to label.

mod ask;
mod joined;
mod powered;

pub use ask::{Question, choose_questions, stratify};
pub use joined::join_with_labels;
pub use powered::{Answer, FEWEST_LABELS, PoweredEstimate, powered_estimate};
