//! The paper's two phases, seen in the clusters while a model adapts.

use crate::analysis::mean_silhouette;
use crate::{Device, PooledNetwork, RunError};
use flipcast_estimate::Outputs;
use flipcast_estimate::embed::{Centres, KmeansConfig, Points, kmeans, shift_distance};
use flipcast_exec::NormMode;
use flipcast_graph::Purpose;
use flipcast_models::Model;
use flipcast_record::results::Checkpoint;
use flipcast_tensor::Batch;

/// Images that are looked at again and again: the first of the run.
const IMAGES: usize = 512;
/// Images for each cluster, at least.
const IMAGES_PER_CLUSTER: usize = 8;
/// Starts of k-means.
const RESTARTS: usize = 3;

/// Looks at the same images every few batches: how sure the model is, how tight the clusters of its embeddings are, and how far they have moved.
///
/// *Idea.* While adapting helps, clusters tighten where the source model put them; when it hurts, they go on tightening but move away. Both show without labels.
/// *Formula.* Of the first 512 images: the mean entropy, the share of answers that differ from those with the source parameters, the silhouette of the groups that k-means finds
/// among their embeddings (one for each class, but at most one for eight images), and the mean distance of the groups' centres from those with the source parameters.
/// All are looked at in the norm mode of the method, so that what shows is what steps did, and not that statistics are those of the batch.
/// *Reference.* Press et al., "The Entropy Enigma: Success and Failure of Entropy Minimization", ICML 2024, section 4.
/// *Departures from the reference.* The paper measures the distance from class means of clean images, which a running system does not have.
pub(super) struct PhaseWatch {
    every: usize,
    net: PooledNetwork,
    mode: NormMode,
    seed: u64,
    classes: usize,
    probe: Vec<Batch>,
    images: usize,
    source: Option<SourceLook>,
}

/// What is said of the probe with the source parameters, under the norm mode of the method.
struct SourceLook {
    answers: Vec<usize>,
    centres: Centres,
}

impl PhaseWatch {
    /// Looks at the model every `every` batches of at most `largest` images.
    pub(super) fn new(
        device: Device,
        model: &Model,
        (every, largest): (usize, usize),
        mode: NormMode,
        seed: u64,
    ) -> Result<Self, RunError> {
        let net = device.network(model, Purpose::Predict, largest)?;
        let (classes, probe) = (model.num_classes(), Vec::new());
        Ok(Self { every, net, mode, seed, classes, probe, images: 0, source: None })
    }

    /// Takes in a batch. After every `every`th, tells what became of the first images under `affine`; the first time, what the source parameters make of them too.
    pub(super) fn observe(
        &mut self,
        batch: &Batch,
        number: usize,
        affine: &[f32],
    ) -> Result<Vec<Checkpoint>, RunError> {
        if self.images < IMAGES && self.source.is_none() {
            let extents = [batch.images(), batch.height(), batch.width(), batch.channels()];
            let copy = Batch::new(extents, batch.values().to_vec());
            self.probe.push(copy.expect("as many values as the batch has"));
            self.images += batch.images();
        }
        if !number.is_multiple_of(self.every) {
            return Ok(Vec::new());
        }
        let mut looks = Vec::new();
        if self.source.is_none() {
            self.net.reset_affine();
            looks.push(self.look(0)?);
        }
        self.net.affine_mut().copy_from_slice(affine);
        looks.push(self.look(number)?);
        Ok(looks)
    }

    fn look(&mut self, step: usize) -> Result<Checkpoint, RunError> {
        self.net.set_norm_mode(self.mode)?;
        let (mut logits, mut embeddings, mut width) = (Vec::new(), Vec::new(), 0);
        for batch in &self.probe {
            logits.extend_from_slice(self.net.forward(batch)?.values());
            let embedding = self.net.tap("embedding")?;
            width = embedding.values().len() / batch.images();
            embeddings.extend_from_slice(embedding.values());
        }
        // A model that has left all bounds is still looked at.
        for value in logits.iter_mut().chain(&mut embeddings).filter(|value| !value.is_finite()) {
            *value = 0.0;
        }
        let outputs = Outputs::new(logits, self.classes)?;
        let points = Points::new(embeddings, width)?;
        let clusters = self.classes.min(self.images / IMAGES_PER_CLUSTER).max(2).min(self.images);
        let found = kmeans(&points, &KmeansConfig { restarts: RESTARTS, ..KmeansConfig::new(clusters, self.seed) })?;
        let answers = outputs.classes_predicted();
        let entropies = outputs.entropies();
        let silhouette = mean_silhouette(&points, &found.labels, self.images, self.seed)?;
        let source =
            self.source.get_or_insert_with(|| SourceLook { answers: answers.clone(), centres: found.centres.clone() });
        let flips = answers.iter().zip(&source.answers).filter(|(now, before)| now != before).count();
        Ok(Checkpoint {
            step,
            accuracy: None,
            entropy: entropies.iter().sum::<f64>() / entropies.len() as f64,
            flips: flips as f64 / answers.len() as f64,
            silhouette,
            shift_distance: Some(shift_distance(&source.centres, &found.centres)?.mean),
            inertia: found.inertia,
        })
    }
}
