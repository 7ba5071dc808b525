use super::MonitorBasis;
use crate::second_look::EARLY_AND_SECOND;
use crate::{Device, PooledNetwork, RunError};
use flipcast_estimate::FLIP_BATCH;
use flipcast_exec::NormMode;
use flipcast_graph::Purpose;
use flipcast_models::Model;
use flipcast_tensor::Batch;

/// The network that looks again at every whole batch of a stream, under the statistics of the batch.
pub struct BatchLooks {
    net: PooledNetwork,
    /// Whether estimates gain from an early look.
    early: bool,
}

/// Logits of one batch.
pub struct BatchLook {
    /// For [`Monitor::look_again`](super::Monitor::look_again).
    pub second: Vec<f32>,
    /// For [`Monitor::look_early`](super::Monitor::look_early).
    pub early: Option<Vec<f32>>,
}

impl BatchLooks {
    /// `model` on `device`, for batches of [`FLIP_BATCH`] images; nothing for a network without batch norms, which has no such look.
    ///
    /// # Errors
    /// When the network cannot be made on the device.
    pub fn new(model: &Model, device: Device, basis: &MonitorBasis) -> Result<Option<Self>, RunError> {
        if !model.graph().has_batch_norm() {
            return Ok(None);
        }
        let mut net = device.network(model, Purpose::Predict, FLIP_BATCH)?;
        net.set_norm_mode(NormMode::Batch)?;
        Ok(Some(Self { net, early: basis.wants_early_look() }))
    }

    /// Looks at a batch.
    ///
    /// # Errors
    /// When the network refuses it.
    pub fn look(&mut self, batch: &Batch) -> Result<BatchLook, RunError> {
        if self.early {
            let [early, second] = self.net.forward_in_modes(batch, EARLY_AND_SECOND)?;
            return Ok(BatchLook { second, early: Some(early) });
        }
        Ok(BatchLook { second: self.net.forward(batch)?.values().to_vec(), early: None })
    }
}
