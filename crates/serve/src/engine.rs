//! The thread that owns the network: it takes what waits, whatever the stream, and predicts it in batches.

use crate::adaptation::{AdaptedBatch, Adapting};
use crate::event::Event;
use crate::metrics::Metrics;
use crate::network::{BATCH, LookedAt, Network, NetworkFailure};
use crate::prepared::{KeptFile, Prepared};
use crate::store::Write;
use crate::streams::{StreamError, Streams};
use crate::{Log, ServeError};
use flipcast_ground::argmax;
use flipcast_run::monitor::BatchLook;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::{OwnedSemaphorePermit, oneshot};

/// How often windows by time are looked after.
const TICK: Duration = Duration::from_secs(1);
/// A request for predictions.
pub struct Job {
    /// The stream.
    pub stream: String,
    /// What tells the request apart, where its sender gave it an id.
    pub request: Option<u64>,
    /// Seconds since 1970.
    pub time: f64,
    /// The images, or what another server predicted.
    pub input: JobInput,
    /// Files to keep, one per image, or none.
    pub files: Vec<Option<KeptFile>>,
    /// What else is written if its images are counted, and only then.
    pub writes: Vec<Write>,
    /// Its part of the queue.
    pub permit: Option<OwnedSemaphorePermit>,
    /// Who waits.
    pub reply: oneshot::Sender<Result<Answer, Refusal>>,
}

/// What a job brings.
pub enum JobInput {
    /// Images for the network.
    Images(Vec<Prepared>),
    /// Logits, where there is no network.
    Logits(Vec<f32>),
}

/// Predictions that are counted and on disk.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// The source model's logits, row after row.
    pub logits: Vec<f32>,
    /// The number of the first image in its stream; nothing where the request was counted before.
    pub first_image: Option<u64>,
    /// The adapted network's class of each image, where there is one and the guard allows it; empty without adaptation.
    pub adapted: Vec<Option<usize>>,
}

/// Why there are none.
#[derive(Debug)]
pub enum Refusal {
    /// The stream cannot be used.
    Stream(StreamError),
    /// The values of this image of the request are too large for the network.
    Values(usize),
    /// The network failed.
    Network(String),
    /// The state could not be written, so that nothing was counted.
    NotWritten,
}

/// What the engine shares with the rest of the server.
pub struct Shared {
    /// All streams.
    pub streams: Arc<Mutex<Streams>>,
    /// Counters.
    pub metrics: Arc<Metrics>,
    /// What it says.
    pub log: Log,
    /// Alarms on their way out.
    pub alarms: tokio::sync::mpsc::UnboundedSender<(String, flipcast_run::monitor::Alarm)>,
}

impl Shared {
    /// The streams.
    pub fn lock(&self) -> MutexGuard<'_, Streams> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Starts the thread. It ends when nobody can send jobs any more, after the last one is answered.
pub fn start_engine(
    jobs: Receiver<Job>,
    network: Option<Network>,
    shared: Arc<Shared>,
    classes: usize,
    alive: Arc<()>,
) -> Result<JoinHandle<()>, ServeError> {
    let mut engine = Engine { network, shared, classes, forgotten: 0 };
    let work = move || {
        let _alive = alive;
        let mut ticked = Instant::now();
        loop {
            match jobs.recv_timeout(TICK) {
                Ok(first) => {
                    let mut taken = vec![first];
                    let mut images = taken[0].images(engine.classes);
                    while images < BATCH
                        && let Ok(next) = jobs.try_recv()
                    {
                        images += next.images(engine.classes);
                        taken.push(next);
                    }
                    engine.serve(taken);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            if ticked.elapsed() >= TICK {
                ticked = Instant::now();
                engine.tick();
            }
        }
    };
    std::thread::Builder::new().name("engine".to_owned()).spawn(work).map_err(ServeError::Thread)
}

struct Engine {
    network: Option<Network>,
    shared: Arc<Shared>,
    classes: usize,
    /// How often streams were forgotten, as far as is known here.
    forgotten: u64,
}

impl Job {
    fn images(&self, classes: usize) -> usize {
        match &self.input {
            JobInput::Images(images) => images.len(),
            JobInput::Logits(logits) => logits.len() / classes.max(1),
        }
    }
}

/// The source model's outputs for a job.
struct JobOutputs {
    logits: Vec<f32>,
    /// Empty where they are not needed.
    embeddings: Vec<f32>,
}

/// A job that was predicted.
struct Predicted {
    stream: String,
    logits: Vec<f32>,
    events: Vec<Event>,
    first_image: Option<u64>,
    files: Vec<Option<KeptFile>>,
    writes: Vec<Write>,
    adapted: Vec<Option<usize>>,
    on_disk: Vec<Arc<AtomicBool>>,
    time: f64,
    permit: Option<OwnedSemaphorePermit>,
    reply: oneshot::Sender<Result<Answer, Refusal>>,
}

impl Engine {
    fn serve(&mut self, jobs: Vec<Job>) {
        let forgotten = self.shared.lock().forgotten();
        if forgotten != self.forgotten {
            self.forgotten = forgotten;
            self.network.iter_mut().filter_map(|network| network.adapting.as_mut()).for_each(Adapting::forget);
        }
        let outputs = match self.predict(&jobs) {
            Ok(outputs) => outputs,
            // The other requests of the batch are no part of it.
            Err(NetworkFailure::Values(_)) if jobs.len() > 1 => {
                return jobs.into_iter().for_each(|job| self.serve(vec![job]));
            }
            Err(NetworkFailure::Values(image)) => {
                self.shared.log.info("values_too_large", &[("image", image.into())]);
                jobs.into_iter().for_each(|job| drop(job.reply.send(Err(Refusal::Values(image)))));
                return;
            }
            Err(NetworkFailure::Network(reason)) => {
                self.shared.log.error("network_failed", &[("error", reason.as_str().into())]);
                jobs.into_iter().for_each(|job| drop(job.reply.send(Err(Refusal::Network(reason.clone())))));
                return;
            }
        };
        let mut predicted = Vec::with_capacity(jobs.len());
        let mut next_images: HashMap<String, u64> = HashMap::new();
        for (job, outputs) in jobs.into_iter().zip(outputs) {
            match self.number(&job, &mut next_images) {
                Ok(first_image) => match self.events(job, outputs, first_image) {
                    Ok(done) => predicted.push(done),
                    Err((reply, reason)) => drop(reply.send(Err(Refusal::Network(reason)))),
                },
                Err(error) => drop(job.reply.send(Err(Refusal::Stream(error)))),
            }
        }
        self.count(predicted);
    }

    /// Outputs of every job, predicted in batches that are as full as can be.
    fn predict(&mut self, jobs: &[Job]) -> Result<Vec<JobOutputs>, NetworkFailure> {
        let (mut all, mut embeddings) = (Vec::new(), Vec::new());
        let images: Vec<&Prepared> = jobs
            .iter()
            .filter_map(|job| if let JobInput::Images(images) = &job.input { Some(images) } else { None })
            .flatten()
            .collect();
        if !images.is_empty() {
            let nothing = || NetworkFailure::Network("there is no network".to_owned());
            let network = self.network.as_mut().ok_or_else(nothing)?;
            let started = Instant::now();
            for (number, batch) in images.chunks(BATCH).enumerate() {
                let predicted = network.predict(batch.iter().copied(), &mut all, &mut embeddings);
                predicted.map_err(|failure| match failure {
                    NetworkFailure::Values(place) => NetworkFailure::Values(number * BATCH + place),
                    failure => failure,
                })?;
            }
            self.shared.metrics.network_seconds(started.elapsed().as_secs_f64());
        }
        let dims = embeddings.len() / images.len().max(1);
        let (mut rest, mut rest_embeddings) = (all.as_slice(), embeddings.as_slice());
        let each = jobs.iter().map(|job| match &job.input {
            JobInput::Logits(logits) => JobOutputs { logits: logits.clone(), embeddings: Vec::new() },
            JobInput::Images(images) => {
                let own = |rest: &mut &[f32], width: usize| {
                    let (own, behind) = rest.split_at(images.len() * width);
                    *rest = behind;
                    own.to_vec()
                };
                let logits = own(&mut rest, self.classes);
                JobOutputs { logits, embeddings: own(&mut rest_embeddings, dims) }
            }
        });
        Ok(each.collect())
    }

    /// The number of the job's first image; nothing where the request is known.
    fn number(&self, job: &Job, next_images: &mut HashMap<String, u64>) -> Result<Option<u64>, StreamError> {
        let mut streams = self.shared.lock();
        if let Some(request) = job.request
            && streams.knows_request(&job.stream, request)?
        {
            return Ok(None);
        }
        let next = match next_images.get(&job.stream) {
            Some(next) => *next,
            None => streams.images(&job.stream)?,
        };
        next_images.insert(job.stream.clone(), next + job.images(self.classes) as u64);
        Ok(Some(next))
    }

    /// What the job does to its stream: images, and a second look wherever a batch of them is complete.
    fn events(
        &mut self,
        job: Job,
        outputs: JobOutputs,
        first_image: Option<u64>,
    ) -> Result<Predicted, (oneshot::Sender<Result<Answer, Refusal>>, String)> {
        let Job { stream, mut request, time, input, files, mut writes, permit, reply } = job;
        let JobOutputs { logits, embeddings } = outputs;
        let dims = embeddings.len() / (logits.len() / self.classes.max(1)).max(1);
        let mut events = Vec::new();
        let (mut adapted, mut on_disk) = (Vec::new(), Vec::new());
        if let Some(first) = first_image {
            let mut from = 0;
            let mut images_until = |until: usize, events: &mut Vec<Event>| {
                if until > from {
                    let rows = logits[from * self.classes..until * self.classes].to_vec();
                    events.push(Event::Images { request: request.take(), time, logits: rows });
                    if dims > 0 {
                        let sum = sum_rows(&embeddings[from * dims..until * dims], dims);
                        events.push(Event::Embedded { images: (until - from) as u64, sum });
                    }
                    from = until;
                }
            };
            if let (JobInput::Images(images), Some(network)) = (input, &mut self.network) {
                if network.adapting.is_some() {
                    adapted = vec![None; images.len()];
                }
                for (place, prepared) in images.into_iter().enumerate() {
                    let image = first + place as u64;
                    let class = argmax(&logits[place * self.classes..(place + 1) * self.classes]);
                    let looked_at = network.look_again(&stream, image, prepared, class);
                    // Windows end with a batch, and embeddings are those of one window.
                    if network.embeds && (image + 1).is_multiple_of(BATCH as u64) {
                        images_until(place + 1, &mut events);
                    }
                    match looked_at {
                        Ok(None) => {}
                        Ok(Some(LookedAt { look, adapted: batch })) => {
                            images_until(place + 1, &mut events);
                            let first = image + 1 - BATCH as u64;
                            if let Some(BatchLook { second, early }) = look {
                                events.extend(early.map(|logits| Event::EarlyLook { first, logits }));
                                events.push(Event::SecondLook { first, logits: second });
                            }
                            if let Some(AdaptedBatch { classes, logits, counted, write, on_disk: written }) = batch {
                                events.push(Event::Adapted { counted });
                                events.extend(logits.map(|logits| Event::AdaptedLook { first, logits }));
                                writes.push(write);
                                on_disk.push(written);
                                // Images of the batch that came with earlier requests are answered already.
                                let own = &mut adapted[(place + 1).saturating_sub(BATCH)..=place];
                                let classes = classes.iter().flatten().rev();
                                own.iter_mut().rev().zip(classes).for_each(|(own, class)| *own = Some(*class));
                            }
                        }
                        Err(reason) => return Err((reply, reason)),
                    }
                }
            }
            images_until(logits.len() / self.classes.max(1), &mut events);
        }
        Ok(Predicted { stream, logits, events, first_image, files, writes, adapted, on_disk, time, permit, reply })
    }

    /// Applies what was predicted, and answers once it is on disk.
    fn count(&mut self, predicted: Vec<Predicted>) {
        let mut writes = Vec::new();
        let (mut applied, mut answers, mut adaptations) = (Vec::new(), Vec::new(), Vec::new());
        let mut streams = self.shared.lock();
        for Predicted {
            stream,
            logits,
            events,
            first_image,
            files,
            writes: more,
            adapted,
            on_disk,
            time,
            permit,
            reply,
        } in predicted
        {
            let images = (logits.len() / self.classes.max(1)) as u64;
            if events.is_empty() {
                self.shared.metrics.repeated(images);
            } else {
                match streams.apply(&stream, events, &mut writes) {
                    Ok(one) => applied.push(one),
                    Err(error) => {
                        drop(reply.send(Err(Refusal::Stream(error))));
                        continue;
                    }
                }
                self.shared.metrics.images(images);
            }
            writes.extend(more);
            adaptations.extend(on_disk);
            if let Some(first) = first_image {
                let kept = files.into_iter().enumerate().filter_map(|(place, file)| Some((place, file?)));
                writes.extend(kept.map(|(place, file)| Write::Image {
                    stream: stream.clone(),
                    image: first + place as u64,
                    time: time as u64,
                    media_type: file.media_type,
                    bytes: file.bytes,
                }));
            }
            answers.push((reply, Answer { logits, first_image, adapted }, permit));
        }
        streams.take_raised().into_iter().for_each(|alarm| drop(self.shared.alarms.send(alarm)));
        streams.commit(writes, applied, move |written| {
            adaptations.iter().for_each(|on_disk| on_disk.store(written, Ordering::Release));
            for (reply, answer, permit) in answers {
                drop(permit);
                drop(reply.send(if written { Ok(answer) } else { Err(Refusal::NotWritten) }));
            }
        });
    }

    fn tick(&mut self) {
        let mut writes = Vec::new();
        let mut streams = self.shared.lock();
        streams.close_windows(crate::log::now(), &mut writes);
        if !writes.is_empty() {
            streams.commit(writes, Vec::new(), |_| ());
        }
    }
}

/// The sum of rows of `dims` values.
fn sum_rows(rows: &[f32], dims: usize) -> Vec<f32> {
    let mut sum = vec![0.0f64; dims];
    for row in rows.chunks_exact(dims) {
        sum.iter_mut().zip(row).for_each(|(sum, value)| *sum += f64::from(*value));
    }
    sum.into_iter().map(|value| value as f32).collect()
}
