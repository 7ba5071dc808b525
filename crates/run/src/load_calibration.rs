//! Calibrations on disk.

use crate::calibration::{CALIBRATION_FORMAT, Calibration, ModelIdentity};
use crate::{RunError, Scope};
use flipcast_images::preprocess::Preprocess;
use flipcast_models::Model;
use flipcast_record::{CHECK, checksum};
use serde_json::Value;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Far more than an artefact of a thousand classes needs.
const MAX_BYTES: u64 = 256 << 20;

/// The first field of an artefact, read before the rest.
#[derive(serde::Deserialize)]
struct Version {
    flipcast_calibration: u32,
}

/// An artefact as it is stored.
#[derive(serde::Serialize)]
struct Checked<'a> {
    #[serde(flatten)]
    calibration: &'a Calibration,
    check: String,
}

impl Calibration {
    /// Reads an artefact. One of a newer format is refused.
    pub fn load(path: &Path) -> Result<Self, RunError> {
        let unreadable = |source| RunError::CalibrationFile { path: path.to_owned(), source };
        let mut bytes = Vec::new();
        let file = File::open(path).map_err(unreadable)?;
        file.take(MAX_BYTES).read_to_end(&mut bytes).map_err(unreadable)?;
        // What is no text is no JSON either, and is refused as such.
        let text = String::from_utf8_lossy(&bytes);
        let malformed = |source| RunError::CalibrationJson { path: path.to_owned(), source };
        Self::parse(&text).map_err(malformed)?.check_format()
    }

    /// Reads an artefact from its text; one that was changed after it was written is refused.
    pub fn parse(text: &str) -> Result<Self, serde_json::Error> {
        // A newer format may have fields that are not known here, so its version is looked at first.
        let Version { flipcast_calibration } = serde_json::from_str(text)?;
        if !(1..=CALIBRATION_FORMAT).contains(&flipcast_calibration) {
            return Err(serde::de::Error::custom(format!(
                "`flipcast_calibration` is {flipcast_calibration}, expected 1 to {CALIBRATION_FORMAT}"
            )));
        }
        let mut value: Value = serde_json::from_str(text)?;
        let check = value.as_object_mut().and_then(|fields| fields.remove(CHECK));
        // Files written before there was a checksum have none.
        if let Some(found) = check {
            let expected = checksum(&value);
            if found != expected {
                return Err(serde::de::Error::custom(format!(
                    "`{CHECK}` is {found}, but what the file holds gives \"{expected}\": it was changed after it was written"
                )));
            }
        }
        serde_json::from_value(value)
    }

    fn check_format(self) -> Result<Self, RunError> {
        self.protocol.check()?;
        Ok(self)
    }

    /// The artefact's text, with a checksum of the rest.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        // Through text, as the file is read: a single-precision number has fewer digits there.
        let check = checksum(&serde_json::from_str(&serde_json::to_string(self)?)?);
        Ok(serde_json::to_string_pretty(&Checked { calibration: self, check })? + "\n")
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
