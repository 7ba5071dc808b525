//! Kernel stage: slices in, slices out. The only SIMD of the workspace, and its only threads.
//!
//! Public entry points are safe and check lengths. Work is split over outputs into chunks that depend on shapes alone, so
//! results do not depend on the number of threads.
//!
//! # Layers
//!
//! Calls go down. What a layer knows, those below it do not.
//!
//! ```text
//!  entry points      Conv::run   Attention::forward   join   pool   layer_norm   norm_sums   ...
//!  (safe)                |               |               \______________|______________/
//!                        |               |                              |
//!  passes            conv/pass.rs        |                          extent.rs
//!                    taps per class      |                          runs of pixels
//!                    conv/{pointwise,    |                              |
//!                     winograd,          |                              |
//!                     depthwise,direct}  |                              |
//!                        |               |                              |
//!  threads           Team::each: chunks, scratch memory, partial sums (team.rs, workers.rs, totals.rs)
//!                        |               |                              |
//!  instruction set   Isa::run -> Lanes::vectorize: from here on, code compiled for one set
//!                        |               |                              |
//!  fill, sink        source.rs reads: plain, normed, or a gradient through a norm
//!                    sink.rs + finish.rs write: bias, accumulate, statistics, norm sums, joins
//!                        |               |                              |
//!  tile kernel       gemm.rs: Panels::multiply -> FixedTile             |
//!                        |               |                              |
//!  lanes             lanes.rs: one vector register; portable.rs, avx2.rs, avx512.rs, neon.rs; math.rs, activation.rs
//! ```
//!
//! - A [`Team`] is passed to every entry point: instruction set, threads, and scratch memory of a [`ScratchSize`] that is
//!   computed once for all kernels a network uses.
//! - A kernel is a `Task`, written once, generic over `Lanes`, and compiled for the portable, AVX2, AVX-512 and NEON sets;
//!   [`Isa::detect`] picks one at run time, and a value of type [`Isa`] is proof that its instructions exist. The portable
//!   form is the scalar twin that tests compare with.
//! - A [`Source`] folds the norm and the activation in front of a layer into its reads, a [`Sink`] gathers what the norm behind
//!   it needs while the result is still in cache.
//! - Partial sums are kept per chunk and merged in chunk order, in double precision.

mod activation;
mod attention;
mod avx2;
mod avx512;
mod buffer;
mod conv;
mod elementwise;
mod extent;
mod finish;
mod gemm;
mod isa;
mod join;
mod join_backward;
#[expect(
    missing_docs,
    clippy::missing_safety_doc,
    reason = "arithmetic by its names; its one condition stands at the trait"
)]
mod lanes;
mod layer_norm;
mod layout;
mod mask;
#[expect(clippy::missing_safety_doc, reason = "the one condition of all of them is that of `Lanes`")]
mod math;
mod multiply;
mod neon;
mod norm;
mod norm_backward;
mod peak;
mod pool;
mod portable;
mod shared;
mod sink;
mod source;
mod target;
mod team;
mod totals;
mod walk;
mod workers;

pub use attention::{Attention, AttentionShape};
pub use buffer::Buffer;
pub use conv::{Conv, Exactness};
pub use elementwise::{accumulate, add_repeated, scale};
pub use extent::extent_scratch;
pub use flipcast_graph::{ConvShape, Extent, PoolShape, ShortcutShape};
pub use isa::Isa;
pub use join::join;
pub use join_backward::{JoinGradient, JoinedNorm, join_backward};
pub use layer_norm::{LayerNorm, LayerNormGradients, layer_norm, layer_norm_backward};
pub use layout::{Cells, arrange, flatten, flatten_backward, shortcut_a, shortcut_a_backward};
pub use mask::mask_len;
pub use multiply::{Factors, multiply, multiply_backward};
pub use norm::{per_image_statistics, statistics};
pub use norm_backward::{Carried, NormGradient, Passage, norm_sums, through_norm};
pub use peak::{measure_copy_bandwidth, measure_fma_peak};
pub use pool::{global_avg_pool, global_avg_pool_backward, pool, pool_backward, pool_scratch};
pub use sink::{Gather, Sink};
pub use source::{NormTables, Source, ThroughTables};
pub use target::Target;
pub use team::{ScratchSize, Team};
pub(crate) use workers::Workers;

/// What tests look at besides the entry points. They stand in `tests/`: a test build of this crate would compile every kernel a second time.
#[doc(hidden)]
pub mod internals {
    pub use crate::conv::{Chunk, Chunking};
    pub use crate::lanes::{Lanes, Task};
    pub use crate::math::{erf, exp, gelu_slope, tanh};
    pub use crate::workers::Workers;
}
