//! A few labels: what they add to an estimate, and which images to label.

mod ask;
mod powered;

pub use ask::{Question, choose_questions};
pub use powered::{Answer, PoweredEstimate, powered_estimate};
