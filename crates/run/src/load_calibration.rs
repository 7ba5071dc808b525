//! Calibrations on disk.

use crate::artefact::{Artefact, load_artefact, parse_artefact, to_json};
use crate::calibration::{CALIBRATION_FORMAT, Calibration, ModelIdentity};
use crate::{RunError, Scope};
use flipcast_images::preprocess::Preprocess;
use flipcast_models::Model;
use std::path::Path;

impl Artefact for Calibration {
    const FORMAT_FIELD: &'static str = "flipcast_calibration";
    const NEWEST_FORMAT: u32 = CALIBRATION_FORMAT;
    const RETIRED_FORMATS: &'static [u64] = &[2, 3, 4];
}

impl Calibration {
    /// Reads an artefact. One of a newer format is refused.
    pub fn load(path: &Path) -> Result<Self, RunError> {
        let calibration: Self = load_artefact(path)?;
        calibration.protocol.check()?;
        Ok(calibration)
    }

    /// Reads an artefact from its text; one that was changed after it was written is refused.
    pub fn parse(text: &str) -> Result<Self, serde_json::Error> {
        parse_artefact(text)
    }

    /// The artefact's text, with a checksum of the rest.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        to_json(self)
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
            let [found, expected] = [&self.preprocess, preprocess].map(|p| format!("{:?}", p.normalise));
            return other("the normalisation", found, expected);
        }
        if scope.num_classes() != self.basis.reference.classes {
            let [found, expected] = [self.basis.reference.classes, scope.num_classes()].map(|k| format!("{k} classes"));
            return other("a class space of", found, expected);
        }
        Ok(())
    }
}
