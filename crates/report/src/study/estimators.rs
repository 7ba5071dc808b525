//! Names of estimators as readers know them.

/// Estimators in the order of tables and charts, and what they are called.
const ESTIMATORS: [(&str, &str); 18] = [
    ("combined", "combined"),
    ("wf", "WF"),
    ("cot", "COT"),
    ("atc_mc", "ATC"),
    ("doc", "DoC"),
    ("ac", "AC"),
    ("wf_batch", "WF, batch anchor"),
    ("wf_unweighted", "flips"),
    ("statistics_flips", "flips of statistics"),
    ("atc_ne", "ATC, entropy"),
    ("cott", "COTT"),
    ("im", "IM"),
    ("nuclear_norm", "nuclear norm"),
    ("mano", "MaNo"),
    ("mde", "MDE"),
    ("dispersion", "dispersion"),
    ("aetta", "AETTA"),
    ("gde", "GDE"),
];

/// The ending of estimators that were corrected on calibration cells.
const CALIBRATED: &str = "_calibrated";

/// What an estimator is called.
pub(crate) fn estimator_label(name: &str) -> String {
    if let Some(plain) = name.strip_suffix(CALIBRATED) {
        return format!("{}, calibrated", estimator_label(plain));
    }
    let known = ESTIMATORS.iter().find(|(known, _)| *known == name);
    known.map_or(name, |(_, label)| label).to_owned()
}

/// Where an estimator stands: known ones first, each followed by its calibrated form, then the others by name.
pub(crate) fn estimator_order(name: &str) -> (usize, bool, &str) {
    let plain = name.strip_suffix(CALIBRATED).unwrap_or(name);
    let place = ESTIMATORS.iter().position(|(known, _)| *known == plain);
    (place.unwrap_or(ESTIMATORS.len()), plain != name, name)
}
