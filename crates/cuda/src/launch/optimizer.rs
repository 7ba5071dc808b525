//! Optimizers of the adapted vector.

use super::{Queue, blocks};
use crate::device::DeviceSlice;
use crate::error::CudaError;
use crate::module::{Arg, expect_len};
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
    expect_len("optimizer", "the gradient", places.gradient, count)?;
    expect_len("optimizer", "the memory", places.first, count)?;
    expect_len("optimizer", "the step counter", places.steps, 1)?;
    expect_len("optimizer", "the result of the loss", places.result, 3)?;
    if let Some(mask) = places.mask {
        expect_len("optimizer", "the mask", mask, count)?;
    }
    if let Some(pull) = places.pull {
        expect_len("optimizer", "the pull", pull.weights, count)?;
        expect_len("optimizer", "the source", pull.source, count)?;
    }
    let grid = [blocks(queue, count), 1, 1];
    let args = [
        Arg::Slice(places.params),
        Arg::optional(places.pull.map(|pull| pull.source)),
        Arg::optional(places.pull.map(|pull| pull.weights)),
        Arg::Slice(places.gradient),
        Arg::Slice(places.result),
        Arg::count(count),
    ];
    queue.launch("settle_gradient", grid, [256, 1, 1], 0, &args)?;
    let moved =
        [Arg::Slice(places.params), Arg::Slice(places.gradient), Arg::optional(places.mask), Arg::Slice(places.first)];
    let counted = [Arg::Slice(places.steps), Arg::Slice(places.result), Arg::count(count)];
    let (name, args) = match optimizer {
        OptimizerConfig::Sgd(SgdConfig { lr, momentum, nesterov }) => {
            let settings = [Arg::F32(lr), Arg::F32(momentum), Arg::I32(i32::from(nesterov))];
            ("sgd", [&moved, counted.as_slice(), &settings].concat())
        }
        OptimizerConfig::Adam(AdamConfig { lr, betas: [beta1, beta2], eps }) => {
            expect_len("optimizer", "the mean squares", places.second, count)?;
            let second = [Arg::Slice(places.second)];
            let settings = [lr, beta1, beta2, eps].map(Arg::F32);
            let args = [moved.as_slice(), &second, &counted, &settings].concat();
            ("adam", args)
        }
    };
    queue.launch(name, grid, [256, 1, 1], 0, &args)
}
