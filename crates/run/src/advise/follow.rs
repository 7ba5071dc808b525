//! Following advice while images keep coming.

use super::{Advice, AdviceFit, Candidate};
use crate::RunError;
use crate::adapt::Arbiter;
use flipcast_models::Model;

/// What an adaptation that follows advice needs ([`AdaptJob`](crate::adapt::AdaptJob)).
pub struct Followed {
    /// How the model adapts.
    pub candidate: Candidate,
    /// The model that adapts, where its norms are anchored.
    pub anchored: Option<Model>,
    /// Chooses whose answers count.
    pub arbiter: Arbiter,
}

/// Follows `advice` on `model`; `temperature` is that of clean images.
///
/// Where no candidate is recommended, the one that gained most on the calibration's cells adapts: the images of the trial say nothing of those to come, and the source model's answers count wherever they are likelier right.
///
/// # Errors
/// When the fit is that of an earlier version or of another model.
pub fn follow(model: &Model, fit: &AdviceFit, temperature: f64, advice: &Advice) -> Result<Followed, RunError> {
    let candidate = match &advice.recommended {
        Some(recommended) => Candidate::of_advised(recommended)?,
        None => {
            let found = fit.candidates.iter().find(|candidate| fit.standby.as_ref() == Some(&candidate.name));
            found.ok_or(RunError::EarlierAdvice)?.clone()
        }
    };
    let arbiter = fit.arbiters.get(&candidate.name).ok_or(RunError::EarlierAdvice)?.clone();
    let anchored = match (&fit.anchors, candidate.anchored) {
        (Some(anchors), true) => Some(anchors.apply(model, candidate.config.norm_mode())?),
        _ => None,
    };
    Ok(Followed { candidate, anchored, arbiter: Arbiter::new(arbiter, temperature, model.num_classes()) })
}
