//! Exact transport between images of mass one and classes of given capacities, at the cost of one minus a probability.
//!
//! `Problem` holds probabilities and capacities. `bid` finds class prices at which few images sit in classes that are full;
//! `Tree` is a plan that changes, one edge for another, until nobody gains by a move. Prices make every solution prove itself: the gap of a `Plan`
//! is its distance to the best value any plan could have.

mod batches;
mod bidding;
mod capacity;
mod plan;
mod problem;
mod solve;
mod tree;

pub(crate) use batches::{check_shares, plan_shares};
pub(crate) use plan::Share;
pub(crate) use problem::{ProbRows, Problem};
pub(crate) use solve::solve;
