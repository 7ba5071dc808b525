//! Proof stage: the oracle that every executor is compared with, and the suites they share.
//!
//! Takes a [`Graph`](flipcast_graph::Graph), its parameters and a batch; gives every node's value in `f64`
//! ([`Reference`]), gradients in closed form ([`ReferenceExecutor`]) and by central differences
//! ([`CentralDifferences`]), small named networks ([`cases`]) and the published adapters' results ([`golden_index`]). Guarantees: nothing is fused, reordered or approximated, every
//! random number comes from a seed, and a suite reports all failures of a run together.
#![forbid(unsafe_code)]

mod cases;
mod check_gradient;
mod conformance;
mod executor;
mod golden;
mod gradient;
mod loss;
mod pair;
mod random;
mod reference;

pub use cases::{Case, cases, random_graph};
pub use check_gradient::{CLASSES, LOGITS, assert_gradient};
pub use conformance::{Failure, Subject, Suite, SuiteReport, SuiteTolerance, Worst, run_suite};
pub use executor::ReferenceExecutor;
pub use golden::{Block, GoldenCase, GoldenError, Stem, TensorFile, golden_index, golden_root, load_golden_index};
pub use gradient::{CentralDifferences, Coordinates, DifferenceGradient, GradientError, central_differences};
pub use loss::{Loss, relative_l2};
pub use pair::{Lead, Pair, Pass};
pub use random::Random;
pub use reference::{Crossing, Reference, ReferenceError, ReferenceNorm, ReferenceRun, ReferenceValue, crossing_taps};
