//! Launch wrappers: they compare lengths with extents, choose grids, and queue kernels.
//!
//! Nothing here allocates or waits, so every call may be captured into a graph. What a call needs besides its operands is
//! given by a `*_len` function or made by a `new`, once per plan.

pub(crate) mod attention;
pub(crate) mod conv;
pub(crate) mod corrupt;
pub(crate) mod elementwise;
pub(crate) mod layer_norm;
pub(crate) mod loss;
pub(crate) mod norm;
pub(crate) mod norm_backward;
pub(crate) mod optimizer;
pub(crate) mod panel;
pub(crate) mod pointwise;
pub(crate) mod pool;
pub(crate) mod preprocess;
mod queue;
mod rows;
pub(crate) mod tokens;

#[cfg(test)]
#[path = "../../tests/emulator/mod.rs"]
mod emulator;

pub(crate) use queue::{Call, Queue, Target, blocks, double, expect_len, wide};

/// The number of an activation in `activation.cuh`.
pub(crate) fn activation_code(activation: flipcast_graph::Activation) -> i32 {
    use flipcast_graph::Activation;
    match activation {
        Activation::Identity => 0,
        Activation::Relu => 1,
        Activation::Relu6 => 2,
        Activation::Silu => 3,
        Activation::Gelu => 4,
        Activation::GeluTanh => 5,
        Activation::Tanh => 6,
        Activation::Sigmoid => 7,
        Activation::HardSwish => 8,
        Activation::HardSigmoid => 9,
        Activation::InverseSqrt => 10,
    }
}
