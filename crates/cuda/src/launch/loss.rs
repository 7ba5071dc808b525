//! Losses without labels, with their gradients, counters and memory.

use super::{Call, Queue, double};
use crate::device::{Device, DeviceMemory, DeviceSlice};
use crate::error::CudaError;
use crate::module::Arg;
use crate::precision::Element;
use flipcast_executor::{StepLoss, StepResult};
use std::sync::Arc;

/// 32-bit words of the result on the device: see `step.cuh`.
pub(crate) const RESULT_WORDS: usize = 6;

/// A loss as the kernels take it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LossCode {
    number: i32,
    setting: f64,
    /// Negative for none.
    cosine_margin: f64,
    /// Whether it keeps an average prediction.
    averages: bool,
}

impl LossCode {
    /// The code of `loss`, if it has a kernel.
    pub fn new(loss: StepLoss) -> Option<Self> {
        let plain = |number, setting| Self { number, setting, cosine_margin: -1.0, averages: false };
        match loss {
            StepLoss::MeanEntropy => Some(plain(0, 0.0)),
            StepLoss::SelectedEntropy { entropy_margin, cosine_margin } => {
                let cosine_margin = cosine_margin.unwrap_or(-1.0);
                Some(Self { cosine_margin, averages: true, ..plain(1, entropy_margin) })
            }
            StepLoss::GeneralizedCrossEntropy { power } => Some(plain(2, power)),
            StepLoss::ConjugatePoly { epsilon } => Some(plain(3, epsilon)),
            StepLoss::OpinionEntropy => None,
        }
    }
}

/// The result from its words on the device, and whether the gradient was broken.
pub(crate) fn read_result(words: [u32; RESULT_WORDS]) -> (StepResult, bool) {
    let [low, high, reliable, used, broken, _] = words;
    let result = StepResult {
        mean_entropy: f64::from_bits(u64::from(high) << 32 | u64::from(low)),
        reliable: reliable as usize,
        used: used as usize,
    };
    (result, broken != 0)
}

/// What a loss remembers and leaves behind, on the device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LossPlaces {
    /// The average prediction: a 64-bit float per class.
    pub average: DeviceSlice,
    /// Whether there is an average, and whether there was one before the step: two integers.
    pub state: DeviceSlice,
    /// Four 64-bit words per image.
    pub rows: DeviceSlice,
    /// The result, as three 64-bit words.
    pub result: DeviceSlice,
    /// Steps of the optimizer: one integer.
    pub steps: DeviceSlice,
}

/// The memory of [`LossPlaces`].
#[derive(Debug)]
pub(crate) struct LossMemory {
    average: DeviceMemory,
    state: DeviceMemory,
    rows: DeviceMemory,
    result: DeviceMemory,
    steps: DeviceMemory,
}

impl LossMemory {
    /// For batches of up to `images` images of `classes` classes; without an average, before the first step.
    pub fn new(device: &Arc<Device>, images: usize, classes: usize) -> Result<Self, CudaError> {
        let allocate = |element, len| device.allocate("the loss", element, len);
        Ok(Self {
            average: allocate(Element::F64, classes)?,
            state: allocate(Element::I32, 2)?,
            rows: allocate(Element::F64, 4 * images)?,
            result: allocate(Element::F64, RESULT_WORDS / 2)?,
            steps: allocate(Element::I32, 1)?,
        })
    }

    /// Where everything lies.
    pub fn places(&self) -> LossPlaces {
        LossPlaces {
            average: self.average.slice(),
            state: self.state.slice(),
            rows: self.rows.slice(),
            result: self.result.slice(),
            steps: self.steps.slice(),
        }
    }
}

/// Queues a loss over `images` rows of `classes` logits, 32-bit floats: writes the gradient, as elements, and the result, and
/// counts the optimizer's step unless no image is used.
pub(crate) fn loss(
    queue: &dyn Queue,
    loss: LossCode,
    [images, classes]: [usize; 2],
    logits: DeviceSlice,
    gradient: DeviceSlice,
    places: LossPlaces,
) -> Result<(), CudaError> {
    Call::new(queue, "loss_rows")
        .slice("the logits", logits, images * classes)
        .counts([classes])
        .args(&[Arg::I32(loss.number), double(loss.setting), double(loss.cosine_margin)])
        .slice("the average", places.average, classes)
        .slice("the state", places.state, 2)
        .slice("the rows", places.rows, 4 * images)
        .launch([images as u32, 1, 1], [256, 1, 1], 0)?;
    let averaging = if loss.averages { classes.div_ceil(256) } else { 0 };
    Call::new(queue, "loss_gradient")
        .slices([logits, places.rows])
        .counts([images, classes])
        .args(&[Arg::I32(loss.number), double(loss.setting)])
        .slices([places.average, places.state])
        .slice("the gradient", gradient, images * classes)
        .slice("the result", places.result, RESULT_WORDS / 2)
        .slice("the step counter", places.steps, 1)
        .launch([(images + averaging) as u32, 1, 1], [256, 1, 1], 0)
}
