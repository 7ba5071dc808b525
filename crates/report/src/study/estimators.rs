//! Names of estimators as readers know them.

use flipcast_estimate::SCORES;

/// The ending of estimators that were corrected on calibration cells.
const CALIBRATED: &str = "_calibrated";

/// What an estimator is called.
pub(crate) fn estimator_label(name: &str) -> String {
    if let Some(plain) = name.strip_suffix(CALIBRATED) {
        return format!("{}, calibrated", estimator_label(plain));
    }
    let known = SCORES.iter().find(|info| info.name == name);
    known.map_or(name, |info| info.label).to_owned()
}

/// Where an estimator stands: the combined one, then those of the registry, each followed by its calibrated form, then
/// others by name.
pub(crate) fn estimator_order(name: &str) -> (usize, bool, &str) {
    let plain = name.strip_suffix(CALIBRATED).unwrap_or(name);
    let place = match plain {
        "combined" => 0,
        plain => 1 + SCORES.iter().position(|info| info.name == plain).unwrap_or(SCORES.len()),
    };
    (place, plain != name, name)
}
