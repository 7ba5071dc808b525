//! A graph planned for one batch and image size: what is computed in which order, and where it lies.
//!
//! A value is either *stored* in the arena or *derived*: recomputed from a stored one by the norm and activation that
//! follow it, wherever it is read. So `conv -> norm -> relu -> conv` keeps one tensor, the first convolution's output,
//! in the forward and in the backward pass.

mod backward;
mod flops;
mod lower;
mod memory;
mod steps;
#[cfg(test)]
mod tests;
mod types;

pub use steps::{BackwardStep, GradSource, GradTarget, JoinBackward, Step, Then};
pub use types::{BufferId, NormId, NormSlot, Plan, PlanOptions, Purpose, Storage, Value, ValueId};
