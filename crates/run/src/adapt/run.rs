use super::batches::Batches;
use super::phase_watch::PhaseWatch;
use super::rows::rows;
use super::tally::{Seen, Step, Tally};
use super::{AdaptJob, AdaptSummary, Ending, Flow, GuardEvent, SourceRule, StepWatcher};
use crate::RunError;
use flipcast_adapt::{Guard, GuardAction, GuardReport, GuardState, Observation, entropies};
use flipcast_exec::{Executor, Logits, NormMode};
use flipcast_graph::Purpose;
use flipcast_tensor::Batch;
use std::path::PathBuf;

/// What a run leaves behind.
#[derive(Debug)]
pub struct AdaptOutcome {
    /// What happened.
    pub summary: AdaptSummary,
    /// The affine vector after the last step.
    pub affine: Vec<f32>,
    /// Where the predictions of a run that ended early are.
    pub partial_predictions: Option<PathBuf>,
}

/// Predicts every batch of the job's images and lets the model adapt to them.
pub fn run(mut job: AdaptJob<'_>, watcher: &mut dyn StepWatcher) -> Result<AdaptOutcome, RunError> {
    job.check()?;
    let mut adapter = job.method.build(job.seed)?;
    let mut batches = Batches::new(&job, job.smallest_batch(job.method.norm_mode()))?;
    let largest = batches.largest().max(most_images(&job.clean));
    let mut net = job.device.network(job.anchored.as_ref().unwrap_or(job.model), Purpose::Adapt, largest)?;
    let mut source = match job.source {
        SourceRule::Predict => Some(job.device.network(job.model, Purpose::Predict, largest)?),
        SourceRule::Skip => None,
    };
    if !job.clean.is_empty() {
        adapter.prepare(&mut *net, &std::mem::take(&mut job.clean))?;
    }
    if let Some(start) = &job.start {
        net.affine_mut().copy_from_slice(start);
    }
    let mut guard = Watch::new(Guard::new(job.guard, job.model.num_classes())?);
    let mut arbiter = job.arbiter.take();
    let mut phases = match job.watch_every {
        Some(every) => {
            let adapting = job.anchored.as_ref().unwrap_or(job.model);
            Some(PhaseWatch::new(job.device, adapting, (every, largest), job.method.norm_mode(), job.seed)?)
        }
        None => None,
    };
    let mut tally = Tally::default();
    let total = batches.total();
    let mut ending = Ending::Complete;
    while job.steps.is_none_or(|steps| tally.batches < steps) {
        let Some(loaded) = batches.next()? else {
            break;
        };
        let source_logits = match &mut source {
            Some(source) => Some(Kept::of(source.forward(&loaded.batch)?)),
            None => None,
        };
        let source_logits = source_logits.as_ref().map(Kept::logits);
        let source_classes = source_logits.map(|logits| logits.argmax());
        let adapting = tally.source_since.is_none();
        let chosen;
        let seen = if adapting {
            let output = adapter.step(&mut *net, &loaded.batch)?;
            let logits = match (&mut arbiter, source_logits) {
                (Some(arbiter), Some(source)) => {
                    chosen = arbiter.choose(source, output.logits.values())?;
                    tally.arbitration = Some(arbiter.seen());
                    Logits::new(&chosen, source.classes())
                }
                _ => output.logits,
            };
            Seen {
                logits,
                mean_entropy: output.mean_entropy,
                source: source_logits,
                step: Some(Step { reliable: output.reliable, used: output.used, reset: output.reset }),
            }
        } else {
            predict_as_source(&mut *net, &loaded.batch, source_logits)?
        };
        tally.add(&loaded, seen, job.class_space)?;
        watcher.logits(seen.logits);
        if let Some(writer) = &mut job.predictions {
            let names = job.model.class_names();
            writer.write(&rows(&loaded, seen.logits, source_classes.as_deref(), names))?;
        }
        if adapting {
            let report = guard.guard.observe(Observation {
                logits: seen.logits,
                source_classes: source_classes.as_deref(),
                embedding_drift: None,
            });
            if let Some(event) = guard.judge(report, tally.batches) {
                watcher.guard(&event);
                let action = event.action;
                tally.guard_events.push(event);
                match action {
                    Some(GuardAction::Stop) => ending = Ending::Collapsed,
                    Some(GuardAction::Reset) => {
                        adapter.reset(&mut *net)?;
                        guard.start_over();
                    }
                    Some(GuardAction::Source) => {
                        adapter.reset(&mut *net)?;
                        tally.source_since = Some(tally.batches + 1);
                    }
                    _ => {}
                }
            }
        }
        if let Some(phases) = &mut phases {
            for look in phases.observe(&loaded.batch, tally.batches, net.affine())? {
                watcher.looked(&look);
                tally.watched.push(look);
            }
        }
        if watcher.batch(&tally.progress(total, guard.state)) == Flow::Stop {
            ending = Ending::Interrupted;
        }
        if ending != Ending::Complete {
            break;
        }
    }
    if tally.images == 0 {
        return Err(RunError::NoImages);
    }
    let partial_predictions = match job.predictions.take() {
        None => None,
        Some(writer) if ending == Ending::Complete => {
            writer.finish()?;
            None
        }
        Some(writer) => Some(writer.stop()?),
    };
    let moves = job.method.optimizer().is_some();
    Ok(AdaptOutcome {
        summary: tally.summary(ending, batches.skipped(), moves),
        affine: net.affine().to_vec(),
        partial_predictions,
    })
}

fn most_images(batches: &[Batch]) -> usize {
    batches.iter().map(Batch::images).max().unwrap_or(0)
}

/// What the source model says once the method no longer adapts.
fn predict_as_source<'a>(
    net: &'a mut dyn Executor,
    batch: &Batch,
    source: Option<Logits<'a>>,
) -> Result<Seen<'a>, RunError> {
    let logits = match source {
        Some(logits) => logits,
        None => {
            net.set_norm_mode(NormMode::Running)?;
            net.forward(batch)?
        }
    };
    let entropies = entropies(logits);
    Ok(Seen { logits, mean_entropy: entropies.iter().sum::<f64>() / entropies.len() as f64, source, step: None })
}

/// Logits of one network, kept while another one runs.
struct Kept {
    values: Vec<f32>,
    classes: usize,
}

impl Kept {
    fn of(logits: Logits<'_>) -> Self {
        Self { values: logits.values().to_vec(), classes: logits.classes() }
    }

    fn logits(&self) -> Logits<'_> {
        Logits::new(&self.values, self.classes)
    }
}

/// The guard, and what it last said.
struct Watch {
    guard: Guard,
    state: GuardState,
}

impl Watch {
    fn new(guard: Guard) -> Self {
        Self { guard, state: GuardState::Healthy }
    }

    /// An event when the verdict is another one than after the batch before.
    fn judge(&mut self, report: GuardReport, batch: usize) -> Option<GuardEvent> {
        if report.state == self.state {
            return None;
        }
        self.state = report.state;
        let collapsed = report.state == GuardState::Collapsed;
        Some(GuardEvent {
            batch,
            state: report.state,
            action: collapsed.then_some(self.guard.config().action),
            reasons: report.reasons,
        })
    }

    /// As is right once the source parameters were restored.
    fn start_over(&mut self) {
        self.guard.forget_window();
        self.state = GuardState::Healthy;
    }
}
