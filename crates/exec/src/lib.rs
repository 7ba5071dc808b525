//! Logits stage: a graph, its weights and a plan become a [`Network`]; a batch becomes [`Logits`].
//!
//! Takes frozen weights by name. Gives logits, tapped values, and from a logit gradient the gradient of every norm
//! layer's scale and shift, in one flat vector. Guarantees: a step allocates nothing, results do not depend on the number
//! of threads, and a NaN or infinity in the batch or the logits is an error, never a prediction.
#![forbid(unsafe_code)]

mod backward;
mod forward;
mod kernels;
mod network;
mod norm_backward;
mod norms;
mod places;
mod tokens;
mod weights;

pub use flipcast_executor::{ExecError, Executor, Logits, NormMode, NormStatistics};
pub use flipcast_graph::Purpose;
pub use flipcast_kernels::{Exactness, Isa};
pub use network::{Memory, Network, NetworkOptions};
pub use weights::Weights;
