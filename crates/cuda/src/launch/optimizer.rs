//! Optimizers of the adapted vector.

use super::{Call, Queue};
use crate::device::DeviceSlice;
use crate::error::CudaError;
use flipcast_executor::{AdamConfig, OptimizerConfig, SgdConfig};

/// What an optimizer reads and moves: 32-bit floats, one per parameter each.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OptimizerPlaces {
    pub params: DeviceSlice,
    pub gradient: DeviceSlice,
    /// Zeros where nothing may change.
    pub mask: Option<DeviceSlice>,
    /// Velocity, or mean gradient.
    pub first: DeviceSlice,
    /// Mean square gradient, which only Adam has.
    pub second: DeviceSlice,
    /// Steps made, this one included: one integer.
    pub steps: DeviceSlice,
    /// What the loss left: nothing moves if it used no image.
    pub result: DeviceSlice,
    /// A pull to the source, if there is one.
    pub pull: Option<Pull>,
}

/// What a pull to the source is made of, one number per parameter each.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pull {
    /// The weights: 64-bit floats.
    pub weights: DeviceSlice,
    /// The source's parameters: 32-bit floats.
    pub source: DeviceSlice,
}

/// Queues one step: the pull joins the gradient, and unless that is broken the parameters move.
pub(crate) fn step(queue: &dyn Queue, optimizer: OptimizerConfig, places: OptimizerPlaces) -> Result<(), CudaError> {
    let count = places.params.len;
    Call::new(queue, "settle_gradient")
        .slices([places.params])
        .optional("the source", places.pull.map(|pull| pull.source), count)
        .optional("the pull", places.pull.map(|pull| pull.weights), count)
        .slice("the gradient", places.gradient, count)
        .slice("the result of the loss", places.result, 3)
        .counts([count])
        .over(count)?;
    let moved = |kernel| {
        Call::new(queue, kernel)
            .slices([places.params, places.gradient])
            .optional("the mask", places.mask, count)
            .slice("the memory", places.first, count)
    };
    match optimizer {
        OptimizerConfig::Sgd(SgdConfig { lr, momentum, nesterov }) => {
            counted(moved("sgd"), places).floats([lr, momentum]).flag(nesterov).over(count)
        }
        OptimizerConfig::Adam(AdamConfig { lr, betas: [beta1, beta2], eps }) => {
            let call = moved("adam").slice("the mean squares", places.second, count);
            counted(call, places).floats([lr, beta1, beta2, eps]).over(count)
        }
    }
}

fn counted<'a>(call: Call<'a>, places: OptimizerPlaces) -> Call<'a> {
    call.slice("the step counter", places.steps, 1).slices([places.result]).counts([places.params.len])
}
