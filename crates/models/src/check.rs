use flipcast_graph::GraphError;
use std::ops::RangeInclusive;

/// Refuses a setting of `family` outside `allowed`, naming both. Bounds keep a hostile card from describing a
/// network that could not be built.
pub(crate) fn check_setting(
    family: &str,
    setting: &'static str,
    value: usize,
    allowed: RangeInclusive<usize>,
) -> Result<(), GraphError> {
    let expected = || format!("{} to {}", allowed.start(), allowed.end());
    check_rule(allowed.contains(&value), family, setting, value, expected)
}

/// Refuses a setting of `family` for which a rule does not hold.
pub(crate) fn check_rule(
    holds: bool,
    family: &str,
    setting: &'static str,
    value: usize,
    expected: impl FnOnce() -> String,
) -> Result<(), GraphError> {
    if holds {
        return Ok(());
    }
    Err(GraphError::BadSetting { node: family.to_owned(), setting, value, expected: expected() })
}

/// Refuses an absurd number of classes.
pub(crate) fn check_classes(family: &str, classes: usize) -> Result<(), GraphError> {
    check_setting(family, "classes", classes, 1..=1_000_000)
}
