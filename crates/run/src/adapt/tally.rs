use super::{AdaptSummary, Ending, GuardEvent, Progress};
use crate::RunError;
use crate::flips::STARVED;
use flipcast_adapt::GuardState;
use flipcast_exec::Logits;
use flipcast_images::Label;
use flipcast_images::labelspace::{ClassSpace, Rule};
use flipcast_images::loader::LoadedBatch;
use flipcast_record::results::{Arbitration, Checkpoint};

/// Steps before that is judged.
const STARVED_STEPS: usize = 50;

/// What happened to a batch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen<'a> {
    pub logits: Logits<'a>,
    pub mean_entropy: f64,
    /// The source model's logits, if it predicted.
    pub source: Option<Logits<'a>>,
    /// What the method did; `None` once it adapts no more.
    pub step: Option<Step>,
}

/// What the method did with a batch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub reliable: usize,
    pub used: usize,
    pub reset: bool,
}

/// Counts over a run.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub batches: usize,
    pub images: usize,
    steps: usize,
    /// Images of batches the method made a step on.
    stepped_images: usize,
    reliable: usize,
    used: usize,
    resets: usize,
    compared: usize,
    flipped: usize,
    first_entropy: Option<f64>,
    last_entropy: f64,
    labelled: usize,
    right: usize,
    source_labelled: usize,
    source_right: usize,
    pub guard_events: Vec<GuardEvent>,
    pub source_since: Option<usize>,
    pub arbitration: Option<Arbitration>,
    pub watched: Vec<Checkpoint>,
}

impl Tally {
    /// Counts a batch. Labels are compared here and seen by nothing else.
    pub fn add(
        &mut self,
        loaded: &LoadedBatch,
        seen: Seen<'_>,
        class_space: Option<&ClassSpace>,
    ) -> Result<(), RunError> {
        let images = loaded.indices.len();
        self.batches += 1;
        self.images += images;
        self.first_entropy.get_or_insert(seen.mean_entropy);
        self.last_entropy = seen.mean_entropy;
        if let Some(step) = seen.step {
            self.steps += 1;
            self.stepped_images += images;
            self.reliable += step.reliable;
            self.used += step.used;
            self.resets += usize::from(step.reset);
        }
        if let Some(source) = seen.source {
            let pairs = seen.logits.argmax().into_iter().zip(source.argmax());
            self.flipped += pairs.filter(|(now, then)| now != then).count();
            self.compared += images;
        }
        let Some(space) = class_space else {
            return Ok(());
        };
        for (image, label) in loaded.labels.iter().enumerate() {
            refuse_outside(space, label, loaded.indices[image])?;
            let right = |logits: Logits<'_>| {
                let classes = logits.classes();
                space.is_correct(&logits.values()[image * classes..][..classes], label)
            };
            if let Some(right) = right(seen.logits)? {
                self.labelled += 1;
                self.right += usize::from(right);
            }
            if let Some(source) = seen.source
                && let Some(right) = right(source)?
            {
                self.source_labelled += 1;
                self.source_right += usize::from(right);
            }
        }
        Ok(())
    }

    pub fn progress(&self, total: Option<usize>, guard: GuardState) -> Progress {
        Progress {
            images: self.images,
            total,
            batches: self.batches,
            mean_entropy: self.last_entropy,
            used_share: self.used_share(),
            flip_rate: share(self.flipped, self.compared),
            guard,
        }
    }

    fn used_share(&self) -> f64 {
        share(self.used, self.stepped_images).unwrap_or(0.0)
    }

    /// The summary of a run; `moves` tells whether the method is one that changes parameters.
    pub fn summary(self, ending: Ending, skipped: usize, moves: bool) -> AdaptSummary {
        let used_share = self.used_share();
        AdaptSummary {
            ending,
            images: self.images,
            skipped,
            steps: self.steps,
            resets: self.resets,
            reliable_share: share(self.reliable, self.stepped_images).unwrap_or(0.0),
            used_share,
            starved: moves && self.steps >= STARVED_STEPS && used_share < STARVED,
            flip_rate: share(self.flipped, self.compared),
            first_entropy: self.first_entropy.unwrap_or(0.0),
            last_entropy: self.last_entropy,
            labelled: self.labelled,
            accuracy: share(self.right, self.labelled),
            source_accuracy: share(self.source_right, self.source_labelled),
            guard_events: self.guard_events,
            source_since: self.source_since,
            arbitration: self.arbitration,
            switches: Vec::new(),
            watched: self.watched,
        }
    }
}

fn share(part: usize, whole: usize) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

/// A label beyond the outputs means that dataset and model have other classes.
fn refuse_outside(space: &ClassSpace, label: &Label, index: usize) -> Result<(), RunError> {
    let outputs = space.labels().outputs();
    match (space.labels().rule(), label.class()) {
        (Rule::Index, Some(class)) if class as usize >= outputs => {
            Err(RunError::OutsideClassSpace { index, classes: outputs })
        }
        _ => Ok(()),
    }
}
