//! The network as an executor: batches in, logits and gradients out.

use crate::batches::StagedBatch;
use crate::error::CudaError;
use crate::gate;
use crate::graphs::Recording;
use crate::launch::elementwise;
use crate::network::{CudaNetwork, Pass, RecordingKey};
use flipcast_executor::{ExecError, Executor, ExecutorState, Logits, NormMode, StepResult, StepRun, checks};
use flipcast_tensor::{Batch, Tensor};
use std::collections::HashMap;

/// What was recorded; `None` after a first run without recording.
pub(crate) type Recordings = HashMap<RecordingKey, Option<Recording>>;

impl CudaNetwork {
    /// [`Executor::forward`] of a batch on the device.
    pub fn forward_staged(&mut self, batch: &StagedBatch) -> Result<Logits<'_>, ExecError> {
        self.state.ready = false;
        self.take_staged(batch)?;
        self.finish_forward()
    }

    /// Queues what the next pass reads: the scales and shifts, if they changed on the host.
    pub(crate) fn send_affine(&mut self) -> Result<(), CudaError> {
        if self.state.take_affine_changed() {
            self.memory.host_affine.values_mut().copy_from_slice(self.state.affine());
            self.memory.host_affine.send(self.memory.affine.slice())?;
        }
        Ok(())
    }

    /// Runs a pass that depends on the network alone.
    fn run_pass(&mut self, pass: Pass, queue: impl Fn(&Self) -> Result<(), CudaError>) -> Result<(), CudaError> {
        let mut recordings = std::mem::take(&mut self.recordings);
        let ran = self.run_recorded(&mut recordings, pass, queue);
        self.recordings = recordings;
        ran
    }

    /// Runs a pass: as it is the first time, recorded the second, replayed from then on.
    pub(crate) fn run_recorded(
        &self,
        recordings: &mut Recordings,
        pass: Pass,
        queue: impl Fn(&Self) -> Result<(), CudaError>,
    ) -> Result<(), CudaError> {
        if self.profile.is_some() {
            return queue(self);
        }
        let mode = match self.state.norm_mode() {
            NormMode::Running => (0, 0),
            NormMode::Batch => (1, 0),
            NormMode::Mixed { source_weight } => (2, source_weight.to_bits()),
            NormMode::Early { share } => (3, share.to_bits()),
        };
        let key = RecordingKey { pass, mode, images: self.images };
        match recordings.get(&key) {
            None => {
                let _loading = gate::load();
                queue(self)?;
                recordings.insert(key, None);
                Ok(())
            }
            Some(Some(recording)) => recording.replay(),
            Some(None) => {
                let alone = gate::record();
                let recording = Recording::new(&self.device, || queue(self));
                drop(alone);
                // Work of another process on the device may still break a recording off; the next pass tries again.
                let Ok(recording) = recording else {
                    return queue(self);
                };
                recording.replay()?;
                recordings.insert(key, Some(recording));
                Ok(())
            }
        }
    }

    /// Queues the copy of the logits to the host.
    pub(crate) fn receive_logits(&mut self) -> Result<(), CudaError> {
        let logits = self.logits();
        // What reads the images is queued by now, and freeing them waits for it.
        self.memory.held = None;
        self.memory.host_logits.receive(logits)
    }

    /// The logits on the host, once the stream was waited for.
    pub(crate) fn host_logits(&self) -> Result<Logits<'_>, ExecError> {
        let classes = self.graph.num_classes();
        let values = &self.memory.host_logits.values()[..self.images * classes];
        checks::check_logits(Logits::new(values, classes))
    }

    fn finish_forward(&mut self) -> Result<Logits<'_>, ExecError> {
        self.run_pass(Pass::Forward, Self::queue_forward)?;
        self.receive_logits()?;
        self.device.synchronize()?;
        self.host_logits()?;
        self.state.ready = true;
        self.host_logits()
    }

    pub(crate) fn check_gradient(&self) -> Result<(), ExecError> {
        checks::check_gradient(&self.state, &self.gradient)
    }
}

impl Executor for CudaNetwork {
    fn forward(&mut self, batch: &Batch) -> Result<Logits<'_>, ExecError> {
        self.state.ready = false;
        self.take_batch(batch)?;
        self.finish_forward()
    }

    fn backward(&mut self, logit_gradient: &[f32]) -> Result<&[f32], ExecError> {
        let expected = self.images * self.num_classes();
        checks::check_backward(&self.plan, &mut self.state, logit_gradient, expected)?;
        self.device.enter()?;
        self.send_affine()?;
        let Some(buffer) = self.plan.logit_gradient() else {
            self.gradient.fill(0.0);
            return Ok(&self.gradient);
        };
        self.memory.host_logits.values_mut()[..expected].copy_from_slice(logit_gradient);
        let staged = self.memory.logit_gradient.slice().first(expected);
        self.memory.host_logits.send(staged)?;
        self.run_pass(Pass::Backward, |net| {
            elementwise::narrow(&net.kernels, staged, net.buffer(buffer, net.images))?;
            net.queue_backward()
        })?;
        let gradient = self.memory.gradient.slice();
        self.memory.host_gradient.receive(gradient)?;
        self.device.synchronize()?;
        self.gradient.copy_from_slice(self.memory.host_gradient.values());
        self.check_gradient()?;
        Ok(&self.gradient)
    }

    fn tap(&mut self, name: &str) -> Result<Tensor, ExecError> {
        let value = checks::find_tap(&self.graph, &self.plan, name)?;
        checks::check_predicted(self.images)?;
        self.device.enter()?;
        let dims = self.plan.value(value).dims;
        let values = self.read_value(value)?;
        Ok(checks::tap_tensor(self.images, dims, values))
    }

    fn state(&self) -> &ExecutorState {
        &self.state
    }

    fn state_mut(&mut self) -> &mut ExecutorState {
        &mut self.state
    }

    fn step(&mut self, run: &mut StepRun, batch: &Batch) -> Result<StepResult, ExecError> {
        if !self.steps_on_device(run) {
            return run.step_on_host(self, batch, |_, _| {});
        }
        self.state.ready = false;
        self.take_batch(batch)?;
        self.finish_step(run)
    }

    fn absorb_statistics(&mut self) -> Result<(), ExecError> {
        checks::check_predicted(self.images)?;
        self.device.enter()?;
        for norm in &self.norms {
            norm.absorb(&self.device)?;
        }
        Ok(())
    }

    fn reset_statistics(&mut self) -> Result<(), ExecError> {
        self.device.enter()?;
        for norm in &self.norms {
            norm.restore(&self.device)?;
        }
        Ok(())
    }

    fn reset(&mut self) -> Result<(), ExecError> {
        self.images = 0;
        self.profile = None;
        self.memory.held = None;
        // A run that goes on would find no memory in a new network either.
        self.runs.clear();
        self.reset_affine();
        self.reset_statistics()?;
        self.set_norm_mode(NormMode::Running)
    }
}
