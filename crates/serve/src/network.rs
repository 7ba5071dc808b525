//! The network of the server: the source pass, and the second look at whole batches of a stream.

use crate::ServeError;
use crate::adaptation::{AdaptedBatch, Adapting};
use crate::prepared::{Preparation, Prepared};
use flipcast_estimate::FLIP_BATCH;
use flipcast_exec::{ExecError, Purpose};
use flipcast_ground::with_causes;
use flipcast_models::Model;
use flipcast_run::monitor::{BatchLook, BatchLooks, MonitorBasis};
use flipcast_run::{Device, PooledNetwork, RunError};
use std::collections::HashMap;

/// Images of a batch of the network.
pub const BATCH: usize = FLIP_BATCH;
/// Bytes of images that wait for the rest of their batch before the second look, of all streams together.
const WAITING_BYTES: usize = 256 << 20;

/// The network, and what looks at its images again.
pub struct Network {
    source: PooledNetwork,
    /// The network with the statistics of the batch, where it has batch norms.
    second: Option<BatchLooks>,
    /// Whether embeddings stand in for it.
    pub embeds: bool,
    preparation: Preparation,
    /// The network that adapts to streams, if any.
    pub adapting: Option<Adapting>,
    spare: Vec<f32>,
    /// Images of the batch that each stream is filling, and the source model's classes of them.
    waiting: HashMap<String, Vec<(Prepared, usize)>>,
    waiting_bytes: usize,
}

/// Why there are no outputs.
#[derive(Debug)]
pub enum NetworkFailure {
    /// The values that a request gave for this of the images lead beyond the numbers that a network has. Its weights are finite, as was seen when it was loaded.
    Values(usize),
    /// The network cannot run.
    Network(String),
}

/// A batch of a stream, looked at again.
pub struct LookedAt {
    /// Under the statistics of the batch, where the network has any.
    pub look: Option<BatchLook>,
    /// What the adapted network makes of it.
    pub adapted: Option<AdaptedBatch>,
}

impl Network {
    /// `model` on `device`, and the one that adapts, if any. It tells embeddings where `basis` needs them.
    pub fn new(
        model: &Model,
        device: Device,
        preparation: Preparation,
        adapting: Option<Adapting>,
        basis: &MonitorBasis,
    ) -> Result<Self, ServeError> {
        let source = device.network(model, Purpose::Predict, BATCH)?;
        let second = BatchLooks::new(model, device, basis)?;
        let embeds = basis.embedding_dims().is_some();
        let (waiting, spare) = (HashMap::new(), Vec::new());
        Ok(Self { source, second, embeds, preparation, adapting, spare, waiting, waiting_bytes: 0 })
    }

    /// The source model's logits and, where they are needed, embeddings.
    pub fn predict<'a>(
        &mut self,
        images: impl ExactSizeIterator<Item = &'a Prepared> + Clone,
        logits: &mut Vec<f32>,
        embeddings: &mut Vec<f32>,
    ) -> Result<(), NetworkFailure> {
        let batch = self.preparation.batch(images.clone(), std::mem::take(&mut self.spare));
        let predicted = self.source.forward(&batch).map(|predicted| logits.extend_from_slice(predicted.values()));
        self.spare = batch.into_memory().values;
        // Bytes are bounded, whoever sends them; values are not.
        let are_values = |place: usize| matches!(images.clone().nth(place), Some(Prepared::Values(_)));
        predicted.map_err(|error| match error {
            ExecError::NonFiniteLogits { image } if are_values(image) => NetworkFailure::Values(image),
            error => NetworkFailure::Network(with_causes(&error)),
        })?;
        if self.embeds {
            let embedding = self.source.tap("embedding");
            let embedding = embedding.map_err(|error| NetworkFailure::Network(with_causes(&error)))?;
            embeddings.extend_from_slice(embedding.values());
        }
        Ok(())
    }

    /// Whether anything is done with whole batches.
    fn looks_again(&self) -> bool {
        self.second.is_some() || self.adapting.is_some()
    }

    /// Adds an image, which the source model takes for `class`, to the batch of its stream; looks again when the batch is full. `image` is its number.
    pub fn look_again(
        &mut self,
        stream: &str,
        image: u64,
        prepared: Prepared,
        class: usize,
    ) -> Result<Option<LookedAt>, String> {
        if !self.looks_again() {
            return Ok(None);
        }
        let place = (image % BATCH as u64) as usize;
        let size = prepared.size();
        let waiting = self.waiting.entry(stream.to_owned()).or_default();
        if place == 0 {
            self.waiting_bytes -= waiting.drain(..).map(|(image, _)| image.size()).sum::<usize>();
        }
        // The start of the batch was lost: at a restart, or because too much was waiting.
        if waiting.len() != place {
            self.waiting_bytes -= waiting.drain(..).map(|(image, _)| image.size()).sum::<usize>();
            return Ok(None);
        }
        waiting.push((prepared, class));
        self.waiting_bytes += size;
        if waiting.len() < BATCH {
            if self.waiting_bytes > WAITING_BYTES {
                self.waiting.clear();
                self.waiting_bytes = 0;
            }
            return Ok(None);
        }
        let images = self.waiting.remove(stream).unwrap_or_default();
        self.waiting_bytes -= images.iter().map(|(image, _)| image.size()).sum::<usize>();
        let memory = std::mem::take(&mut self.spare);
        let batch = self.preparation.batch(images.iter().map(|(image, _)| image), memory);
        let look = self.second.as_mut().map(|second| second.look(&batch)).transpose();
        let look = match look {
            // Values whose squares are no numbers any more: such a batch is not looked at again.
            Err(RunError::Exec(ExecError::NonFiniteLogits { .. }))
                if images.iter().any(|(image, _)| matches!(image, Prepared::Values(_))) =>
            {
                self.spare = batch.into_memory().values;
                return Ok(None);
            }
            look => look.map_err(|error| with_causes(&error))?,
        };
        let classes: Vec<usize> = images.iter().map(|(_, class)| *class).collect();
        let adapted = self.adapting.as_mut().map(|adapting| adapting.step(stream, &batch, &classes)).transpose()?;
        self.spare = batch.into_memory().values;
        Ok(Some(LookedAt { look, adapted }))
    }
}
