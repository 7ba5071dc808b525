//! Two networks on the same images: as often as they agree, one of them is right.

use crate::calibration::ModelIdentity;
use crate::cell::FEW_IMAGES;
use crate::ledger::with_storage;
use crate::source_pass::run_source;
use crate::{CellRequest, Device, Images, Ledger, RunError, ScoreSummary, SourcePass, Watcher};
use flipcast_estimate::{EstimateError, Flag, gde, standard_error};
use flipcast_models::Model;
use flipcast_record::Protocol;
use serde::{Deserialize, Serialize};
use std::time::Instant;

/// Raised whenever an agreement changes for the same protocol.
const VERSION: u32 = 1;

/// One of two networks, and the images as it takes them.
#[derive(Clone, Copy)]
pub struct Witness<'a> {
    /// The network.
    pub model: &'a Model,
    /// The images.
    pub request: &'a CellRequest<'a>,
}

/// How often two networks agree. Records hold these.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Agreement {
    /// Images that were read.
    pub images: usize,
    /// Images that could not be read.
    pub skipped: usize,
    /// The share of images on which both predict the same class: [`gde`].
    pub gde: ScoreSummary,
    /// The accuracy of each, if labels are known.
    pub accuracies: [Option<f64>; 2],
    /// Doubts about the images.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flags: Vec<Flag>,
    /// How long it took.
    pub seconds: f64,
}

/// How often two networks agree, from `ledger` or else measured and kept there. No labels are used, except for the accuracies.
pub fn measure_agreement(
    witnesses: [Witness; 2],
    device: Device,
    ledger: &mut Ledger,
    watcher: &mut dyn Watcher,
) -> Result<Agreement, RunError> {
    let [expected, found] = witnesses.map(|witness| witness.model.num_classes());
    if found != expected {
        let what = "classes of the other network";
        return Err(EstimateError::Length { what, found, expected }.into());
    }
    let protocol = protocol(witnesses, device)?;
    if let Some(agreement) = ledger.find(&protocol)? {
        return Ok(agreement);
    }
    let started = Instant::now();
    let (one, skipped) = predict(witnesses[0], device, watcher)?;
    let (two, _) = predict(witnesses[1], device, watcher)?;
    if one.indices != two.indices {
        let both = |index: &&usize| two.indices.contains(index);
        return Err(EstimateError::Length {
            what: "images that both networks can take",
            found: one.indices.iter().filter(both).count(),
            expected: one.indices.len().max(two.indices.len()),
        }
        .into());
    }
    let score = gde(&one.outputs, &two.outputs)?;
    let terms = score.terms.as_deref();
    let agreement = Agreement {
        images: one.indices.len(),
        skipped,
        gde: ScoreSummary {
            value: score.value,
            standard_error: terms.and_then(|terms| standard_error(terms).ok()),
            flags: score.flags,
        },
        accuracies: [one.accuracy(witnesses[0].request.scope), two.accuracy(witnesses[1].request.scope)],
        flags: (one.indices.len() < FEW_IMAGES).then_some(Flag::TooFewImages).into_iter().collect(),
        seconds: started.elapsed().as_secs_f64(),
    };
    ledger.keep(protocol, &agreement, agreement.seconds)?;
    Ok(agreement)
}

/// What a network says of its images, and how many could not be read.
fn predict(witness: Witness, device: Device, watcher: &mut dyn Watcher) -> Result<(SourcePass, usize), RunError> {
    let Witness { model, request } = witness;
    let (dataset, config) = (request.dataset.clone(), request.config.clone());
    let images = Images::open(dataset, config, request.memory_limit)?;
    let pass = run_source(model, &images, request.scope, device, watcher)?;
    Ok((pass, images.skipped()))
}

/// Everything that defines the number.
fn protocol(witnesses: [Witness; 2], device: Device) -> Result<Protocol, RunError> {
    let [one, two] = witnesses;
    let request = one.request;
    let limit = request.config.limit.unwrap_or(usize::MAX);
    let protocol = Protocol::new("agreement")
        .with("version", &VERSION)?
        .with("models", &[one, two].map(|of| ModelIdentity::of(of.model)))?
        .with("preprocess", &[one, two].map(|of| of.request.preprocess))?
        .with("class_space", &request.scope.name())?
        .with("data", &request.data)?
        .with("images", &request.dataset.len().min(limit))?
        .with("seed", &request.seed)?;
    with_storage(device.describe(protocol)?, &request.config)
}
