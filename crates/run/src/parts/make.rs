//! Looking at one shard.

use super::census::NameHash;
use super::part::{AdaptedRows, AdaptedSummary, SampleRows, SecondRows};
use super::{Census, PART_FORMAT, Part, PartError, Sums};
use crate::cell::{CellRequest, Setting};
use crate::head::head_of;
use crate::image_memory::ImageMemory;
use crate::images::Images;
use crate::ledger::scored_protocol;
use crate::second_look::{BATCH, PROBE, batch_statistics_network, look_in_batches};
use crate::source_pass::{accuracy, predict_source};
use crate::{Calibration, RunError, Scope, Watcher, collect_flips};
use flipcast_estimate::Anchor;
use flipcast_ground::Shard;
use flipcast_images::Label;
use flipcast_images::dataset::{Dataset, Subset};
use flipcast_record::Protocol;
use flipcast_record::results::Seconds;
use std::sync::Arc;
use std::time::Instant;

/// Images of the joined sample unless the caller says otherwise.
pub const DEFAULT_SAMPLE: usize = 20_000;

/// Which shard of the images, and how large a sample of all shards together is kept.
#[derive(Clone, Copy, Debug)]
pub struct PartPlan {
    /// The shard.
    pub shard: Shard,
    /// Images of all shards together whose outputs are kept; all where there are no more.
    pub sample: usize,
}

impl Setting<'_> {
    /// Looks at one shard of the images of `request`. The parts of all shards give the estimate by [`merge_parts`](super::merge_parts).
    ///
    /// # Errors
    /// When the images are a stream or cannot be read, or the network fails.
    pub fn make_part(
        &self,
        calibration: &Calibration,
        request: &CellRequest,
        plan: PartPlan,
        watcher: &mut dyn Watcher,
    ) -> Result<Part, RunError> {
        self.protocol.check()?;
        if request.dataset.is_stream() {
            return Err(PartError::Stream.into());
        }
        let (dataset, mut config) = self.sampled(request)?;
        let images = dataset.len().min(config.limit.take().unwrap_or(usize::MAX));
        let list = ShardList::read(&*dataset, images, plan, request.seed);
        let protocol = scored_protocol("estimate_part", self, request, &calibration.basis)?
            .with("format", &PART_FORMAT)?
            .with("calibration", &calibration.key()?)?
            .with("shards", &plan.shard.count())?
            .with("sample", &plan.sample)?
            .with("names", &format!("{:016x}", list.whole.names))?;
        if list.whole.images == 0 {
            return Err(RunError::NoImages);
        }
        if list.indices.is_empty() {
            return self.empty_part(calibration, request.scope, plan.shard, &list, protocol);
        }
        let shard: Arc<dyn Dataset> = Arc::new(Subset::new(dataset, list.indices.clone())?);
        let images = ImageMemory::new(request.memory_limit).open(&shard, &config)?;
        let look = Look { setting: self, calibration, scope: request.scope, images: &images, shard: &*shard };
        look.make(plan.shard, &list, protocol, watcher)
    }

    /// The part of a shard that no image belongs to.
    fn empty_part(
        &self,
        calibration: &Calibration,
        scope: &Scope,
        shard: Shard,
        list: &ShardList,
        protocol: Protocol,
    ) -> Result<Part, RunError> {
        let classes = scope.num_classes();
        let second = if self.model.graph().has_batch_norm() {
            SecondRows::unseen(calibration.basis.early_look, None)
        } else {
            recentred(self, calibration, scope, calibration.basis.embedding_mean.clone())?
        };
        Ok(Part {
            protocol,
            shard,
            whole: list.whole,
            own: list.own,
            sums: Sums::new(classes),
            sample: SampleRows { keys: Vec::new(), indices: Vec::new(), logits: Vec::new(), classes, below: None },
            second,
            adapted: None,
            seconds: Seconds::default(),
        })
    }
}

/// The images of a shard, and which of them are kept.
struct ShardList {
    whole: Census,
    own: Census,
    /// The shard's images by their index in the whole dataset, ascending.
    indices: Vec<usize>,
    /// Their keys.
    keys: Vec<u64>,
    /// The shard's images, by place in `indices`, in the order of their keys.
    by_key: Vec<usize>,
    /// How many of the first of these are sampled.
    sampled: usize,
    /// How many of the first of these are looked at twice.
    looked_at: usize,
}

impl ShardList {
    fn read(dataset: &dyn Dataset, images: usize, plan: PartPlan, seed: u64) -> Self {
        let (mut whole, mut own) = (Census::default(), Census::default());
        let (mut indices, mut keys) = (Vec::new(), Vec::new());
        for index in 0..images {
            let name = NameHash::of(&dataset.id(index));
            whole.add(name);
            if name.is_in(plan.shard) {
                own.add(name);
                indices.push(index);
                keys.push(name.key(seed));
            }
        }
        let mut by_key: Vec<usize> = (0..keys.len()).collect();
        by_key.sort_by_key(|&place| (keys[place], place));
        let sampled = share(plan.sample, images, plan.shard, 1).min(by_key.len());
        let looked_at = share(PROBE, images, plan.shard, BATCH).min(sampled);
        Self { whole, own, indices, keys, by_key, sampled, looked_at }
    }

    /// The key that those of the first `count` images are smaller than.
    fn below(&self, count: usize) -> Option<u64> {
        self.by_key.get(count).map(|&place| self.keys[place])
    }
}

/// How many images of a shard are kept so that all shards together have `wanted` of `images`, in multiples of `step`. Keys fall into shards by chance; four standard deviations more
/// than the shard's share leave the joined sample short by a few images at most, and rarely.
fn share(wanted: usize, images: usize, shard: Shard, step: usize) -> usize {
    if images <= wanted {
        return images;
    }
    let mean = wanted as f64 / shard.count() as f64;
    let more = if shard.count() == 1 { 0.0 } else { 4.0 * mean.sqrt() };
    ((mean + more).ceil() as usize).next_multiple_of(step)
}

/// What embeddings moved from `mean` to the mean of clean ones add to logits, where the network has such a second look.
fn recentred(
    setting: &Setting,
    calibration: &Calibration,
    scope: &Scope,
    mean: Option<Vec<f32>>,
) -> Result<SecondRows, RunError> {
    let (Some(clean), Some(mean)) = (&calibration.basis.embedding_mean, mean) else {
        return Ok(SecondRows::Nothing);
    };
    let head = head_of(setting.model, mean.len())?.filter(|_| scope.keeps_logits() && clean.len() == mean.len());
    let Some(head) = head else {
        return Ok(SecondRows::Nothing);
    };
    let move_by: Vec<f32> = clean.iter().zip(&mean).map(|(clean, here)| clean - here).collect();
    Ok(SecondRows::Recentred { shift: scope.project(head.weigh(&move_by))?.row(0).to_vec() })
}

/// A look at the images of a shard.
struct Look<'a> {
    setting: &'a Setting<'a>,
    calibration: &'a Calibration,
    scope: &'a Scope,
    images: &'a Images,
    shard: &'a dyn Dataset,
}

/// What the source model's pass gave.
struct Pass {
    sums: Sums,
    /// Of the sample, by key: logits, and whether the image could be read.
    logits: Vec<f32>,
    is_read: Vec<bool>,
    /// Sum of the embeddings.
    embedding: Vec<f64>,
    /// By place in the shard, where the probe needs them.
    classes: Vec<usize>,
    confidences: Vec<f64>,
    labels: Vec<Label>,
}

impl Look<'_> {
    fn make(
        &self,
        shard: Shard,
        list: &ShardList,
        protocol: Protocol,
        watcher: &mut dyn Watcher,
    ) -> Result<Part, RunError> {
        let mut seconds = Seconds::default();
        let mut timed = Instant::now();
        let mut lap = || std::mem::replace(&mut timed, Instant::now()).elapsed().as_secs_f64();
        let adapts = shard.index() == 1;
        let pass = self.predict(list, adapts, watcher)?;
        seconds.source = lap();
        let adapted = match adapts {
            true => Some(self.adapt(&pass, watcher)?),
            false => None,
        };
        seconds.flips = lap();
        let second = self.look_again(list, &pass)?;
        seconds.second_look = lap();
        let classes = self.scope.num_classes();
        let mut sample = SampleRows {
            keys: Vec::new(),
            indices: Vec::new(),
            logits: Vec::new(),
            classes,
            below: list.below(list.sampled),
        };
        for (row, &place) in list.by_key[..list.sampled].iter().enumerate().filter(|(row, _)| pass.is_read[*row]) {
            sample.keys.push(list.keys[place]);
            sample.indices.push(self.shard.stored_index(place) as u64);
            sample.logits.extend_from_slice(&pass.logits[row * classes..][..classes]);
        }
        Ok(Part {
            protocol,
            shard,
            whole: list.whole,
            own: list.own,
            sums: pass.sums,
            sample,
            second,
            adapted,
            seconds,
        })
    }

    /// One pass of the source model over all images of the shard.
    fn predict(&self, list: &ShardList, keep_all: bool, watcher: &mut dyn Watcher) -> Result<Pass, RunError> {
        let (images, classes) = (list.indices.len(), self.scope.num_classes());
        let mut row_of = vec![None; images];
        list.by_key[..list.sampled].iter().enumerate().for_each(|(row, &place)| row_of[place] = Some(row));
        let kept = if keep_all { images } else { 0 };
        let mut pass = Pass {
            sums: Sums::new(classes),
            logits: vec![0.0; list.sampled * classes],
            is_read: vec![false; list.sampled],
            embedding: Vec::new(),
            classes: vec![0; kept],
            confidences: vec![0.0; kept],
            labels: vec![Label::Unknown; kept],
        };
        predict_source(self.setting.model, self.images, self.setting.device, watcher, |batch| {
            let outputs = self.scope.project(batch.logits)?;
            pass.sums.add(&self.calibration.basis.warm(&outputs));
            let width = batch.embeddings.len() / batch.indices.len();
            pass.embedding.resize(width, 0.0);
            for embedding in batch.embeddings.chunks_exact(width) {
                pass.embedding.iter_mut().zip(embedding).for_each(|(sum, value)| *sum += f64::from(*value));
            }
            let summaries = keep_all.then(|| (outputs.classes_predicted(), outputs.confidences()));
            for (at, (place, label)) in batch.indices.into_iter().zip(batch.labels).enumerate() {
                let logits = outputs.row(at);
                let is_right = self.scope.is_correct(logits, &label);
                pass.sums.right = pass.sums.right.zip(is_right).map(|(right, is_right)| right + u64::from(is_right));
                if let Some(row) = row_of[place] {
                    pass.logits[row * classes..][..classes].copy_from_slice(logits);
                    pass.is_read[row] = true;
                }
                if let Some((predicted, confidences)) = &summaries {
                    pass.classes[place] = predicted[at];
                    pass.confidences[place] = confidences[at];
                    pass.labels[place] = label;
                }
            }
            Ok(())
        })?;
        Ok(pass)
    }

    /// Adapts, and predicts a probe before and after.
    fn adapt(&self, pass: &Pass, watcher: &mut dyn Watcher) -> Result<AdaptedRows, RunError> {
        let Setting { model, protocol, device } = *self.setting;
        let flips = collect_flips(model, self.images, self.scope, protocol, device, watcher)?;
        let source = Anchor {
            classes: flips.probe.iter().map(|&place| pass.classes[place]).collect(),
            confidences: flips.probe.iter().map(|&place| pass.confidences[place]).collect(),
        };
        let batch = Anchor { classes: flips.initial.classes_predicted(), confidences: flips.initial.confidences() };
        let flags = flips.probe_from(source.clone(), self.setting).flags;
        let stop = flips.stops.last();
        let labels = || flips.probe.iter().map(|&place| &pass.labels[place]);
        let share = stop.and_then(|stop| accuracy(&stop.outputs, labels(), self.scope));
        let right = share.map(|share| (share * flips.probe.len() as f64).round() as u64);
        let summary =
            AdaptedSummary { source: source.into(), batch: batch.into(), flags, right, adaptation: flips.adaptation };
        Ok(AdaptedRows { summary, logits: stop.map_or_else(Vec::new, |stop| stop.outputs.logits().to_vec()) })
    }

    /// Looks again at the images with the smallest keys.
    fn look_again(&self, list: &ShardList, pass: &Pass) -> Result<SecondRows, RunError> {
        if !self.setting.model.graph().has_batch_norm() {
            let images = pass.sums.images as f64;
            let mean = pass.embedding.iter().map(|sum| (sum / images) as f32).collect();
            return recentred(self.setting, self.calibration, self.scope, Some(mean));
        }
        let first = list.by_key[..list.looked_at].iter().enumerate();
        let order: Vec<usize> = first.filter(|(row, _)| pass.is_read[*row]).map(|(_, &place)| place).collect();
        let below = list.below(list.looked_at);
        if order.is_empty() {
            return Ok(SecondRows::unseen(self.calibration.basis.early_look, below));
        }
        let mut net = batch_statistics_network(self.setting, self.images.len())?;
        let early = self.calibration.basis.early_look;
        let (second, answers) = look_in_batches(&mut *net, self.images, self.scope, order, early)?;
        let early = answers.map(|answers| answers.into_iter().map(|class| class as u64).collect());
        Ok(SecondRows::BatchStatistics { logits: second.logits().to_vec(), early, below })
    }
}
