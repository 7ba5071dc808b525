//! From a plan to the cells it asks for.

use crate::data::limit_value;
use crate::plan::DatasetEntry;
use crate::{AnalysisEntry, CalibrationEntry, DataRef, Plan, StudyError};
use flipcast_corrupt::{CorruptionRequest, CorruptionSet, Storage};
use flipcast_images::registry::{DATASETS, Splits, find};
use flipcast_record::Protocol;
use flipcast_run::HELD_OUT;
use flipcast_run::analysis::OmissionRule;
use serde_json::json;
use std::collections::BTreeMap;

/// The 15 corruptions of ImageNet-C, with the constants that suit the images' size.
const BY_SIZE: &str = "c";

/// What the caller may ask for besides the plan.
#[derive(Clone, Debug, Default)]
pub struct ExpandOptions {
    /// This seed in place of the plan's.
    pub seed: Option<u64>,
    /// At most this many images of every dataset.
    pub limit: Option<usize>,
}

/// One cell to estimate, or one analysis.
#[derive(Clone, Debug)]
pub struct Unit {
    /// A hash of everything the plan says about it; where data and weights lie is no part of it.
    pub key: String,
    /// Its model, by number in the plan.
    pub model: usize,
    /// Its protocol.
    pub protocol: usize,
    /// Its calibration.
    pub calibration: usize,
    /// Its dataset entry.
    pub dataset: usize,
    /// Its seed.
    pub seed: u64,
    /// Its images.
    pub data: DataRef,
    /// The corruption, or the split where there is none: what is drawn or left out as a whole.
    pub group: String,
    /// The analysis, by number in the plan; `None` for a cell to estimate.
    pub analysis: Option<usize>,
    /// What an omission leaves out.
    pub rule: Option<OmissionRule>,
}

impl Unit {
    /// What a reader calls it: model, protocol and data.
    pub fn title(&self, plan: &Plan) -> String {
        let how = match self.analysis {
            Some(number) => &plan.analyses[number].name,
            None => &plan.protocols[self.protocol].name,
        };
        let model = &plan.models[self.model].name;
        let mut title = format!("{model} {how} {}", self.data.name());
        if let Some(rule) = &self.rule {
            title += &format!(" {} {}", rule.name(), rule.value());
        }
        title
    }

    /// The calibration it cannot do without.
    pub(crate) fn needed_calibration<'a>(&self, plan: &'a Plan) -> Option<&'a CalibrationEntry> {
        let is_needed = match self.analysis {
            Some(number) => plan.analyses[number].calibration.is_some(),
            None => true,
        };
        is_needed.then(|| &plan.calibrations[self.calibration])
    }
}

/// Every cell of `plan`, always in the same order: by model, protocol, calibration, seed and dataset.
pub fn expand(plan: &Plan, options: &ExpandOptions) -> Result<Vec<Unit>, StudyError> {
    let mut rows = Vec::new();
    for dataset in &plan.datasets {
        rows.push(splits(plan, dataset, options)?);
    }
    refuse_same_names(plan, &rows)?;
    let seeds = match options.seed {
        Some(seed) => vec![seed],
        None => plan.study.seeds.clone(),
    };
    let mut units = Vec::new();
    for (model, model_entry) in plan.models.iter().enumerate() {
        for (protocol, protocol_entry) in plan.protocols.iter().enumerate() {
            for (calibration, calibration_entry) in plan.calibrations.iter().enumerate() {
                if !calibration_entry.is_for(&model_entry.name, &protocol_entry.name) {
                    continue;
                }
                for &seed in &seeds {
                    for (dataset, row) in rows.iter().enumerate() {
                        if !plan.datasets[dataset].is_for(&model_entry.name) {
                            continue;
                        }
                        for (data, group) in row {
                            let mut unit = Unit {
                                key: String::new(),
                                model,
                                protocol,
                                calibration,
                                dataset,
                                seed,
                                data: data.clone(),
                                group: group.clone(),
                                analysis: None,
                                rule: None,
                            };
                            unit.key = key(plan, &unit, options)?;
                            units.push(unit);
                        }
                    }
                }
            }
        }
        for (analysis, entry) in plan.analyses.iter().enumerate() {
            for &seed in &seeds {
                let place = (model, analysis, seed);
                units.extend(analysis_units(plan, entry, place, &rows, options)?);
            }
        }
    }
    if units.is_empty() {
        let problem =
            "no model has both a calibration and a dataset, or an analysis of one; expected at least one cell";
        return Err(StudyError::entry("study", &plan.study.name, problem));
    }
    Ok(units)
}

/// The units of one analysis with one model and seed.
fn analysis_units(
    plan: &Plan,
    entry: &AnalysisEntry,
    (model, analysis, seed): (usize, usize, u64),
    rows: &[Vec<(DataRef, String)>],
    options: &ExpandOptions,
) -> Result<Vec<Unit>, StudyError> {
    let name = &plan.models[model].name;
    let calibration = entry.calibration.as_ref().map(|name| name.get_ref());
    let calibration = plan.calibrations.iter().position(|c| Some(&c.name) == calibration);
    let mut rules: Vec<Option<OmissionRule>> = entry.rules().into_iter().map(Some).collect();
    if rules.is_empty() {
        rules.push(None);
    }
    let mut units = Vec::new();
    for (dataset, row) in rows.iter().enumerate() {
        let dataset_entry = &plan.datasets[dataset];
        if !dataset_entry.is_for(name) || !entry.is_for(name, &dataset_entry.name) {
            continue;
        }
        let asked = entry.only.as_deref().unwrap_or_default();
        for (data, group) in row.iter().filter(|(data, _)| data.name().contains(asked)) {
            for &rule in &rules {
                let mut unit = Unit {
                    key: String::new(),
                    model,
                    protocol: 0,
                    calibration: calibration.unwrap_or(0),
                    dataset,
                    seed,
                    data: data.clone(),
                    group: group.clone(),
                    analysis: Some(analysis),
                    rule,
                };
                unit.key = key(plan, &unit, options)?;
                units.push(unit);
            }
        }
    }
    Ok(units)
}

fn key(plan: &Plan, unit: &Unit, options: &ExpandOptions) -> Result<String, StudyError> {
    let model = &plan.models[unit.model];
    let calibration = unit.needed_calibration(plan).map(|calibration| {
        let mut value = json!({
            "data": calibration.data,
            "dataset": calibration.dataset,
            "split": calibration.split,
            "labels": calibration.labels,
            "limit": limit_value(least(calibration.limit, options.limit)),
            "temperature": calibration.temperature,
            "marginal": calibration.marginal,
            "published": calibration.published,
        });
        // Plans from before there was a choice have none in their keys.
        if let Some(shifts) = &calibration.shifts {
            value["shifts"] = json!(shifts);
        }
        value
    });
    let model = json!({
        "name": model.name,
        "weights": model.weights,
        "architecture": model.architecture,
        "classes": model.classes,
    });
    let protocol = Protocol::new("unit")
        .with("model", &model)?
        .with("calibration", &calibration)?
        .with("seed", &unit.seed)?
        .with("data", &unit.data)?;
    let protocol = match stored_as(plan, unit) {
        Some(storage) => protocol.with("storage", &storage)?,
        None => protocol,
    };
    let protocol = match unit.analysis {
        Some(number) => {
            let rule = unit.rule.map(|rule| (rule.name(), rule.value()));
            let analysis = plan.analyses[number].settings()?;
            protocol.with("analysis", &analysis)?.with("rule", &rule)?
        }
        None => protocol
            .with("flips", &plan.protocols[unit.protocol].resolve(unit.seed)?)?
            .with("level", &plan.study.level)?,
    };
    Ok(protocol.key())
}

/// What the key of a unit says about the storage step of corruptions made in memory: nothing where none are made, and nothing
/// for `none`, as in plans from before there was such a step.
fn stored_as(plan: &Plan, unit: &Unit) -> Option<&'static str> {
    let calibrates = unit.analysis.is_none() && plan.calibrations[unit.calibration].data.is_some();
    if unit.data.corruption.is_none() && !calibrates {
        return None;
    }
    match plan.study.storage {
        None => Some("published"),
        Some(Storage::None) => None,
        Some(Storage::Jpeg85) => Some(Storage::Jpeg85.name()),
    }
}

/// The smaller of two limits.
pub(crate) fn least(one: Option<usize>, other: Option<usize>) -> Option<usize> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

/// Two rows whose images have the same name in records would be taken for the same.
fn refuse_same_names(plan: &Plan, rows: &[Vec<(DataRef, String)>]) -> Result<(), StudyError> {
    let mut known: BTreeMap<String, &DataRef> = BTreeMap::new();
    for (entry, row) in plan.datasets.iter().zip(rows) {
        for (data, _) in row {
            let other = known.insert(data.name(), data);
            if other.is_some_and(|other| other.template != data.template) {
                let problem = format!(
                    "records would call both its images and those of another dataset `{}`, expected paths that differ behind their variables",
                    data.name()
                );
                return Err(StudyError::entry("dataset", &entry.name, problem));
            }
        }
    }
    Ok(())
}

/// The splits of a dataset entry with their groups.
fn splits(plan: &Plan, entry: &DatasetEntry, options: &ExpandOptions) -> Result<Vec<(DataRef, String)>, StudyError> {
    let plain = DataRef {
        template: entry.data.clone(),
        corruption: None,
        dataset: None,
        split: None,
        labels: entry.labels,
        decision: entry.decision,
        limit: least(entry.limit, options.limit),
        storage: plan.study.storage,
    };
    let mut images = Vec::new();
    match &entry.dataset {
        Some(_) => images = published(plan, entry, &plain)?,
        None if entry.splits.is_some() => {
            for split in entry.splits.iter().flatten() {
                let split = split.get_ref().clone();
                let data = DataRef { split: Some(split.clone()), ..plain.clone() };
                images.push((data, split));
            }
        }
        None => images.push((plain, entry.name.clone())),
    }
    if entry.corruptions.is_empty() {
        return Ok(images);
    }
    let corruptions = corruptions(plan, entry)?;
    let mut all = Vec::new();
    for (data, group) in images {
        if entry.clean {
            all.push((data.clone(), group));
        }
        for (text, name) in &corruptions {
            let data = DataRef { corruption: Some(text.clone()), ..data.clone() };
            all.push((data, name.clone()));
        }
    }
    Ok(all)
}

/// The splits of a published dataset, or those of them that are asked for.
fn published(plan: &Plan, entry: &DatasetEntry, plain: &DataRef) -> Result<Vec<(DataRef, String)>, StudyError> {
    let Some(name) = &entry.dataset else {
        return Ok(Vec::new());
    };
    let unknown = || plan.unknown("published dataset", name, DATASETS.iter().map(|d| d.name));
    let info = find(name.get_ref()).map_err(|_| unknown())?;
    let known = info.splits.names();
    for split in entry.splits.iter().flatten() {
        if !known.contains(split.get_ref()) {
            return Err(plan.unknown("split", split, known.iter().map(String::as_str)));
        }
    }
    let asked = |split: &String| {
        let list = entry.splits.as_ref();
        list.is_none_or(|list| list.iter().any(|asked| asked.get_ref() == split))
    };
    let mut all = Vec::new();
    for split in known.iter().filter(|split| asked(split)) {
        let group = match (info.splits, split.split_once('/')) {
            (Splits::Severities(_), Some((corruption, _))) => corruption,
            (Splits::One, _) => info.name,
            _ => split,
        };
        let data = DataRef { dataset: Some(info.name.to_owned()), split: Some(split.clone()), ..plain.clone() };
        all.push((data, group.to_owned()));
    }
    Ok(all)
}

/// The corruptions of an entry as they stand behind an `@`, with their names.
fn corruptions(plan: &Plan, entry: &DatasetEntry) -> Result<Vec<(String, String)>, StudyError> {
    let mut names: Vec<String> = Vec::new();
    for asked in &entry.corruptions {
        let text = asked.get_ref().as_str();
        let (set, prefix) = match text.parse::<CorruptionSet>() {
            Ok(set) => (Some(set), format!("{set}/")),
            Err(_) if text == BY_SIZE => (Some(CorruptionSet::ImageNetC), String::new()),
            Err(_) => (None, String::new()),
        };
        match set {
            Some(set) => {
                let all = flipcast_corrupt::registry::names(set).into_iter();
                let tested = all.filter(|name| !HELD_OUT.contains(name));
                names.extend(tested.map(|name| format!("{prefix}{name}")));
            }
            None if format!("{text}:1").parse::<CorruptionRequest>().is_ok() => {
                names.push(text.to_owned());
            }
            None => {
                let known = CorruptionSet::ALL.into_iter();
                let mut known: Vec<&str> = known
                    .flat_map(flipcast_corrupt::registry::names)
                    .chain(CorruptionSet::ALL.map(CorruptionSet::name))
                    .collect();
                known.push(BY_SIZE);
                return Err(plan.unknown("corruption", asked, known.into_iter()));
            }
        }
    }
    let mut seen = Vec::new();
    names.retain(|name| {
        let is_new = !seen.contains(name);
        seen.push(name.clone());
        is_new
    });
    let mut all = Vec::new();
    for name in &names {
        for severity in &entry.severities {
            let text = format!("{name}:{severity}");
            let request: CorruptionRequest =
                text.parse().map_err(|source| StudyError::setting("dataset", &entry.name, source))?;
            all.push((text, request.name.to_owned()));
        }
    }
    Ok(all)
}
