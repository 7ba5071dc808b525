//! Adaptation of the network, stream by stream: one network moves, and every stream has an affine vector, an optimizer's memory and a guard of its own.

use crate::ServeError;
use crate::network::BATCH;
use crate::store::{Store, Write};
use flipcast_adapt::{Adapter, Guard, GuardConfig, GuardState, MethodConfig, Observation, OptimizerMemory, StepMemory};
use flipcast_exec::Purpose;
use flipcast_ground::with_causes;
use flipcast_models::Model;
use flipcast_run::{Device, PooledNetwork, RunError};
use flipcast_tensor::Batch;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Bytes of the streams' vectors and memories that stay in memory; the others lie on disk until a batch comes.
const MEMORY_BYTES: usize = 256 << 20;

/// The network that adapts.
pub struct Adapting {
    net: PooledNetwork,
    adapter: Box<dyn Adapter + Send>,
    method: &'static str,
    guard: GuardConfig,
    /// Whether its logits are of use to somebody.
    tells_logits: bool,
    store: Arc<Store>,
    streams: HashMap<String, Adaptation>,
    clock: u64,
}

/// What a stream has of its own.
struct Adaptation {
    affine: Vec<f32>,
    memory: StepMemory,
    guard: Guard,
    on_disk: Arc<AtomicBool>,
    used: u64,
}

/// A batch as the adapted network sees it.
pub struct AdaptedBatch {
    /// The class it predicts for each image, from before its step; nothing where the guard does not allow it.
    pub classes: Option<Vec<usize>>,
    /// Its logits, where they are of use, those that are no numbers as 0.
    pub logits: Option<Vec<f32>>,
    /// What is counted.
    pub counted: AdaptedCounts,
    /// What must be written together with the batch.
    pub write: Write,
    /// To be set once that is on disk.
    pub on_disk: Arc<AtomicBool>,
}

/// What the adapted network did in a stream.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AdaptedCounts {
    /// Images that it predicted.
    pub images: u64,
    /// Those of batches in which the guard found nothing.
    pub allowed_images: u64,
    /// Images for which it predicts another class than the source model.
    pub changed_images: u64,
    /// How often it began again with the source parameters, since the guard saw it collapse.
    pub resets: u64,
    /// What the guard says of the last batches; empty where it finds nothing.
    pub reasons: Vec<String>,
}

impl AdaptedCounts {
    /// Adds those of a later batch.
    pub fn add(&mut self, later: &Self) {
        self.images += later.images;
        self.allowed_images += later.allowed_images;
        self.changed_images += later.changed_images;
        self.resets += later.resets;
        self.reasons.clone_from(&later.reasons);
    }
}

/// Everything that is stored of a stream's adaptation but its numbers in single precision, which follow: vector, first and second memory.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Head {
    method: String,
    lengths: [usize; 3],
    steps: i32,
    average: Vec<f64>,
    guard: Guard,
}

/// What came of a step.
struct Stepped {
    classes: Vec<usize>,
    state: GuardState,
    reasons: Vec<String>,
    logits: Option<Vec<f32>>,
}

impl Adapting {
    /// `model` on `device`, adapted as `method` says. With `tells_logits`, batches come with logits.
    pub fn new(
        model: &Model,
        device: Device,
        method: &MethodConfig,
        store: Arc<Store>,
        tells_logits: bool,
    ) -> Result<Self, ServeError> {
        let refused = |expected| ServeError::Setting {
            setting: "the method of adaptation",
            found: method.name().to_owned(),
            expected,
        };
        if !matches!(device, Device::Cpu { .. }) {
            return Err(refused("none on a GPU, where what a method remembers of a stream cannot be exchanged"));
        }
        let adapter = method.build(0).map_err(RunError::from)?;
        if adapter.memory().is_none() {
            return Err(refused("one that remembers a run of steps alone: tent, rpl, cpl, eta or come"));
        }
        let net = device.network(model, Purpose::Adapt, BATCH)?;
        method.check_network(net.affine_table()).map_err(RunError::from)?;
        let guard = GuardConfig::for_classes(model.num_classes());
        let (method, streams) = (method.name(), HashMap::new());
        Ok(Self { net, adapter, method, guard, tells_logits, store, streams, clock: 0 })
    }

    /// Bytes that a stream has of its own, at most: vector, optimizer's memory and guard.
    pub fn stream_bytes(&self) -> usize {
        // Adam remembers two vectors beside that of the network.
        let vectors = 3 * size_of::<f32>() * self.net.affine().len();
        // Of every batch, the guard keeps probabilities by class and two classes by image.
        let batches = self.guard.window.div_ceil(BATCH) + 1;
        vectors + batches * (size_of::<f64>() * self.net.num_classes() + 2 * size_of::<usize>() * BATCH)
    }

    /// Predicts a batch of a stream, whose images the source model takes for these classes, and adapts to it.
    pub fn step(&mut self, stream: &str, batch: &Batch, source_classes: &[usize]) -> Result<AdaptedBatch, String> {
        self.clock += 1;
        let mut kept = match self.streams.remove(stream) {
            Some(kept) => kept,
            None => self.load(stream)?,
        };
        let images = batch.images() as u64;
        let mut counted = AdaptedCounts { images, ..AdaptedCounts::default() };
        let (mut classes, mut logits) = (None, None);
        match self.try_step(&mut kept, batch, source_classes) {
            Ok(Stepped { classes: predicted, state, reasons, logits: told }) => {
                logits = told;
                let changed = predicted.iter().zip(source_classes).filter(|(now, before)| now != before).count();
                (counted.changed_images, counted.reasons) = (changed as u64, reasons);
                match state {
                    GuardState::Healthy => (counted.allowed_images, classes) = (images, Some(predicted)),
                    GuardState::Warning => {}
                    GuardState::Collapsed => {
                        kept = self.begin(Some(kept.guard))?;
                        counted.resets = 1;
                    }
                }
            }
            // Parameters that lead to no finite prediction lead to none later on.
            Err(reason) => {
                kept = self.begin(Some(kept.guard))?;
                counted = AdaptedCounts { resets: 1, reasons: vec![reason], ..AdaptedCounts::default() };
            }
        }
        kept.used = self.clock;
        kept.on_disk = Arc::new(AtomicBool::new(false));
        let write = Write::Adaptation { stream: stream.to_owned(), bytes: self.encode(&kept) };
        let on_disk = kept.on_disk.clone();
        self.streams.insert(stream.to_owned(), kept);
        self.forget_idle();
        Ok(AdaptedBatch { classes, logits, counted, write, on_disk })
    }

    /// Forgets what is in memory: it is read again from disk. For when a write failed.
    pub fn forget(&mut self) {
        self.streams.clear();
    }

    fn try_step(&mut self, kept: &mut Adaptation, batch: &Batch, source_classes: &[usize]) -> Result<Stepped, String> {
        self.net.affine_mut().copy_from_slice(&kept.affine);
        let told = |error: flipcast_adapt::AdaptError| with_causes(&error);
        self.adapter.set_memory(&mut *self.net, std::mem::take(&mut kept.memory)).map_err(told)?;
        let logits = self.adapter.step(&mut *self.net, batch).map_err(told)?.logits;
        let classes = logits.argmax();
        let finite = |value: &f32| if value.is_finite() { *value } else { 0.0 };
        let told_logits = self.tells_logits.then(|| logits.values().iter().map(finite).collect());
        let seen = Observation { logits, source_classes: Some(source_classes), embedding_drift: None };
        let report = kept.guard.observe(seen);
        kept.affine.copy_from_slice(self.net.affine());
        kept.memory = self.adapter.memory().unwrap_or_default();
        let reasons = report.reasons.iter().map(ToString::to_string).collect();
        Ok(Stepped { classes, state: report.state, reasons, logits: told_logits })
    }

    /// The source parameters, with a guard that remembers how the stream began, if there is one.
    fn begin(&self, guard: Option<Guard>) -> Result<Adaptation, String> {
        let guard = match guard {
            Some(mut guard) => {
                guard.forget_window();
                guard
            }
            None => Guard::new(self.guard, self.net.num_classes()).map_err(|error| with_causes(&error))?,
        };
        let affine = self.net.source_affine().to_vec();
        let on_disk = Arc::new(AtomicBool::new(true));
        Ok(Adaptation { affine, memory: StepMemory::default(), guard, on_disk, used: self.clock })
    }

    /// The stream's own from disk; the source parameters where there is nothing, or what another method left.
    fn load(&self, stream: &str) -> Result<Adaptation, String> {
        let stored = self.store.adaptation(stream).map_err(|error| with_causes(&error))?;
        match stored.and_then(|bytes| self.decode(&bytes)) {
            Some(kept) => Ok(kept),
            None => self.begin(None),
        }
    }

    fn encode(&self, kept: &Adaptation) -> Vec<u8> {
        let Adaptation { affine, memory, guard, .. } = kept;
        let vectors = [affine, &memory.optimizer.first, &memory.optimizer.second];
        let head = Head {
            method: self.method.to_owned(),
            lengths: vectors.map(Vec::len),
            steps: memory.optimizer.steps,
            average: memory.average.clone(),
            guard: guard.clone(),
        };
        let head = serde_json::to_vec(&head).expect("a head has no key that JSON refuses");
        let mut bytes = (head.len() as u32).to_le_bytes().to_vec();
        bytes.extend_from_slice(&head);
        bytes.extend(vectors.into_iter().flatten().flat_map(|value| value.to_le_bytes()));
        bytes
    }

    fn decode(&self, bytes: &[u8]) -> Option<Adaptation> {
        let (length, rest) = bytes.split_first_chunk::<4>()?;
        let (head, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        let Head { method, lengths, steps, average, guard } = serde_json::from_slice(head).ok()?;
        let (values, left) = rest.as_chunks::<4>();
        let values: Vec<f32> = values.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
        let expected = self.net.affine().len();
        let classes = self.net.num_classes();
        let is_sound = method == self.method
            && left.is_empty()
            && lengths[0] == expected
            && lengths[1..].iter().all(|length| [0, expected].contains(length))
            && lengths.iter().sum::<usize>() == values.len()
            && values.iter().all(|value| value.is_finite())
            && [0, classes].contains(&average.len())
            && guard.fits(&self.guard, classes);
        if !is_sound {
            return None;
        }
        let (affine, memory) = values.split_at(lengths[0]);
        let (first, second) = memory.split_at(lengths[1]);
        let optimizer = OptimizerMemory { first: first.to_vec(), second: second.to_vec(), steps };
        let on_disk = Arc::new(AtomicBool::new(true));
        let memory = StepMemory { optimizer, average };
        Some(Adaptation { affine: affine.to_vec(), memory, guard, on_disk, used: self.clock })
    }

    /// Lets go of streams that were not used for longest, where all of them is on disk.
    fn forget_idle(&mut self) {
        let most = (MEMORY_BYTES / self.stream_bytes().max(1)).max(1);
        if self.streams.len() <= most {
            return;
        }
        let mut idle: Vec<(u64, String)> = self
            .streams
            .iter()
            .filter(|(_, kept)| kept.on_disk.load(Ordering::Acquire))
            .map(|(name, kept)| (kept.used, name.clone()))
            .collect();
        idle.sort();
        let many = self.streams.len() - most * 9 / 10;
        idle.into_iter().take(many).for_each(|(_, name)| drop(self.streams.remove(&name)));
    }
}
