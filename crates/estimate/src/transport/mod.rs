//! Exact transport between images of mass one and classes of given capacities, at the cost of one minus a probability.
//!
//! `Problem` holds probabilities and capacities. `bid` finds class prices at which few images sit in classes that are full;
//! `Flow` moves the rest along cheapest paths from class to class. Prices make every solution prove itself: the gap of a `Plan`
//! is its distance to the best value any plan could have.

mod batches;
mod bidding;
mod capacity;
mod flow;
mod path;
mod plan;
mod problem;
mod solve;

pub(crate) use batches::{check_shares, plan_shares};
pub(crate) use plan::Share;
pub(crate) use problem::{ProbRows, Problem};
pub(crate) use solve::solve;
