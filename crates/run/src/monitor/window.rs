use super::row::Row;
use super::{MonitorBasis, MonitorError};
use crate::LooksAtImages;
use crate::explain::explain;
use flipcast_estimate::{Estimate, EstimateError, GainTally, Outputs, PoweredEstimate, Signals, SubsetCot};
use flipcast_record::results::{EstimatesResult, Seconds};
use flipcast_record::{Protocol, RunRecord, Timing};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The fewest images of a window that are looked at twice before its accuracy is estimated.
const LEAST_LOOKED_AT: usize = 20;
/// Classes whose shares a closed window keeps.
const KEPT_SHARES: usize = 20;

/// Where a window ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WindowKind {
    /// After a number of images.
    Count,
    /// After a time.
    Time,
}

impl WindowKind {
    /// Its name in files and requests.
    pub fn name(self) -> &'static str {
        match self {
            Self::Count => "count",
            Self::Time => "time",
        }
    }
}

/// The share of a class among the predictions.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClassShare {
    /// The class.
    pub class: usize,
    /// Its share.
    pub share: f64,
}

/// What labels say of a window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WindowLabels {
    /// Labels.
    pub labels: usize,
    /// With the model's own guesses, prediction-powered.
    pub powered: PoweredEstimate,
    /// Joined with the calibration's estimate; nothing where the two contradict each other.
    pub joined: Option<Estimate>,
}

/// What is said of the adapted network in a window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WindowAdapted {
    /// Images that it predicted.
    pub images: u64,
    /// Its accuracy less the source model's.
    pub gain: f64,
    /// Lower end of the gain's interval.
    pub low: f64,
    /// Upper end of it.
    pub high: f64,
    /// The probability that it is right less often than the source model; `None` where the calibration knows too few kinds of shift to tell.
    pub risk: Option<f64>,
    /// Its accuracy: that of the source model and the gain. Each may miss half as often as the level allows, so that the two together hold it.
    pub estimate: Option<Estimate>,
}

/// Images that came one after the other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Window {
    /// Where it ends.
    pub kind: WindowKind,
    /// Its place among windows of its kind.
    pub number: u64,
    /// Its first image.
    pub first_image: u64,
    /// Its images.
    pub images: u64,
    /// When the first image came, in seconds since 1970.
    pub started: f64,
    /// When the last one came.
    pub ended: f64,
    /// The accuracy; nothing where too few images were looked at twice.
    pub estimate: Option<Estimate>,
    /// With labels, where there are some.
    pub labelled: Option<WindowLabels>,
    /// The adapted network, where there is one and the calibration knows what adapting gains.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adapted: Option<WindowAdapted>,
    /// Mean confidence at the temperature of clean images.
    pub confidence: f64,
    /// Mean entropy in nats.
    pub entropy: f64,
    /// Share of predictions that flipped among those looked at twice.
    pub flips: Option<f64>,
    /// The most frequent classes.
    pub classes: Vec<ClassShare>,
    /// The estimate in words.
    pub explanation: Vec<String>,
    /// Images that can be asked about: their numbers, guesses and predictions. Empty for old windows.
    pub(super) seen: Vec<Seen>,
}

impl Window {
    /// The window as a record that reports show; `stream` is what its images are called.
    ///
    /// # Errors
    /// When a number is not finite, which no window of a monitor holds.
    pub fn record(&self, stream: &str, level: f64) -> Result<RunRecord, MonitorError> {
        let name = format!("{stream}/{}-{}", self.kind.name(), self.number);
        let protocol = Protocol::new("estimates").with("data", &name)?.with("level", &level)?.with("window", self)?;
        let adapted = self.adapted.as_ref().and_then(|adapted| adapted.estimate.as_ref());
        let result = EstimatesResult {
            cell: protocol.key(),
            images: usize::try_from(self.images).unwrap_or(usize::MAX),
            accuracy: None,
            adapted_accuracy: None,
            source: self.best().map(|estimate| ("combined".to_owned(), estimate.clone())).into_iter().collect(),
            adapted: adapted.map(|estimate| ("combined".to_owned(), estimate.clone())).into_iter().collect(),
            explanation: self.explanation.clone(),
            seconds: Seconds::default(),
        };
        let timing = Timing { created: self.ended.max(0.0) as u64, seconds: self.ended - self.started };
        Ok(RunRecord::new(protocol, serde_json::to_value(&result)?, timing))
    }

    /// The estimate to look at first: with labels where they agree with the calibration, or else what labels say, or the calibration.
    pub fn best(&self) -> Option<&Estimate> {
        match &self.labelled {
            Some(labelled) => Some(labelled.joined.as_ref().unwrap_or(&labelled.powered.estimate)),
            None => self.estimate.as_ref(),
        }
    }
}

/// An image that can be asked about.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Seen {
    pub image: u64,
    pub guess: f32,
    pub predicted: u32,
}

/// A window to which images are still added.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OpenWindow {
    pub kind: WindowKind,
    pub number: u64,
    pub first_image: u64,
    pub images: u64,
    pub started: f64,
    pub ended: f64,
    confidence: f64,
    entropy: f64,
    classes: BTreeMap<u32, u32>,
    looked_at: u32,
    flips: u32,
    /// The images with the smallest keys: a random sample, and that of two windows together is made of theirs.
    sample: BTreeSet<(u64, u64)>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    embeddings: Option<EmbeddingSum>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    adapted: Option<GainTally>,
}

/// Embeddings of a window's images.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct EmbeddingSum {
    images: u64,
    sum: Vec<f64>,
}

impl EmbeddingSum {
    fn add(&mut self, images: u64, values: impl Iterator<Item = f64>) {
        self.images += images;
        self.sum.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
    }

    fn mean(&self) -> Vec<f64> {
        self.sum.iter().map(|sum| sum / self.images.max(1) as f64).collect()
    }
}

/// What is known of an image when it comes.
pub(super) struct Arrival {
    pub image: u64,
    pub key: u64,
    pub time: f64,
    pub class: u32,
    pub confidence: f64,
    pub entropy: f64,
}

impl OpenWindow {
    pub fn new(kind: WindowKind, number: u64, first_image: u64) -> Self {
        Self {
            kind,
            number,
            first_image,
            images: 0,
            started: 0.0,
            ended: 0.0,
            confidence: 0.0,
            entropy: 0.0,
            classes: BTreeMap::new(),
            looked_at: 0,
            flips: 0,
            sample: BTreeSet::new(),
            embeddings: None,
            adapted: None,
        }
    }

    /// Takes an image; gives those of the sample, which has at most `limit`, that it no longer needs.
    pub fn add(&mut self, arrival: &Arrival, limit: usize) -> Option<u64> {
        if self.images == 0 {
            self.started = arrival.time;
            self.first_image = arrival.image;
        }
        self.ended = arrival.time;
        self.images += 1;
        self.confidence += arrival.confidence;
        self.entropy += arrival.entropy;
        *self.classes.entry(arrival.class).or_default() += 1;
        self.sample.insert((arrival.key, arrival.image));
        if self.sample.len() > limit { self.sample.pop_last().map(|(_, image)| image) } else { None }
    }

    pub fn holds(&self, image: u64) -> bool {
        (self.first_image..self.first_image + self.images).contains(&image)
    }

    pub fn look_again(&mut self, flipped: bool) {
        self.looked_at += 1;
        self.flips += u32::from(flipped);
    }

    /// Takes the sum of the embeddings of `images` of its images.
    pub fn add_embeddings(&mut self, images: u64, sum: &[f32]) {
        let none = || EmbeddingSum { images: 0, sum: vec![0.0; sum.len()] };
        self.embeddings.get_or_insert_with(none).add(images, sum.iter().map(|value| f64::from(*value)));
    }

    /// Values of an embedding, where there are any.
    pub fn embedding_dims(&self) -> Option<usize> {
        self.embeddings.as_ref().map(|embeddings| embeddings.sum.len())
    }

    /// Takes a batch that both the source model and the adapted network predicted.
    pub fn look_adapted(&mut self, batch: &GainTally) {
        self.adapted.get_or_insert_default().merge(batch);
    }

    pub fn sampled(&self) -> impl Iterator<Item = u64> + '_ {
        self.sample.iter().map(|(_, image)| *image)
    }

    pub fn is_sampled(&self, key: u64, image: u64) -> bool {
        self.sample.contains(&(key, image))
    }

    /// Joins another window of the same kind, whose images are numbered from `offset` on.
    pub fn merge(&mut self, other: &Self, offset: u64, limit: usize) {
        if other.images == 0 {
            return;
        }
        if self.images == 0 {
            (self.started, self.ended, self.first_image) = (other.started, other.ended, other.first_image + offset);
        }
        self.started = self.started.min(other.started);
        self.ended = self.ended.max(other.ended);
        self.images += other.images;
        self.confidence += other.confidence;
        self.entropy += other.entropy;
        self.looked_at += other.looked_at;
        self.flips += other.flips;
        for (class, images) in &other.classes {
            *self.classes.entry(*class).or_default() += images;
        }
        match (&mut self.embeddings, &other.embeddings) {
            (Some(own), Some(other)) => own.add(other.images, other.sum.iter().copied()),
            (own, other) => *own = own.take().or_else(|| other.clone()),
        }
        if let Some(other) = &other.adapted {
            self.look_adapted(other);
        }
        self.sample.extend(other.sample.iter().map(|(key, image)| (*key, image + offset)));
        while self.sample.len() > limit {
            self.sample.pop_last();
        }
    }

    /// What the window says, `rows` being the outputs for its sample.
    pub fn close(&self, basis: &MonitorBasis, rows: &BTreeMap<u64, Row>, level: f64) -> Result<Window, EstimateError> {
        let images = self.images.max(1) as f64;
        let measured = self.signals(basis, rows)?;
        let signals = measured.as_ref().map(|measured| measured.signals);
        let adapted = self.adapted(basis, signals.as_ref(), level);
        let estimated = signals.map(|signals| {
            let estimate = basis.accuracy.estimate(&signals, level);
            let explanation = explain(&basis.accuracy, basis.clean.as_ref(), &signals, &estimate);
            (estimate, explanation)
        });
        let (estimate, explanation) = estimated.unzip();
        let mut classes: Vec<ClassShare> = self
            .classes
            .iter()
            .map(|(class, count)| ClassShare { class: *class as usize, share: f64::from(*count) / images })
            .collect();
        classes.sort_by(|a, b| b.share.total_cmp(&a.share).then(a.class.cmp(&b.class)));
        classes.truncate(KEPT_SHARES);
        Ok(Window {
            kind: self.kind,
            number: self.number,
            first_image: self.first_image,
            images: self.images,
            started: self.started,
            ended: self.ended,
            estimate,
            labelled: None,
            adapted,
            confidence: self.confidence / images,
            entropy: self.entropy / images,
            flips: match basis.recentring {
                Some(_) => measured.map(|measured| measured.flips),
                None => (self.looked_at > 0).then(|| f64::from(self.flips) / f64::from(self.looked_at)),
            },
            classes,
            explanation: explanation.unwrap_or_default(),
            seen: if self.kind == WindowKind::Count { self.seen(basis, rows)? } else { Vec::new() },
        })
    }

    /// Images of the sample that can be asked about.
    pub fn seen(&self, basis: &MonitorBasis, rows: &BTreeMap<u64, Row>) -> Result<Vec<Seen>, EstimateError> {
        let known: Vec<(u64, &Row)> =
            self.sampled().filter_map(|image| rows.get(&image).map(|row| (image, row))).collect();
        if known.is_empty() {
            return Ok(Vec::new());
        }
        let logits = known.iter().flat_map(|(_, row)| row.source.0.iter().copied()).collect();
        let warm = Outputs::new(logits, basis.classes())?.scaled(basis.temperature);
        let (guesses, predicted) = (warm.confidences(), warm.classes_predicted());
        let seen = known.iter().zip(guesses).zip(predicted);
        let mut seen: Vec<Seen> = seen
            .map(|(((image, _), guess), class)| Seen { image: *image, guess: guess as f32, predicted: class as u32 })
            .collect();
        seen.sort_by_key(|seen| seen.image);
        Ok(seen)
    }

    /// What the adapted network gains, the source model's images having these signals.
    fn adapted(&self, basis: &MonitorBasis, signals: Option<&Signals>, level: f64) -> Option<WindowAdapted> {
        let (fit, tally) = (basis.gain.as_ref()?, self.adapted.as_ref()?);
        let seen = tally.signals(basis.classes());
        let gain = fit.gain(&seen);
        let half = fit.half_width(&seen, level);
        // The two may miss on different occasions: each may do so half as often as both together.
        let of_each = 0.5 * (1.0 + level);
        let estimate = signals.map(|signals| {
            let source = basis.accuracy.estimate(signals, of_each);
            let half = fit.half_width(&seen, of_each);
            let within = |accuracy: f64| accuracy.clamp(0.0, 1.0);
            Estimate {
                accuracy: within(source.accuracy + gain),
                low: within(source.low + gain - half),
                high: within(source.high + gain + half),
                flags: source.flags,
            }
        });
        let (low, high) = ((gain - half).max(-1.0), (gain + half).min(1.0));
        Some(WindowAdapted { images: tally.images(), gain, low, high, risk: fit.risk(&seen), estimate })
    }

    fn signals(&self, basis: &MonitorBasis, rows: &BTreeMap<u64, Row>) -> Result<Option<Measured>, EstimateError> {
        let known: Vec<&Row> = self.sampled().filter_map(|image| rows.get(&image)).collect();
        // Those looked at twice come first, as signals want them.
        let (twice, once): (Vec<&Row>, Vec<&Row>) = known.into_iter().partition(|row| row.second.is_some());
        let needs_second = basis.looks == LooksAtImages::Twice;
        if twice.len() + once.len() == 0 || (needs_second && twice.len() < LEAST_LOOKED_AT) {
            return Ok(None);
        }
        let source: Vec<f32> = twice.iter().chain(&once).flat_map(|row| row.source.0.iter().copied()).collect();
        let second = match (&basis.recentring, &self.embeddings) {
            _ if needs_second => {
                let logits = twice.iter().filter_map(|row| row.second.as_ref()).flat_map(|row| row.0.iter().copied());
                Some(logits.collect())
            }
            (Some(recentring), Some(embeddings)) => {
                let move_by = recentring.logit_move(&embeddings.mean());
                Some(source.iter().zip(move_by.iter().cycle()).map(|(logit, by)| logit + by).collect())
            }
            (Some(_), None) => return Ok(None),
            (None, _) => None,
        };
        let warm = Outputs::new(source, basis.classes())?.scaled(basis.temperature);
        let second = match second {
            Some(logits) => Outputs::new(logits, basis.classes())?.scaled(basis.temperature),
            None => warm.clone(),
        };
        let (before, now) = (warm.classes_predicted(), second.classes_predicted());
        let flips = before.iter().zip(&now).filter(|(before, now)| before != now).count() as f64 / now.len() as f64;
        let all: Vec<usize> = (0..warm.images()).collect();
        let mut signals = Signals::measure(&warm, &all, &second, &SubsetCot::new(&warm))?;
        let early: Option<Vec<usize>> = twice.iter().map(|row| row.early.map(|answer| answer as usize)).collect();
        if let Some(answers) = early.filter(|answers| !answers.is_empty()) {
            signals = signals.with_early_look(&warm, &all, &answers)?;
        }
        Ok(Some(Measured { signals, flips }))
    }
}

/// What a window's sample shows.
struct Measured {
    signals: Signals,
    /// Share of predictions that differ between the two looks.
    flips: f64,
}
