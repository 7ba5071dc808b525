//! A second look at images: the same network under slightly other conditions.

use crate::basis::{Basis, calibrates_with_early_look};
use crate::head::head_of;
use crate::images::Images;
use crate::looks::{Look, Looks};
use crate::source_pass::SourcePass;
use crate::{PooledNetwork, RunError, Scope, Setting};
use flipcast_estimate::{ClassShares, FLIP_BATCH, Head, Outputs};
use flipcast_exec::{Executor, NormMode};
use flipcast_graph::Purpose;
use flipcast_ground::SplitMix64;
use flipcast_models::Model;
use flipcast_tensor::Batch;

/// Images that are looked at twice, at most.
pub(crate) const PROBE: usize = 1000;
/// Share of the norms that take the statistics of the batch in an early look: settled on calibration samples of two networks (`studies/production/third_look.md`).
const EARLY_SHARE: f32 = 0.7;
/// The norm modes of an early look and of the second look.
pub(crate) const EARLY_AND_SECOND: [NormMode; 2] = [NormMode::Early { share: EARLY_SHARE }, NormMode::Batch];
/// Images that share batch statistics.
pub(crate) const BATCH: usize = FLIP_BATCH;
/// Sizes of samples, in turn; the last is all images.
const SAMPLE_IMAGES: [usize; 5] = [50, 100, 300, 1000, usize::MAX];
/// A sample that was asked for more images than there are, and has fewer than this, says too little.
const LEAST_SAMPLE: usize = 20;

/// What is drawn of a calibration cell called `name`: every kind of class shares, their sizes in turn. Cells begin at different
/// sizes, so that each kind of shares meets all of them.
pub(crate) fn calibration_samples(name: &str) -> Vec<(ClassShares, usize)> {
    let first = SplitMix64::hash_text(name) as usize % SAMPLE_IMAGES.len();
    let size = |kind: usize| SAMPLE_IMAGES[(first + kind) % SAMPLE_IMAGES.len()];
    ClassShares::ALL.into_iter().enumerate().map(|(kind, shares)| (shares, size(kind))).collect()
}

/// Looks again at any of a cell's images.
pub(crate) struct SecondLook<'a> {
    temperature: f64,
    /// Images and classes of the source pass.
    images: usize,
    classes: usize,
    /// Whether there is an early look beside it.
    early: bool,
    condition: Condition<'a>,
}

/// What is different in the second look.
enum Condition<'a> {
    /// Norms use the statistics of the batch.
    BatchStatistics { net: PooledNetwork, images: &'a Images, source: &'a SourcePass, scope: &'a Scope },
    /// Embeddings are moved so that their mean is that of clean ones. The last layer is linear, so that logits move by its weights
    /// times that move.
    Recentred { head: Head, clean_mean: Vec<f32>, source: &'a SourcePass, scope: &'a Scope },
    /// Somebody else looked: outputs of all images, from another pass or another network.
    Given(&'a Outputs),
    /// Nothing: there is neither a batch norm nor a linear last layer, nor a second array of outputs, so that the source model's are all there is.
    Nothing(&'a Outputs),
}

impl<'a> SecondLook<'a> {
    /// A second look at `images`, of which `source` was the first.
    pub(crate) fn new(
        setting: &Setting,
        images: &'a Images,
        source: &'a SourcePass,
        scope: &'a Scope,
        basis: &Basis,
    ) -> Result<Self, RunError> {
        let condition = if setting.model.graph().has_batch_norm() {
            let net = batch_statistics_network(setting, images.len())?;
            Condition::BatchStatistics { net, images, source, scope }
        } else {
            let head = head_of(setting.model, source.embeddings.dims())?.filter(|_| scope.keeps_logits());
            match (head, &basis.embedding_mean) {
                (Some(head), Some(clean_mean)) => {
                    Condition::Recentred { head, clean_mean: clean_mean.clone(), source, scope }
                }
                _ => Condition::Nothing(&source.outputs),
            }
        };
        Ok(Self::with_condition(&source.outputs, basis, condition))
    }

    /// A second look where nothing but outputs is there: `second` has those of the same images, if somebody looked twice.
    pub(crate) fn at_outputs(outputs: &'a Outputs, second: Option<&'a Outputs>, basis: &Basis) -> Self {
        Self::with_condition(outputs, basis, second.map_or(Condition::Nothing(outputs), Condition::Given))
    }

    fn with_condition(outputs: &Outputs, basis: &Basis, condition: Condition<'a>) -> Self {
        let (images, classes) = (outputs.images(), outputs.classes());
        Self { temperature: basis.temperature.value, images, classes, early: basis.early_look, condition }
    }

    /// Looks at all images. Which of many are looked at twice is drawn by `seed`, so that the order in which they are stored
    /// plays no part.
    pub(crate) fn whole(&mut self, seed: u64) -> Result<Looks, RunError> {
        self.stored_as((0..self.images).collect(), seed)
    }

    /// Looks at all images as if they were stored in the order of `rows`.
    pub(crate) fn stored_as(&mut self, mut rows: Vec<usize>, seed: u64) -> Result<Looks, RunError> {
        SplitMix64::new(seed).shuffle(&mut rows);
        let in_batches = matches!(self.condition, Condition::BatchStatistics { .. });
        Ok(Looks { whole: self.look(rows)?, samples: Vec::new(), labels: None, in_batches })
    }

    /// The same, and at samples of the images of a cell called `name`, which have these `labels`, with the class shares and numbers of images of `plan`.
    pub(crate) fn whole_and_samples(
        &mut self,
        name: &str,
        labels: Vec<usize>,
        plan: &[(ClassShares, usize)],
        seed: u64,
    ) -> Result<Looks, RunError> {
        let whole = self.whole(seed)?;
        let mut samples = Vec::new();
        for &(shares, asked) in plan {
            let images = asked.min(labels.len());
            let seed = SplitMix64::mix(seed ^ SplitMix64::hash_text(&format!("{name}/{}/{images}", shares.name())));
            let rows = shares.draw(&labels, self.classes, images, seed)?;
            if rows.len() >= LEAST_SAMPLE.min(asked) {
                samples.push((shares, self.look(rows)?));
            }
        }
        Ok(Looks { samples, labels: Some(labels), ..whole })
    }

    /// The second look at the first of `rows`.
    fn look(&mut self, rows: Vec<usize>) -> Result<Look, RunError> {
        let probe = &rows[..rows.len().min(PROBE)];
        let mut early = None;
        let second = match &mut self.condition {
            Condition::BatchStatistics { net, images, source, scope } => {
                let order: Vec<usize> = probe.iter().map(|&row| source.indices[row]).collect();
                let (second, answers) = look_in_batches(&mut **net, images, scope, order, self.early)?;
                early = answers;
                second
            }
            Condition::Recentred { head, clean_mean, source, scope } => {
                let here = source.embeddings.mean_of(&rows);
                let move_by: Vec<f32> = clean_mean.iter().zip(&here).map(|(clean, here)| clean - here).collect();
                let logits = scope.project(head.weigh(&move_by))?;
                let moved = |&row: &usize| {
                    let pairs = source.outputs.row(row).iter().zip(logits.row(0));
                    pairs.map(|(z, by)| z + by).collect::<Vec<f32>>()
                };
                Outputs::new(probe.iter().flat_map(moved).collect(), logits.classes())?
            }
            // It costs nothing to use all of them.
            Condition::Given(second) => rows_of(second, &rows)?,
            Condition::Nothing(source) => rows_of(source, probe)?,
        };
        Ok(Look { early, second: second.scaled(self.temperature), rows })
    }
}

/// The outputs at `rows`.
fn rows_of(outputs: &Outputs, rows: &[usize]) -> Result<Outputs, RunError> {
    let chosen = rows.iter().flat_map(|&row| outputs.row(row)).copied().collect();
    Ok(Outputs::new(chosen, outputs.classes())?)
}

/// What looks at a calibration cell beside the first will take.
#[derive(Default)]
pub(crate) struct ExpectedLooks {
    /// Predictions of single images.
    pub predictions: usize,
    /// As many predictions of the whole network take as long.
    pub passes: f64,
}

/// What second and early looks at a calibration cell of `images` images take, samples included, where decisions have so many `classes`.
pub(crate) fn expected_looks(model: &Model, classes: usize, images: usize) -> ExpectedLooks {
    if !model.graph().has_batch_norm() {
        return ExpectedLooks::default();
    }
    let sample: usize = SAMPLE_IMAGES.iter().map(|&n| n.min(images).min(PROBE)).sum();
    let seen = images.min(PROBE) + ClassShares::ALL.len() * sample / SAMPLE_IMAGES.len();
    // An early look runs the norms in which it differs from the second; where an executor runs the others twice, it takes longer.
    match calibrates_with_early_look(model, classes) {
        true => ExpectedLooks { predictions: 2 * seen, passes: seen as f64 * (2.0 - f64::from(EARLY_SHARE)) },
        false => ExpectedLooks { predictions: seen, passes: seen as f64 },
    }
}

/// The network whose norms use the statistics of the batch, for the second look at some of `images` images.
pub(crate) fn batch_statistics_network(setting: &Setting, images: usize) -> Result<PooledNetwork, RunError> {
    let mut net = setting.device.network(setting.model, Purpose::Predict, BATCH.min(images))?;
    net.set_norm_mode(NormMode::Batch)?;
    Ok(net)
}

/// Looks at the images with these indices in the dataset under the statistics of batches of equal size. With an `early` look, what that one answers too; the first norms, which
/// both have in common, may be run once.
pub(crate) fn look_in_batches(
    net: &mut dyn Executor,
    images: &Images,
    scope: &Scope,
    order: Vec<usize>,
    early: bool,
) -> Result<(Outputs, Option<Vec<usize>>), RunError> {
    let rows = order.len();
    let (mut first, mut second) = (Vec::new(), Vec::new());
    for_batches(images, order, |batch| {
        if early {
            let [of_early, of_second] = net.forward_in_modes(batch, EARLY_AND_SECOND)?;
            first.extend(of_early);
            second.extend(of_second);
        } else {
            second.extend_from_slice(net.forward(batch)?.values());
        }
        Ok(())
    })?;
    // The last batch was filled with images that were seen before.
    let outputs = |mut logits: Vec<f32>| {
        logits.truncate(rows * net.num_classes());
        scope.project(logits)
    };
    let answers = if early { Some(outputs(first)?.classes_predicted()) } else { None };
    Ok((outputs(second)?, answers))
}

/// Hands over the images with these indices in the dataset in batches of equal size: a short last one is filled with the images before it.
fn for_batches(
    images: &Images,
    mut order: Vec<usize>,
    mut predict: impl FnMut(&Batch) -> Result<(), RunError>,
) -> Result<(), RunError> {
    let rows = order.len();
    let batch = BATCH.min(rows);
    let last = rows % batch;
    if last > 0 {
        let full = rows - last;
        order.extend_from_within(full - (batch - last)..full);
    }
    let mut pass = images.pass_over(&order, batch)?;
    while let Some(loaded) = pass.next_batch()? {
        predict(&loaded.batch)?;
        pass.recycle(loaded.batch);
    }
    Ok(())
}
