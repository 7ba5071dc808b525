//! Multi-head self-attention over groups of tokens, forward and backward to queries, keys and values.
//!
//! A unit is one head of one group of one image. It works through its queries a block at a time, in scratch: no matrix of scores
//! outlives its block, and the backward pass computes the scores again instead of reading them back.

mod backward;
mod forward;
mod layer;
mod pack;
mod softmax;

pub use layer::{Attention, AttentionShape};
