//! Graph stage: layers become a [`Graph`], and a graph becomes a [`Plan`] for one batch and input size.
//!
//! Takes layer descriptions by name, gives shapes, the order of forward and backward steps, which values are stored
//! and which are recomputed, and where every buffer lies in one arena. No arithmetic happens here and no weight is
//! touched. Guarantees: shapes agree along every edge, every name is unique, and no two buffers that are live at the
//! same step overlap.
#![forbid(unsafe_code)]

mod activation;
mod affine;
mod arrangement;
mod attention;
mod builder;
mod dims;
mod error;
mod graph;
mod norm_group;
mod op;
mod picks;
mod plan;
mod shapes;

pub use activation::Activation;
pub use affine::{AffineEntry, AffineTable};
pub use arrangement::Arrangement;
pub use attention::{Attention, AttentionBias, TokenGroups, Tokens};
pub use builder::GraphBuilder;
pub use dims::Dims;
pub use error::{GraphError, PlanError};
pub use graph::{Graph, Node, NodeId, ParamSpec};
pub use norm_group::{NormGroup, norm_groups};
pub use op::{Conv2d, NormKind, NormLayer, Op, Padding, Pool};
pub use picks::{ChannelRun, PickTable};
pub use plan::{
    BackwardStep, BufferId, GradSource, GradTarget, JoinBackward, NormId, NormSlot, Plan, PlanOptions, Purpose, Step,
    Storage, Then, Value, ValueId,
};
pub use shapes::{ConvShape, ConvSpec, Extent, PoolShape, ShortcutShape};
