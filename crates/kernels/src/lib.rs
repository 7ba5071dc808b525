//! Kernel stage: slices in, slices out. The only SIMD of the workspace, and its only threads.
//!
//! Every kernel is written once, generic over [`Lanes`](lanes::Lanes), and compiled for the portable, AVX2 and
//! AVX-512 instruction sets; [`Isa::detect`] picks one at run time. Public entry points are safe and check lengths.
//! Work is split over outputs in chunks that depend on shapes alone, so results do not depend on the number of threads.

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
mod lanes;
mod layer_norm;
mod layout;
mod mask;
mod math;
mod multiply;
mod norm;
mod norm_backward;
#[cfg(test)]
mod parity;
mod peak;
mod pool;
mod portable;
mod scratch;
mod shared;
mod sink;
mod source;
mod totals;
mod walk;
mod workers;

pub use attention::{Attention, AttentionShape};
pub use buffer::Buffer;
pub use conv::{Conv, Exactness};
pub use elementwise::{accumulate, add_repeated, all_finite, scale};
pub use extent::{extent_partials, extent_scratch_floats};
pub use flipcast_graph::{ConvShape, Extent, PoolShape, ShortcutShape};
pub use isa::Isa;
pub use join::join;
pub use join_backward::{JoinGradient, JoinedNorm, join_backward};
pub use layer_norm::{layer_norm, layer_norm_backward};
pub use layout::{Cells, arrange, flatten, flatten_backward, shortcut_a, shortcut_a_backward};
pub use mask::mask_len;
pub use multiply::{multiply, multiply_backward};
pub use norm::{per_image_statistics, statistics};
pub use norm_backward::{Carried, NormGradient, Passage, norm_sums, through_norm};
pub use peak::{measure_copy_bandwidth, measure_fma_peak};
pub use pool::{
    avg_pool, avg_pool_backward, global_avg_pool, global_avg_pool_backward, max_pool, max_pool_backward,
    pool_scratch_floats,
};
pub use scratch::Scratch;
pub use sink::{Gather, Sink};
pub use source::{NormTables, Source, ThroughTables};
pub use workers::Workers;
