//! Calibrations on disk.

use crate::Basis;
use crate::artefact::{Artefact, checked_value, load_artefact, parse_artefact, read_artefact, refused, to_json};
use crate::calibration::{CALIBRATION_FORMAT, Calibration, CellFits, ModelIdentity, wants_early_look};
use crate::{RunError, Scope};
use flipcast_images::preprocess::Preprocess;
use flipcast_models::Model;
use std::path::Path;

impl Artefact for Calibration {
    const FORMAT_FIELD: &'static str = "flipcast_calibration";
    const NEWEST_FORMAT: u32 = CALIBRATION_FORMAT;
    const RETIRED_FORMATS: &'static [u64] = &[2, 3, 4];
    const REFITTABLE_FORMATS: &'static [u64] = &[5, 6];
}

impl Calibration {
    /// Reads an artefact. One of a newer format is refused.
    pub fn load(path: &Path) -> Result<Self, RunError> {
        let calibration: Self = load_artefact(path)?;
        calibration.protocol.check()?;
        Ok(calibration)
    }

    /// Reads an artefact of this or an earlier version and makes its fits again from its cells: what `calibrate` would write today, without a look at an image.
    ///
    /// # Errors
    /// When the file cannot be read or its cells lack what today's fits need.
    pub fn refit(path: &Path) -> Result<Self, RunError> {
        let text = read_artefact(path)?;
        let refused = |source| refused::<Self>(path, &text, source);
        let mut value = checked_value::<Self>(&text).map_err(refused)?;
        let mut take = |fitted| value.as_object_mut().and_then(|fields| fields.remove(fitted));
        let (_, adapted) = (take("accuracy"), take("adapted_accuracy"));
        let kept: Self = serde_json::from_value(value).map_err(refused)?;
        kept.protocol.check()?;
        // The network is not at hand; whether adapting begins from batch statistics the earlier fit tells.
        let has_batch_norm = adapted.as_ref().is_some_and(|fit| fit.get("second").is_some());
        let CellFits { source, adapted: of_adapted, accuracy, adapted_accuracy } =
            CellFits::fit(&kept.cells, &kept.protocol, has_batch_norm)?;
        Ok(Self {
            flipcast_calibration: CALIBRATION_FORMAT,
            made_by: Self::MADE_BY.to_owned(),
            source,
            adapted: of_adapted,
            basis: Basis { early_look: wants_early_look(accuracy.as_ref()), ..kept.basis },
            accuracy,
            adapted_accuracy: adapted.and(adapted_accuracy),
            ..kept
        })
    }

    /// Reads an artefact from its text; one that was changed after it was written is refused.
    pub fn parse(text: &str) -> Result<Self, serde_json::Error> {
        parse_artefact(text)
    }

    /// The artefact's text, with a checksum of the rest.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        to_json(self)
    }

    /// What is worth telling where images that `model` prepares by its own settings, `preprocess`, are brought to size otherwise than those it was made with. It may be
    /// right ([`check_fits`](Self::check_fits)), or an option too many.
    pub fn sizing_note(&self, model: &Model, preprocess: &Preprocess) -> Option<String> {
        let is_own = model.preprocess().is_none_or(|own| own.sizes_as(preprocess));
        (is_own && !preprocess.sizes_as(&self.preprocess)).then(|| {
            format!(
                "images are brought to size otherwise than those of the calibration (here: {}; there: {}), which is right only where these came in another size",
                preprocess.sizing(),
                self.preprocess.sizing()
            )
        })
    }

    /// Refuses a model, normalisation or class space other than those it was made with. How images are brought to size may differ:
    /// ready-made sets such as ImageNet-C come in the network's size, the labelled images do not.
    pub fn check_fits(&self, model: &Model, preprocess: &Preprocess, scope: &Scope) -> Result<(), RunError> {
        let here = ModelIdentity::of(model);
        let other = |what, found: String, expected: String| Err(RunError::OtherCalibration { what, found, expected });
        if self.model.num_classes != here.num_classes {
            let [found, expected] = [&self.model, &here].map(|m| m.num_classes.to_string());
            return other("the number of classes", found, expected);
        }
        if self.model.weights_sha256 != here.weights_sha256 {
            let [found, expected] = [&self.model, &here].map(|identity| {
                let sha256 = identity.weights_sha256.as_deref().unwrap_or("no file");
                format!("{} ({sha256:.12})", identity.name)
            });
            return other("the weights", found, expected);
        }
        if self.preprocess.normalise != preprocess.normalise {
            let [found, expected] = [&self.preprocess, preprocess].map(|p| p.normalise.to_string());
            return other("the normalisation", found, expected);
        }
        if scope.num_classes() != self.basis.reference.classes {
            let [found, expected] = [self.basis.reference.classes, scope.num_classes()].map(|k| format!("{k} classes"));
            return other("a class space of", found, expected);
        }
        Ok(())
    }
}
