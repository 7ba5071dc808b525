//! Batch norms anchored at what clean images look like.

use super::Candidate;
use crate::images::Images;
use crate::layer_statistics::{SampledImages, gather_statistics};
use crate::{RunError, Watcher};
use flipcast_exec::{NormMode, NormStatistics};
use flipcast_graph::{Graph, NodeId, NormKind};
use flipcast_models::Model;
use serde::{Deserialize, Serialize};

/// Clean images that norms are anchored at.
pub const ANCHOR_IMAGES: usize = 512;

/// What clean images look like to the batch norms of a model when it is evaluated: mean and variance of every channel they normalise.
///
/// *Idea.* Running statistics were gathered while the network trained, on augmented images and with weights that still moved. Clean images at evaluation
/// have others, and the layers behind a norm know its output as evaluation gives it. The statistics of a batch take that difference away; scales and
/// shifts can give it back, so that batches of clean images are predicted as before.
/// *Formula.* With the mean `m` and the deviation `s` of a norm's input over clean images, and `m_r`, `s_r` its running statistics:
/// `scale' = scale s / s_r`, `shift' = shift + scale (m - m_r) / s_r`. With a share `w` of the running statistics in a mixture, `m` is `w m_r + (1 - w) m` and
/// `s^2` is `w s_r^2 + (1 - w) s^2`.
/// *Reference.* Flipcast's own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Anchors {
    layers: Vec<Anchor>,
}

/// One batch norm.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Anchor {
    name: String,
    mean: Vec<f32>,
    variance: Vec<f32>,
}

impl Anchors {
    /// Gathers them on some of the clean images; `None` for a model without batch norms.
    ///
    /// # Errors
    /// When images cannot be read.
    pub fn gather(
        model: &Model,
        clean: &Images,
        seed: u64,
        watcher: &mut dyn Watcher,
    ) -> Result<Option<Self>, RunError> {
        let graph = model.graph();
        let norms: Vec<NodeId> =
            graph.norms().filter(|(_, norm)| norm.kind == NormKind::Batch).map(|(node, _)| node).collect();
        if norms.is_empty() {
            return Ok(None);
        }
        let mut inputs: Vec<String> = norms.iter().map(|&node| input_of(graph, node)).collect();
        inputs.sort();
        inputs.dedup();
        let sample = SampledImages { images: clean, at_most: ANCHOR_IMAGES, seed };
        let (_, statistics) = gather_statistics(model, inputs, &sample, 0, watcher)?;
        let mut layers = Vec::new();
        for node in norms {
            let input = input_of(graph, node);
            let found = statistics.iter().find(|layer| layer.layer == input);
            layers.extend(found.map(|layer| Anchor {
                name: graph.node(node).name.clone(),
                mean: layer.mean.clone(),
                variance: layer.variance.clone(),
            }));
        }
        Ok(Some(Self { layers }))
    }

    /// The model whose batch norms, under the statistics that `mode` takes of clean images, give what they give under running statistics.
    ///
    /// # Errors
    /// When they are those of another model.
    pub fn apply(&self, model: &Model, mode: NormMode) -> Result<Model, RunError> {
        if mode == NormMode::Running {
            return Ok(model.clone());
        }
        let graph = model.graph();
        let (table, mut affine) = (graph.affine_table(), model.affine());
        let norms = graph.norms().count();
        for (index, (node, norm)) in graph.norms().enumerate().filter(|(_, (_, norm))| norm.kind == NormKind::Batch) {
            let source_weight = match mode.of_norm(index, norms) {
                NormStatistics::Running => continue,
                NormStatistics::Batch => 0.0,
                NormStatistics::Mixed { source_weight } => source_weight,
            };
            let mix = |running: f32, clean: f32| source_weight * running + (1.0 - source_weight) * clean;
            let name = &graph.node(node).name;
            let values = |suffix: &str| model.param(&format!("{name}.{suffix}")).map(|tensor| tensor.values());
            let entry = table.entries().iter().find(|entry| entry.name == *name);
            let clean = self
                .layers
                .iter()
                .find(|layer| layer.name == *name)
                .filter(|layer| layer.mean.len() == norm.channels && layer.variance.len() == norm.channels);
            let (Some(clean), Some(mean), Some(variance), Some(entry)) =
                (clean, values("running_mean"), values("running_var"), entry)
            else {
                return Err(RunError::OtherCalibration {
                    what: "batch norms without",
                    found: name.clone(),
                    expected: model.name().to_owned(),
                });
            };
            let (scales, shifts) = (entry.scale().start, entry.shift().start);
            for c in 0..norm.channels {
                let running = (variance[c] + norm.eps).sqrt();
                let scale = affine[scales + c];
                affine[scales + c] = scale * (mix(variance[c], clean.variance[c]) + norm.eps).sqrt() / running;
                affine[shifts + c] += scale * (mix(mean[c], clean.mean[c]) - mean[c]) / running;
            }
        }
        Ok(model.with_affine(&affine)?)
    }
}

/// The model of every candidate: the source model, or that with anchored norms. Candidates with the same norms share one.
///
/// # Errors
/// When a candidate wants anchors and there are none, or they are those of another model.
pub fn models_of(model: &Model, anchors: Option<&Anchors>, candidates: &[Candidate]) -> Result<Vec<Model>, RunError> {
    let mut made: Vec<(NormMode, Model)> = Vec::new();
    let mut models = Vec::with_capacity(candidates.len());
    for candidate in candidates {
        let (mode, Some(anchors)) = (candidate.config.norm_mode(), anchors.filter(|_| candidate.anchored)) else {
            models.push(model.clone());
            continue;
        };
        let known = made.iter().find(|(other, _)| *other == mode);
        models.push(match known {
            Some((_, model)) => model.clone(),
            None => {
                let anchored = anchors.apply(model, mode)?;
                made.push((mode, anchored.clone()));
                anchored
            }
        });
    }
    Ok(models)
}

/// The name of what the norm at `node` normalises.
fn input_of(graph: &Graph, node: NodeId) -> String {
    let inputs = &graph.node(node).inputs;
    inputs.first().map_or_else(String::new, |&input| graph.node(input).name.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Device, Unwatched};
    use flipcast_graph::Purpose;
    use flipcast_images::dataset::InMemory;
    use flipcast_images::loader::{LoaderConfig, Order};
    use flipcast_images::preprocess::{Normalise, Preprocess};
    use flipcast_images::{Image, Label};
    use std::sync::Arc;

    fn pictures(count: usize) -> Images {
        let picture = |i: usize| {
            let rgb = (0..32 * 32 * 3).map(|j| ((i * 37 + j * (1 + i % 3)) % 256) as u8).collect();
            (Image::new(32, 32, rgb).unwrap(), Label::Unknown)
        };
        let dataset = Arc::new(InMemory::new((0..count).map(picture)));
        Images::open(dataset, LoaderConfig::new(Preprocess::normalise_only(Normalise::half())), 1 << 20).unwrap()
    }

    #[test]
    fn a_batch_of_all_clean_images_is_predicted_as_with_running_statistics() {
        let model = Model::random("cifar_resnet8_w4", 5, 3).unwrap();
        let images = pictures(24);
        let anchors = Anchors::gather(&model, &images, 0, &mut Unwatched).unwrap().unwrap();
        let text = serde_json::to_string(&anchors).unwrap();
        assert_eq!(serde_json::from_str::<Anchors>(&text).unwrap(), anchors);
        let logits = |model: &Model, mode| {
            let mut net = Device::cpu(1).network(model, Purpose::Predict, 24).unwrap();
            net.set_norm_mode(mode).unwrap();
            let batch = images.pass(Order::Stored, None, 24).unwrap().next_batch().unwrap().unwrap().batch;
            net.forward(&batch).unwrap().values().to_vec()
        };
        let expected = logits(&model, NormMode::Running);
        let far = |found: &[f32]| {
            found.iter().zip(&expected).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
                / expected.iter().fold(0.0, |most: f32, z| most.max(z.abs()))
        };
        assert!(far(&logits(&model, NormMode::Batch)) > 0.05, "they differ without anchors");
        let anchored = anchors.apply(&model, NormMode::Batch).unwrap();
        let found = far(&logits(&anchored, NormMode::Batch));
        // Measured 5e-7: sums in another order.
        assert!(found < 2e-6, "{found}");
    }

    #[test]
    fn anchors_of_another_network_are_refused() {
        let images = pictures(8);
        let small = Model::random("cifar_resnet8_w4", 5, 3).unwrap();
        let anchors = Anchors::gather(&small, &images, 0, &mut Unwatched).unwrap().unwrap();
        let other = Model::random("cifar_resnet20", 5, 3).unwrap();
        assert!(matches!(anchors.apply(&other, NormMode::Batch), Err(RunError::OtherCalibration { .. })));
        assert_eq!(anchors.apply(&other, NormMode::Running).unwrap().affine(), other.affine());
    }
}
