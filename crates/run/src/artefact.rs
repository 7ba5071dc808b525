//! Files that a calibration is kept in: JSON with a version in front and a checksum behind.

use crate::RunError;
use flipcast_record::{CHECK, checksum};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Far more than an artefact of a thousand classes needs.
const MAX_BYTES: u64 = 256 << 20;
/// Fields that hold a format's version, and what such a file is.
const KINDS: [(&str, &str); 2] = [
    ("flipcast_calibration", "a calibration of a network"),
    ("flipcast_outputs_calibration", "a calibration of outputs alone"),
];

/// A kind of artefact.
pub(crate) trait Artefact: Serialize + DeserializeOwned {
    /// The field that holds the format's version.
    const FORMAT_FIELD: &'static str;
    /// The newest version that can be read; the oldest is 1.
    const NEWEST_FORMAT: u32;
    /// Versions between that no release wrote.
    const RETIRED_FORMATS: &'static [u64] = &[];
    /// Versions whose fits have another form, but whose cells have all that today's fits are made from.
    const REFITTABLE_FORMATS: &'static [u64] = &[];
}

/// An artefact as it is stored.
#[derive(Serialize)]
struct Checked<'a, A> {
    #[serde(flatten)]
    artefact: &'a A,
    check: String,
}

/// Reads an artefact from a file.
pub(crate) fn load_artefact<A: Artefact>(path: &Path) -> Result<A, RunError> {
    let text = read_artefact(path)?;
    parse_artefact(&text).map_err(|source| refused::<A>(path, &text, source))
}

/// Why the artefact with this `text` cannot be used: it may be one of another kind.
pub(crate) fn refused<A: Artefact>(path: &Path, text: &str, source: serde_json::Error) -> RunError {
    let path = path.to_owned();
    let value: Option<Value> = serde_json::from_str(text).ok();
    let has = |field: &str| value.as_ref().is_some_and(|value| value.get(field).is_some());
    let expected = KINDS.iter().find(|(field, _)| *field == A::FORMAT_FIELD);
    let found = KINDS.iter().find(|(field, _)| *field != A::FORMAT_FIELD && has(field));
    match (found, expected) {
        (Some((_, found)), Some((_, expected))) if !has(A::FORMAT_FIELD) => {
            RunError::OtherKind { path, found, expected }
        }
        _ => RunError::CalibrationJson { path, source },
    }
}

/// The text of an artefact's file.
pub(crate) fn read_artefact(path: &Path) -> Result<String, RunError> {
    let unreadable = |source| RunError::CalibrationFile { path: path.to_owned(), source };
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(unreadable)?;
    file.take(MAX_BYTES).read_to_end(&mut bytes).map_err(unreadable)?;
    // What is no text is no JSON either, and is refused as such.
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Reads an artefact from its text; one that was changed after it was written is refused.
pub(crate) fn parse_artefact<A: Artefact>(text: &str) -> Result<A, serde_json::Error> {
    let value = checked_value::<A>(text)?;
    let version = value[A::FORMAT_FIELD].as_u64();
    if version.is_some_and(|version| A::REFITTABLE_FORMATS.contains(&version)) {
        return Err(serde::de::Error::custom(format!(
            "`{}` is {}, whose fits have another form: refit it, for which its cells are enough",
            A::FORMAT_FIELD,
            value[A::FORMAT_FIELD]
        )));
    }
    serde_json::from_value(value)
}

/// What an artefact's text holds, if its format is known and nothing was changed after it was written.
pub(crate) fn checked_value<A: Artefact>(text: &str) -> Result<Value, serde_json::Error> {
    let refused = |reason: String| Err(serde::de::Error::custom(reason));
    let mut value: Value = serde_json::from_str(text)?;
    // A newer format may have fields that are not known here, so its version is looked at first.
    let version = value.get(A::FORMAT_FIELD);
    let Some(version) = version else {
        let other = KINDS.iter().find(|(field, _)| value.get(field).is_some());
        return refused(match other {
            Some((_, kind)) => format!("it is {kind}, expected one with the field `{}`", A::FORMAT_FIELD),
            None => format!("missing field `{}`", A::FORMAT_FIELD),
        });
    };
    if !version.as_u64().is_some_and(|version| (1..=u64::from(A::NEWEST_FORMAT)).contains(&version)) {
        return refused(format!("`{}` is {version}, expected 1 to {}", A::FORMAT_FIELD, A::NEWEST_FORMAT));
    }
    if version.as_u64().is_some_and(|version| A::RETIRED_FORMATS.contains(&version)) {
        return refused(format!(
            "`{}` is {version}, which only development versions wrote: calibrate again",
            A::FORMAT_FIELD
        ));
    }
    let check = value.as_object_mut().and_then(|fields| fields.remove(CHECK));
    // Files written before there was a checksum have none.
    if let Some(found) = check {
        let expected = checksum(&value);
        if found != expected {
            return refused(format!(
                "`{CHECK}` is {found}, but what the file holds gives \"{expected}\": it was changed after it was written"
            ));
        }
    }
    Ok(value)
}

/// An artefact's text, with a checksum of the rest.
pub(crate) fn to_json<A: Artefact>(artefact: &A) -> Result<String, serde_json::Error> {
    // Through text, as the file is read: a single-precision number has fewer digits there.
    let check = checksum(&serde_json::from_str(&serde_json::to_string(artefact)?)?);
    Ok(serde_json::to_string_pretty(&Checked { artefact, check })? + "\n")
}
