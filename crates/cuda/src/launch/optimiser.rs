//! Optimisers of the adapted vector.

use super::{Queue, blocks};
use crate::device::DeviceSlice;
use crate::error::CudaError;
use crate::module::{Arg, expect_len};

/// An optimiser and its settings, as PyTorch defines them.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum DeviceOptimiser {
    /// Stochastic gradient descent.
    Sgd {
        /// Learning rate.
        lr: f32,
        /// Share of the last velocity that is kept.
        momentum: f32,
        /// Look ahead along the velocity.
        nesterov: bool,
    },
    /// Adam with bias correction.
    Adam {
        /// Learning rate.
        lr: f32,
        /// Decay of the mean gradient and of its mean square.
        betas: [f32; 2],
        /// Added to the root of the mean square.
        eps: f32,
    },
}

/// What an optimiser reads and moves: 32-bit floats, one per parameter each.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OptimiserPlaces {
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
}

/// Queues one step.
pub(crate) fn step(
    queue: &dyn Queue,
    optimiser: DeviceOptimiser,
    places: OptimiserPlaces,
) -> Result<(), CudaError> {
    let count = places.params.len;
    expect_len("optimiser", "the gradient", places.gradient, count)?;
    expect_len("optimiser", "the memory", places.first, count)?;
    expect_len("optimiser", "the step counter", places.steps, 1)?;
    expect_len("optimiser", "the result of the loss", places.result, 2)?;
    if let Some(mask) = places.mask {
        expect_len("optimiser", "the mask", mask, count)?;
    }
    let moved = [
        Arg::Slice(places.params),
        Arg::Slice(places.gradient),
        Arg::optional(places.mask),
        Arg::Slice(places.first),
    ];
    let counted = [
        Arg::Slice(places.steps),
        Arg::Slice(places.result),
        Arg::count(count),
    ];
    let (name, args) = match optimiser {
        DeviceOptimiser::Sgd {
            lr,
            momentum,
            nesterov,
        } => {
            let settings = [
                Arg::F32(lr),
                Arg::F32(momentum),
                Arg::I32(i32::from(nesterov)),
            ];
            ("sgd", [&moved, counted.as_slice(), &settings].concat())
        }
        DeviceOptimiser::Adam {
            lr,
            betas: [beta1, beta2],
            eps,
        } => {
            expect_len("optimiser", "the mean squares", places.second, count)?;
            let second = [Arg::Slice(places.second)];
            let settings = [lr, beta1, beta2, eps].map(Arg::F32);
            let args = [moved.as_slice(), &second, &counted, &settings].concat();
            ("adam", args)
        }
    };
    queue.launch(name, [blocks(queue, count), 1, 1], [256, 1, 1], 0, &args)
}
