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
    if allowed.contains(&value) {
        return Ok(());
    }
    Err(GraphError::BadSetting {
        node: family.to_owned(),
        setting,
        value,
        expected: format!("{} to {}", allowed.start(), allowed.end()),
    })
}

/// Refuses an absurd number of classes.
pub(crate) fn check_classes(family: &str, classes: usize) -> Result<(), GraphError> {
    check_setting(family, "classes", classes, 1..=1_000_000)
}
