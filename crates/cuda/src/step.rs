//! A whole adaptation step on the device: forward, loss, backward, optimizer, as one recording.

use crate::batches::StagedBatch;
use crate::device::{DeviceMemory, Pinned, bytes_of};
use crate::error::CudaError;
use crate::executor::Recordings;
use crate::launch::loss::{self, LossCode, LossMemory};
use crate::launch::optimizer::{self, OptimizerPlaces, Pull};
use crate::network::{CudaNetwork, Pass};
use crate::precision::Element;
use flipcast_executor::{ExecError, OptimizerConfig, StepResult, StepRun};
use flipcast_graph::Purpose;
use std::sync::{Arc, Weak};

/// What the steps of one run remember.
#[derive(Debug)]
pub(crate) struct RunMemory {
    /// Dropped before what they refer to.
    recordings: Recordings,
    identity: Weak<()>,
    /// How often the run had forgotten the optimizer's memory and the average when these were last cleared.
    resets: [u64; 2],
    loss: LossCode,
    optimizer: OptimizerConfig,
    loss_memory: LossMemory,
    mask: Option<DeviceMemory>,
    pull: Option<PullMemory>,
    first: DeviceMemory,
    second: DeviceMemory,
    host_result: Pinned,
}

#[derive(Debug)]
struct PullMemory {
    /// What `weights` was copied from.
    from: Arc<[f64]>,
    weights: DeviceMemory,
    source: DeviceMemory,
}

impl CudaNetwork {
    /// [`Executor::step`](flipcast_executor::Executor::step) of a batch on the device, with a loss that has a kernel.
    pub fn step_staged(&mut self, run: &mut StepRun, batch: &StagedBatch) -> Result<StepResult, ExecError> {
        self.state.ready = false;
        self.take_staged(batch)?;
        self.finish_step(run)
    }

    /// Whether the steps of `run` are made on the device: the plan leads back to some parameter, and the loss has a kernel.
    pub(crate) fn steps_on_device(&self, run: &StepRun) -> bool {
        let adapts = self.plan.options().purpose == Purpose::Adapt && self.plan.logit_gradient().is_some();
        adapts && LossCode::new(run.request().loss).is_some()
    }

    /// Makes a step of `run` on the batch that was taken.
    pub(crate) fn finish_step(&mut self, run: &mut StepRun) -> Result<StepResult, ExecError> {
        let mut memory = self.take_run_memory(run)?;
        let done = self.run_step(&mut memory);
        self.runs.push(memory);
        let result = done?;
        run.keep_logits(self.host_logits()?);
        Ok(result)
    }

    /// Takes the memory of `run` out of the network, as old as the run says; runs that are over leave for good.
    fn take_run_memory(&mut self, run: &StepRun) -> Result<RunMemory, ExecError> {
        let runs = &mut self.runs;
        runs.retain(|memory| memory.identity.strong_count() > 0);
        let identity = Arc::as_ptr(run.identity());
        let at = runs.iter().position(|memory| std::ptr::eq(memory.identity.as_ptr(), identity));
        let Some(at) = at else {
            return self.run_memory(run);
        };
        let mut memory = runs.swap_remove(at);
        if let Err(error) = memory.follow(run) {
            self.runs.push(memory);
            return Err(error.into());
        }
        Ok(memory)
    }

    /// The memory of a run before its first step.
    fn run_memory(&self, run: &StepRun) -> Result<RunMemory, ExecError> {
        if self.plan.options().purpose == Purpose::Predict {
            return Err(ExecError::NotReady { needed: "a network planned to adapt, not only to predict" });
        }
        let request = run.request();
        let Some(loss) = LossCode::new(request.loss) else {
            return Err(ExecError::NotReady { needed: "a loss that has a kernel" });
        };
        let expected = self.state.affine().len();
        let lengths = [
            ("the mask", request.mask.as_ref().map(|mask| mask.len())),
            ("the pull", request.pull.as_ref().map(|pull| pull.len())),
        ];
        for (what, found) in lengths {
            if let Some(found) = found
                && found != expected
            {
                return Err(ExecError::Length { what, found, expected });
            }
        }
        let device = &self.device;
        let floats = |values: &[f32]| device.upload("the optimizer", Element::F32, values);
        let zeros = || device.allocate("the optimizer", Element::F32, expected);
        let pull = |pull: &Arc<[f64]>| {
            let weights = device.allocate("the optimizer", Element::F64, expected)?;
            device.copy_in(weights.slice(), bytes_of(pull))?;
            Ok::<_, CudaError>(PullMemory {
                from: Arc::clone(pull),
                weights,
                source: floats(self.state.source_affine())?,
            })
        };
        Ok(RunMemory {
            recordings: Recordings::new(),
            identity: Arc::downgrade(run.identity()),
            resets: [run.optimizer_resets(), run.average_resets()],
            loss,
            optimizer: request.optimizer,
            loss_memory: LossMemory::new(device, self.batch(), self.graph.num_classes())?,
            mask: request.mask.as_deref().map(floats).transpose()?,
            pull: request.pull.as_ref().map(pull).transpose()?,
            first: zeros()?,
            second: zeros()?,
            host_result: Pinned::new(device, loss::RESULT_WORDS)?,
        })
    }

    /// Makes the step and waits for it.
    fn run_step(&mut self, memory: &mut RunMemory) -> Result<StepResult, ExecError> {
        let mut recordings = std::mem::take(&mut memory.recordings);
        let ran = self.run_recorded(&mut recordings, Pass::Step, |net| net.queue_step(memory));
        memory.recordings = recordings;
        ran?;
        self.receive_logits()?;
        let affine = self.memory.affine.slice();
        self.memory.host_affine.receive(affine)?;
        let places = memory.loss_memory.places();
        memory.host_result.receive(places.result)?;
        self.device.synchronize()?;
        self.host_logits()?;
        let mut words = [0; loss::RESULT_WORDS];
        for (word, value) in words.iter_mut().zip(memory.host_result.values()) {
            *word = value.to_bits();
        }
        let (result, broken) = loss::read_result(words);
        if broken {
            // The optimizer made no step, but the loss had counted one.
            let mut steps = [0; 4];
            self.device.copy_out(places.steps, &mut steps)?;
            let steps = i32::from_le_bytes(steps) - 1;
            self.device.copy_in(places.steps, bytes_of(&[steps]))?;
            self.gradient = self.device.read(self.memory.gradient.slice())?;
            self.check_gradient()?;
        }
        self.state.receive_affine(self.memory.host_affine.values());
        Ok(result)
    }

    fn queue_step(&self, memory: &RunMemory) -> Result<(), CudaError> {
        self.queue_forward()?;
        let Some(buffer) = self.plan.logit_gradient() else {
            return Ok(());
        };
        let places = memory.loss_memory.places();
        let extents = [self.images, self.graph.num_classes()];
        let gradient = self.buffer(buffer, self.images);
        loss::loss(&self.kernels, memory.loss, extents, self.logits(), gradient, places)?;
        self.queue_backward()?;
        let places = OptimizerPlaces {
            params: self.memory.affine.slice(),
            gradient: self.memory.gradient.slice(),
            mask: memory.mask.as_ref().map(DeviceMemory::slice),
            first: memory.first.slice(),
            second: memory.second.slice(),
            steps: places.steps,
            result: places.result,
            pull: memory.pull.as_ref().map(|pull| Pull { weights: pull.weights.slice(), source: pull.source.slice() }),
        };
        optimizer::step(&self.kernels, memory.optimizer, places)
    }
}

impl RunMemory {
    /// Forgets what the run has forgotten since, and takes over its pull.
    fn follow(&mut self, run: &StepRun) -> Result<(), CudaError> {
        let device = &self.first.device;
        let places = self.loss_memory.places();
        let resets = [run.optimizer_resets(), run.average_resets()];
        if self.resets[0] != resets[0] {
            for slice in [self.first.slice(), self.second.slice(), places.steps] {
                device.fill_zero(slice)?;
            }
        }
        if self.resets[1] != resets[1] {
            device.fill_zero(places.state)?;
        }
        self.resets = resets;
        if let (Some(memory), Some(pull)) = (&mut self.pull, &run.request().pull)
            && !Arc::ptr_eq(&memory.from, pull)
        {
            device.copy_in(memory.weights.slice(), bytes_of(pull))?;
            memory.from = Arc::clone(pull);
        }
        Ok(())
    }
}
