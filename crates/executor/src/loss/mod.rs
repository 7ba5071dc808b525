//! Losses of logits and their gradients in closed form, in double precision.

mod conjugate;
mod entropy;
mod opinion;
mod predictions;
mod selection;
mod weighted;

pub use conjugate::conjugate_poly_loss;
pub use entropy::{entropies, log_softmax_entropy, mean_entropy, mean_entropy_gradient};
pub use opinion::opinion_entropy_gradient;
pub use predictions::Predictions;
pub use selection::{Selection, cosine};
pub use weighted::{generalized_cross_entropy, weighted_entropy_gradient};
