//! Following advice while images keep coming.

use super::{Advice, AdviceFit, Candidate};
use crate::RunError;
use crate::adapt::{GainWatch, StartsWith};
use flipcast_models::Model;

/// What an adaptation that follows advice needs ([`AdaptJob`](crate::adapt::AdaptJob)).
pub struct Followed {
    /// How the model adapts.
    pub candidate: Candidate,
    /// The model that adapts, where its norms are anchored.
    pub anchored: Option<Model>,
    /// Chooses whose predictions count.
    pub gain: GainWatch,
    /// Whose predictions count first.
    pub starts_with: StartsWith,
}

/// Follows `advice` on `model`; `temperature` is that of clean images.
///
/// Where a candidate is recommended, it predicts from the start. Where none is, the one that gained most on the calibration's cells adapts beside the source model, which predicts
/// until there is something to gain: the images of the trial say nothing of those to come.
///
/// # Errors
/// When the fit is that of an earlier version or of another model.
pub fn follow(model: &Model, fit: &AdviceFit, temperature: f64, advice: &Advice) -> Result<Followed, RunError> {
    let standby = fit.standby.as_ref().filter(|_| fit.alone.gives_evidence());
    let standby = standby.ok_or(RunError::EarlierAdvice)?;
    let (candidate, starts_with) = match &advice.recommended {
        Some(recommended) => (Candidate::of_advised(recommended)?, StartsWith::Adapting),
        None => {
            let found = fit.candidates.iter().find(|candidate| candidate.name == *standby);
            (found.ok_or(RunError::EarlierAdvice)?.clone(), StartsWith::Source)
        }
    };
    let anchored = match (&fit.anchors, candidate.anchored) {
        (Some(anchors), true) => Some(anchors.apply(model, candidate.config.norm_mode())?),
        _ => None,
    };
    let gain = GainWatch::new(fit.alone.clone(), temperature, starts_with);
    Ok(Followed { candidate, anchored, gain, starts_with })
}
