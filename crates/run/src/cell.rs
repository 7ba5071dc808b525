//! One dataset as all estimators see it: a cell of a table.

use crate::basis::Basis;
use crate::cell_job::CellJob;
use crate::clean_images::CleanImages;
use crate::flips::{FlipEvidence, collect_flips};
use crate::image_memory::ImageMemory;
use crate::images::Images;
use crate::ledger::Ledger;
use crate::looks::Looks;
use crate::scores::score_both;
use crate::second_look::{SecondLook, calibration_samples};
use crate::source_pass::{SourcePass, accuracy, run_source};
use crate::{Device, FlipProtocol, RunError, Scope, Watcher};
use flipcast_estimate::{ClassShares, Flag, Outputs, Score, Scores, Signals, comes_in_bursts, standard_error};
use flipcast_images::dataset::{Dataset, Subset, spread_evenly};
use flipcast_images::loader::LoaderConfig;
use flipcast_images::preprocess::Preprocess;
use flipcast_models::Model;
use flipcast_record::results::{Cell, CellSample, ScoreSummary, Seconds, Steps};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

/// The model and the rules under which cells are looked at.
#[derive(Clone, Copy)]
pub struct Setting<'a> {
    /// The network.
    pub model: &'a Model,
    /// How flips are counted.
    pub protocol: &'a FlipProtocol,
    /// Where it runs.
    pub device: Device,
}

/// Images to look at.
#[derive(Clone)]
pub struct CellRequest<'a> {
    /// What they are called in records.
    pub data: String,
    /// The images.
    pub dataset: Arc<dyn Dataset>,
    /// How they reach the network, corruption included.
    pub config: LoaderConfig,
    /// The weights' rule for them, corruption left aside.
    pub preprocess: &'a Preprocess,
    /// Which outputs count, and what labels mean.
    pub scope: &'a Scope,
    /// Seed of the corruption.
    pub seed: u64,
    /// Bytes of images kept in memory.
    pub memory_limit: usize,
}

/// Whether samples of a cell are drawn, for which labels are needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Samples {
    /// With other class shares and sizes, for calibration.
    Drawn,
    /// None.
    None,
}

/// Everything that was seen of a dataset, labels aside.
pub struct Observation {
    /// The source model's pass.
    pub source: SourcePass,
    /// The flips.
    pub flips: FlipEvidence,
    /// Images that could not be read.
    pub skipped: usize,
    /// What is to be said about the images themselves.
    pub flags: Vec<Flag>,
    /// Second looks from which nothing was measured yet.
    pub(crate) looks: Option<Looks>,
    /// Signals of the second look, once it was scored.
    pub signals: Option<Signals>,
    /// Of the batches of the second look, how many had no flip, one, and so on.
    pub flips_by_batch: Option<Vec<u32>>,
    /// Accuracy of the second look, where samples are drawn.
    pub second_accuracy: Option<f64>,
    /// Samples with other class shares and sizes, where they are drawn.
    pub samples: Vec<CellSample>,
    /// Where the time went.
    pub seconds: Seconds,
}

impl<'a> Setting<'a> {
    /// The cell of `request`, from `ledger` or else made and kept there.
    pub fn cell(
        &self,
        kind: &str,
        request: &CellRequest,
        basis: &Basis,
        ledger: &mut Ledger,
        watcher: &mut dyn Watcher,
    ) -> Result<Cell, RunError> {
        let request = request.clone();
        let job = CellJob { setting: *self, kind, request, basis: Some(basis), samples: Samples::None };
        job.make(&CleanImages::default(), ledger, watcher)
    }

    /// Samples of labelled images with other class shares and numbers of images, for studies of estimates on such data.
    pub fn samples(
        &self,
        request: &CellRequest,
        basis: &Basis,
        plan: &[(ClassShares, usize)],
        watcher: &mut dyn Watcher,
    ) -> Result<Vec<CellSample>, RunError> {
        let memory = ImageMemory::new(request.memory_limit);
        let images = self.open_images(request, &CleanImages::default(), &memory)?;
        let source = run_source(self.model, &images, request.scope, self.device, watcher)?;
        let mut second_look = SecondLook::new(self, &images, &source, request.scope, basis)?;
        let labels = source.answers(request.scope)?;
        let looks = second_look.whole_and_samples(&request.data, labels, plan, self.protocol.seed)?;
        Ok(looks.measure(&source.outputs.scaled(basis.temperature.value))?.samples)
    }

    /// What would be seen of labelled images if they were stored in each of these orders, for studies of streams. The first look does not depend on the order and is made once.
    pub fn samples_in_orders(
        &self,
        request: &CellRequest,
        basis: &Basis,
        orders: &[Vec<usize>],
        watcher: &mut dyn Watcher,
    ) -> Result<(SourcePass, Vec<CellSample>), RunError> {
        let memory = ImageMemory::new(request.memory_limit);
        let images = self.open_images(request, &CleanImages::default(), &memory)?;
        let source = run_source(self.model, &images, request.scope, self.device, watcher)?;
        let labels = source.answers(request.scope)?;
        let (accuracy, warm) = (source.outputs.accuracy(&labels)?, source.outputs.scaled(basis.temperature.value));
        let mut second_look = SecondLook::new(self, &images, &source, request.scope, basis)?;
        let mut samples = Vec::with_capacity(orders.len());
        for order in orders {
            let looks = second_look.stored_as(order.clone(), self.protocol.seed)?;
            let second_accuracy = looks.whole.second_accuracy(&labels)?;
            let signals = looks.measure(&warm)?.signals;
            samples.push(CellSample { shares: ClassShares::Sample, signals, accuracy, second_accuracy });
        }
        drop(second_look);
        Ok((source, samples))
    }

    /// Opens the images of `request` and looks at them.
    pub fn observe(&self, request: &CellRequest, watcher: &mut dyn Watcher) -> Result<Observation, RunError> {
        let memory = ImageMemory::new(request.memory_limit);
        let images = self.open_images(request, &CleanImages::default(), &memory)?;
        self.observe_images(&images, request.scope, watcher)
    }

    /// Opens the images of `request`; `clean` are images that other cells may have read.
    pub(crate) fn open_images(
        &self,
        request: &CellRequest,
        clean: &CleanImages,
        memory: &ImageMemory,
    ) -> Result<Images, RunError> {
        let (dataset, config) = self.sampled(request)?;
        // The processor would have to hold the clean images beside those it looks at.
        if let Device::Cuda { .. } = self.device
            && let Some(images) = clean.open(&dataset, &config, request.memory_limit)?
        {
            return Ok(images);
        }
        memory.open(&dataset, &config)
    }

    /// The images of `request` that the protocol uses: all, some from all over the dataset, or the first of a stream.
    pub(crate) fn sampled(&self, request: &CellRequest) -> Result<(Arc<dyn Dataset>, LoaderConfig), RunError> {
        let mut config = request.config.clone();
        let dataset = request.dataset.clone();
        let Some(limit) = self.protocol.image_limit else {
            return Ok((dataset, config));
        };
        let earlier = config.limit.unwrap_or(usize::MAX);
        if dataset.is_stream() {
            config.limit = Some(earlier.min(limit));
        } else if limit < dataset.len().min(earlier) {
            config.limit = None;
            let indices = spread_evenly(dataset.len().min(earlier), limit, self.protocol.seed);
            let sample = Subset::new(dataset, indices)?;
            return Ok((Arc::new(sample), config));
        }
        Ok((dataset, config))
    }

    /// Looks at `images`: one pass of the source model, then the flips.
    pub fn observe_images(
        &self,
        images: &Images,
        scope: &Scope,
        watcher: &mut dyn Watcher,
    ) -> Result<Observation, RunError> {
        self.protocol.check()?;
        let started = Instant::now();
        let source = run_source(self.model, images, scope, self.device, watcher)?;
        let source_seconds = started.elapsed().as_secs_f64();
        let started = Instant::now();
        let flips = collect_flips(self.model, images, scope, self.protocol, self.device, watcher)?;
        let seconds = Seconds { source: source_seconds, flips: started.elapsed().as_secs_f64(), ..Seconds::default() };
        let mut flags = Vec::new();
        if images.len() < self.protocol.batch_size.max(FEW_IMAGES) {
            flags.push(Flag::TooFewImages);
        }
        if images.is_stream() && comes_in_bursts(&source.outputs.classes_predicted(), source.outputs.classes())? {
            flags.push(Flag::ClassSortedStream);
        }
        let skipped = images.skipped();
        Ok(Observation {
            source,
            flips,
            skipped,
            flags,
            looks: None,
            signals: None,
            flips_by_batch: None,
            second_accuracy: None,
            samples: Vec::new(),
            seconds,
        })
    }
}

/// Below this many images chance moves an accuracy by several points, whatever the estimator.
pub(crate) const FEW_IMAGES: usize = 200;

impl Observation {
    /// Looks at `images` again under slightly other conditions, for which it needs what clean images taught.
    pub fn look_again(
        &mut self,
        images: &Images,
        request: &CellRequest,
        setting: &Setting,
        basis: &Basis,
        samples: Samples,
    ) -> Result<(), RunError> {
        let started = Instant::now();
        let mut second_look = SecondLook::new(setting, images, &self.source, request.scope, basis)?;
        let seed = setting.protocol.seed;
        self.looks = Some(match samples {
            Samples::Drawn => {
                let (plan, labels) = (calibration_samples(&request.data), self.source.answers(request.scope)?);
                second_look.whole_and_samples(&request.data, labels, &plan, seed)?
            }
            Samples::None => second_look.whole(seed)?,
        });
        self.seconds.second_look = started.elapsed().as_secs_f64();
        Ok(())
    }

    /// Measures what the second looks say together with the first.
    fn measure_looks(&mut self, basis: &Basis) -> Result<(), RunError> {
        if let Some(looks) = self.looks.take() {
            let measured = looks.measure(&self.source.outputs.scaled(basis.temperature.value))?;
            self.signals = Some(measured.signals);
            (self.flips_by_batch, self.second_accuracy) = (measured.flips_by_batch, measured.second_accuracy);
            self.samples = measured.samples;
        }
        Ok(())
    }

    /// Scores what was seen. Labels enter the two accuracies, and the accuracies of samples, and nothing else.
    pub fn score(&mut self, setting: &Setting, scope: &Scope, basis: &Basis) -> Result<Cell, RunError> {
        let started = Instant::now();
        self.measure_looks(basis)?;
        let (source, adapted) = score_both(self, setting, basis)?;
        let mut cell = self.cell_of(scope, source);
        cell.adapted = summarise(adapted);
        cell.seconds.estimators = started.elapsed().as_secs_f64();
        Ok(cell)
    }

    /// A cell with these scores for the source model, and none for the adapted one.
    pub(crate) fn cell_of(&self, scope: &Scope, source: Scores) -> Cell {
        Cell {
            images: self.source.outputs.images(),
            skipped: self.skipped,
            accuracy: self.source.accuracy(scope),
            adapted_accuracy: self.adapted_accuracy(scope),
            source: summarise(source),
            adapted: BTreeMap::new(),
            probe_images: self.flips.probe.len(),
            adaptation: self.flips.adaptation,
            flags: self.flags.clone(),
            signals: self.signals,
            second_accuracy: self.second_accuracy,
            steps: self.steps(scope),
            samples: self.samples.clone(),
            seconds: self.seconds,
        }
    }

    /// Accuracy of the adapted model on the probe, if its labels are known.
    fn adapted_accuracy(&self, scope: &Scope) -> Option<f64> {
        self.probe_accuracy(&self.flips.stops.last()?.outputs, scope)
    }

    /// What the steps changed on the probe.
    fn steps(&self, scope: &Scope) -> Option<Steps> {
        let (before, after) = (&self.flips.initial, &self.flips.stops.last()?.outputs);
        let pairs = before.classes_predicted().into_iter().zip(after.classes_predicted());
        let flips = pairs.filter(|(before, after)| before != after).count() as f64 / after.images() as f64;
        let accuracies = self.probe_accuracy(after, scope).zip(self.probe_accuracy(before, scope));
        Some(Steps { flips, gain: accuracies.map(|(after, before)| after - before) })
    }

    /// Accuracy of `outputs` for the probe, if its labels are known.
    fn probe_accuracy(&self, outputs: &Outputs, scope: &Scope) -> Option<f64> {
        let rows = self.flips.rows_in(&self.source.indices).ok()?;
        let labels = rows.iter().map(|&row| &self.source.labels[row]);
        accuracy(outputs, labels, scope)
    }
}

/// Scores as they are stored.
pub(crate) fn summarise(scores: Scores) -> BTreeMap<String, ScoreSummary> {
    let summary = |score: Score| ScoreSummary {
        value: score.value,
        standard_error: score.terms.as_deref().and_then(|terms| standard_error(terms).ok()),
        flags: score.flags,
    };
    let named = scores.into_iter();
    named.map(|(name, score)| (name.to_owned(), summary(score))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use flipcast_images::dataset::{DataError, Layout, Sample};
    use flipcast_images::preprocess::Normalise;

    /// Images of one pixel each.
    struct Pixels {
        is_stream: bool,
    }

    impl Dataset for Pixels {
        fn layout(&self) -> Layout {
            Layout::FlatFolder
        }
        fn len(&self) -> usize {
            1000
        }
        fn classes(&self) -> &[String] {
            &[]
        }
        fn id(&self, index: usize) -> String {
            index.to_string()
        }
        fn sample(&self, _: usize) -> Result<Sample, DataError> {
            unreachable!("no image is read")
        }
        fn is_stream(&self) -> bool {
            self.is_stream
        }
    }

    #[test]
    fn a_limit_takes_images_from_all_over_a_dataset_and_the_first_of_a_stream() {
        let model = Model::random("cifar_resnet8_w4", 5, 1).unwrap();
        let preprocess = Preprocess::normalise_only(Normalise::cifar10());
        let scope = Scope::new(5, None);
        let mut protocol = FlipProtocol::named("flipcast").unwrap();
        let mut limited = |image_limit, is_stream| {
            protocol.image_limit = image_limit;
            let setting = Setting { model: &model, protocol: &protocol, device: Device::cpu(1) };
            let request = CellRequest {
                data: String::new(),
                dataset: Arc::new(Pixels { is_stream }),
                config: LoaderConfig::new(preprocess.clone()),
                preprocess: &preprocess,
                scope: &scope,
                seed: 0,
                memory_limit: 0,
            };
            let (dataset, config) = setting.sampled(&request).unwrap();
            let ids: Vec<String> = (0..dataset.len()).map(|i| dataset.id(i)).collect();
            (ids, config.limit)
        };
        assert_eq!(limited(None, false).0.len(), 1000);
        assert_eq!(limited(Some(1000), false).0.len(), 1000);
        let (some, limit) = limited(Some(10), false);
        assert_eq!(limit, None);
        let piece = |id: &String| id.parse::<usize>().unwrap() / 100;
        assert!(some.iter().map(piece).eq(0..10), "{some:?}");
        assert_eq!(limited(Some(10), false).0, some);
        let (all, limit) = limited(Some(10), true);
        assert_eq!((all.len(), limit), (1000, Some(10)));
    }
}
