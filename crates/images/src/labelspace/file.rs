use serde::Deserialize;

use super::{Decision, LabelError, LabelFrom, LabelSpace, Rule, SpaceClass};

/// A class space as its data file states it. Fields that only document the file are accepted and dropped.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SpaceFile {
    name: String,
    rule: Rule,
    label_from: LabelFrom,
    alt_label_from: Option<LabelFrom>,
    classes: Vec<ClassEntry>,
    #[serde(default)]
    unused_folders: Vec<String>,
    upstream_decision: Option<Decision>,
    checks: Checks,
    #[serde(rename = "source")]
    _source: serde::de::IgnoredAny,
    #[serde(rename = "cross_check", default)]
    _cross_check: Option<serde::de::IgnoredAny>,
    #[serde(rename = "splits", default)]
    _splits: Option<serde::de::IgnoredAny>,
    #[serde(rename = "targets", default)]
    _targets: Option<serde::de::IgnoredAny>,
    #[serde(rename = "empty_wnids", default)]
    _empty_wnids: Option<serde::de::IgnoredAny>,
    #[serde(rename = "training_list_overrides", default)]
    _training_list_overrides: Option<serde::de::IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ClassEntry {
    name: String,
    wnid: Option<String>,
    folders: Option<Vec<String>>,
    imagenet: Vec<u32>,
    #[serde(rename = "objectnet_id", default)]
    _objectnet_id: Option<serde::de::IgnoredAny>,
}

/// The two counts every file has; others are facts about the download.
#[derive(Deserialize)]
struct Checks {
    classes: usize,
    imagenet_indices: usize,
}

/// Reads a class space from the text of its data file; `outputs` is the network's number of outputs.
pub(super) fn read_space(text: &str, outputs: usize) -> Result<LabelSpace, LabelError> {
    let file: SpaceFile = serde_json::from_str(text)
        .map_err(|e| LabelError::BadFile { name: "(unnamed)".into(), reason: e.to_string() })?;
    let listed: usize = file.classes.iter().map(|c| c.imagenet.len()).sum();
    for (what, declared, found) in
        [("classes", file.checks.classes, file.classes.len()), ("outputs", file.checks.imagenet_indices, listed)]
    {
        if declared != found {
            return Err(LabelError::CountMismatch { name: file.name, what, declared, found });
        }
    }
    let classes = file
        .classes
        .into_iter()
        .map(|entry| SpaceClass {
            folders: entry.folders.unwrap_or_else(|| vec![entry.name.clone()]),
            name: entry.name,
            wnid: entry.wnid,
            outputs: entry.imagenet,
        })
        .collect();
    let mut space = LabelSpace::new(&file.name, file.rule, outputs, classes)?;
    space.label_from = file.label_from;
    space.alt_label_from = file.alt_label_from;
    space.unused_folders = file.unused_folders;
    space.upstream_decision = file.upstream_decision.unwrap_or(Decision::Full);
    Ok(space)
}
