//! Adapter stage: a network and a batch become predictions, and perhaps a changed affine vector.
//!
//! A method is a function of logits: it gives a loss and, in closed form, that loss's gradient with respect to the logits.
//! The executor carries it to the scales and shifts of the norm layers, and an [`Optimiser`] moves them. Nothing else of
//! the network ever changes.
#![forbid(unsafe_code)]

mod adapter;
mod bn;
mod entropy;
mod error;
mod optimiser;
mod source;
mod tent;

pub use adapter::{Adapter, StepOutput};
pub use bn::{Bn, BnConfig};
pub use entropy::{entropies, mean_entropy_gradient};
pub use error::AdaptError;
pub use optimiser::{AdamConfig, Optimiser, OptimiserConfig, SgdConfig};
pub use source::Source;
pub use tent::{Tent, TentConfig};
