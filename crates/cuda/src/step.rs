//! A whole adaptation step on the device: forward, loss, backward, optimiser, as one recording.

use crate::device::DeviceMemory;
use crate::error::CudaError;
use crate::executor::StagedBatch;
use crate::launch::loss::{self, DeviceLoss, LossMemory, StepResult};
use crate::launch::optimiser::{self, DeviceOptimiser, OptimiserPlaces};
use crate::network::{CudaNetwork, Pass};
use crate::precision::Element;
use flipcast_exec::{ExecError, Logits, Purpose};
use flipcast_tensor::Batch;

/// What steps on the device remember.
#[derive(Debug)]
pub(crate) struct StepState {
    loss: DeviceLoss,
    optimiser: DeviceOptimiser,
    loss_memory: LossMemory,
    mask: Option<DeviceMemory>,
    first: DeviceMemory,
    second: DeviceMemory,
}

/// What a step on the device gives.
#[derive(Clone, Copy, Debug)]
pub struct DeviceStep<'a> {
    /// The logits from before the update.
    pub logits: Logits<'a>,
    /// What the loss counted.
    pub result: StepResult,
}

impl CudaNetwork {
    /// Prepares steps on the device, and forgets what earlier ones remembered: momentum, step count, average prediction.
    /// `mask` has a zero for every parameter that may not change.
    pub fn start_steps(
        &mut self,
        loss: DeviceLoss,
        optimiser: DeviceOptimiser,
        mask: Option<&[f32]>,
    ) -> Result<(), ExecError> {
        if self.plan.options().purpose == Purpose::Predict {
            return Err(ExecError::NotReady {
                needed: "a network planned to adapt, not only to predict",
            });
        }
        let len = self.affine.len();
        if let Some(mask) = mask
            && mask.len() != len
        {
            return Err(ExecError::Length {
                what: "the mask",
                found: mask.len(),
                expected: len,
            });
        }
        self.device.enter()?;
        self.recordings.retain(|key, _| key.pass != Pass::Step);
        let device = &self.device;
        let (batch, classes) = (self.batch(), self.graph.num_classes());
        let room = || device.allocate("the optimiser", Element::F32, len);
        self.step = Some(StepState {
            loss,
            optimiser,
            loss_memory: LossMemory::new(device, batch, classes)?,
            mask: mask
                .map(|mask| device.upload("the optimiser", Element::F32, mask))
                .transpose()?,
            first: room()?,
            second: room()?,
        });
        Ok(())
    }

    /// Adapts to a batch as [`Self::start_steps`] prepared.
    pub fn device_step(&mut self, batch: &Batch) -> Result<DeviceStep<'_>, ExecError> {
        self.ready = false;
        self.take_batch(batch)?;
        self.finish_step()
    }

    /// [`Self::device_step`] of a batch on the device.
    pub fn device_step_staged(&mut self, batch: &StagedBatch) -> Result<DeviceStep<'_>, ExecError> {
        self.ready = false;
        self.take_staged(batch)?;
        self.finish_step()
    }

    fn finish_step(&mut self) -> Result<DeviceStep<'_>, ExecError> {
        if self.step.is_none() {
            return Err(ExecError::NotReady {
                needed: "`start_steps` first",
            });
        }
        self.run_pass(Pass::Step, Self::queue_step)?;
        self.receive_logits()?;
        let affine = self.memory.affine.slice();
        self.memory.host_affine.receive(affine)?;
        let result = self.step_result()?;
        self.affine
            .copy_from_slice(self.memory.host_affine.values());
        if let Some(at) = self.affine.iter().position(|value| !value.is_finite()) {
            let found = self.table.names().find(|(_, range)| range.contains(&at));
            return Err(ExecError::NonFiniteGradient {
                parameter: found.map_or_else(String::new, |(name, _)| name),
            });
        }
        let logits = self.host_logits()?;
        Ok(DeviceStep { logits, result })
    }

    /// The counters of the last step; waits for it.
    fn step_result(&self) -> Result<StepResult, CudaError> {
        let mut bytes = [0; StepResult::BYTES];
        if let Some(step) = &self.step {
            self.device
                .copy_out(step.loss_memory.places().result, &mut bytes)?;
        }
        Ok(StepResult::from_bytes(bytes))
    }

    fn queue_step(&self) -> Result<(), CudaError> {
        let (Some(step), Some(buffer)) = (&self.step, self.plan.logit_gradient()) else {
            return self.queue_forward();
        };
        let places = step.loss_memory.places();
        let extents = [self.images, self.graph.num_classes()];
        self.queue_forward()?;
        let gradient = self.buffer(buffer, self.images);
        loss::loss(
            &self.kernels,
            step.loss,
            extents,
            self.logits(),
            gradient,
            places,
        )?;
        self.queue_backward()?;
        let places = OptimiserPlaces {
            params: self.memory.affine.slice(),
            gradient: self.memory.gradient.slice(),
            mask: step.mask.as_ref().map(DeviceMemory::slice),
            first: step.first.slice(),
            second: step.second.slice(),
            steps: places.steps,
            result: places.result,
        };
        optimiser::step(&self.kernels, step.optimiser, places)
    }
}
