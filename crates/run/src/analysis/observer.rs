use super::Subject;
use crate::images::Images;
use crate::source_pass::accuracy;
use crate::{PooledNetwork, RunError, Scope};
use flipcast_estimate::Outputs;
use flipcast_estimate::embed::Points;
use flipcast_exec::NormMode;
use flipcast_graph::Purpose;
use flipcast_images::Label;
use flipcast_images::loader::Order;

/// Predicts the same images again and again, in the same chunks.
pub(super) struct Observer<'a> {
    pub images: &'a Images,
    /// Images that are predicted: the first of a pass shuffled by the seed, as the probe of flips.
    pub len: usize,
    /// Images that share batch statistics.
    pub chunk: usize,
    pub scope: &'a Scope,
    pub seed: u64,
    /// Statistics of batch norms.
    pub mode: NormMode,
    /// Threads that may work on the embeddings.
    pub threads: usize,
    /// Planned for `chunk` images.
    pub net: PooledNetwork,
}

/// What a network says about the observed images.
pub(super) struct Seen {
    /// Places in the set of images.
    pub indices: Vec<usize>,
    pub labels: Vec<Label>,
    pub outputs: Outputs,
    pub embeddings: Points,
}

impl<'a> Observer<'a> {
    /// Observes up to `len` of `images` with the statistics the subject adapts with.
    pub(super) fn new(subject: &'a Subject, images: &'a Images, len: usize) -> Result<Self, RunError> {
        let len = len.min(images.len());
        let chunk = subject.chunk_of(len);
        let net = subject.device.network(subject.model, Purpose::Predict, chunk)?;
        Ok(Self {
            images,
            len,
            chunk,
            scope: subject.request.scope,
            seed: subject.request.seed,
            mode: subject.method.norm_mode(),
            threads: subject.request.config.threads,
            net,
        })
    }

    /// Predicts the images with the affine vector given, or the source's.
    pub(super) fn observe(&mut self, affine: Option<&[f32]>) -> Result<Seen, RunError> {
        match affine {
            Some(affine) => self.net.affine_mut().copy_from_slice(affine),
            None => self.net.reset_affine(),
        }
        self.net.set_norm_mode(self.mode)?;
        let order = Order::Shuffled { seed: self.seed };
        let mut pass = self.images.pass(order, Some(self.len), self.chunk)?;
        let (mut indices, mut labels, mut logits) = (Vec::new(), Vec::new(), Vec::new());
        let (mut embeddings, mut width) = (Vec::new(), 0);
        while let Some(loaded) = pass.next_batch()? {
            logits.extend_from_slice(self.net.forward(&loaded.batch)?.values());
            let embedding = self.net.tap("embedding")?;
            width = embedding.values().len() / loaded.batch.images();
            embeddings.extend_from_slice(embedding.values());
            indices.extend(loaded.indices);
            labels.extend(loaded.labels);
            pass.recycle(loaded.batch);
        }
        if labels.is_empty() {
            return Err(RunError::NoImages);
        }
        Ok(Seen {
            indices,
            labels,
            outputs: self.scope.project(logits)?,
            embeddings: Points::new(embeddings, width)?.with_threads(self.threads),
        })
    }
}

impl Seen {
    /// The share of right answers, if every image's answer is known.
    pub(super) fn accuracy(&self, scope: &Scope) -> Option<f64> {
        accuracy(&self.outputs, self.labels.iter(), scope)
    }

    /// Mean entropy in nats.
    pub(super) fn mean_entropy(&self) -> f64 {
        let entropies = self.outputs.entropies();
        entropies.iter().sum::<f64>() / entropies.len() as f64
    }
}
