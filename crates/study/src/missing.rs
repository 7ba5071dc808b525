//! Data a plan needs and does not find.

use crate::{DataRef, Plan, Unit, Variables};
use flipcast_images::dataset::{Part, expand_shards, is_address, local_path};
use flipcast_images::registry::find;
use std::collections::BTreeMap;
use std::path::Path;

/// Something that is not there, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// What the plan calls it: a model, a calibration or a dataset.
    pub what: String,
    /// Where it was looked for.
    pub place: String,
    /// Where to get it, if the plan says.
    pub get: Option<String>,
    /// Cells that cannot be made without it.
    pub cells: usize,
}

/// Per unit, what it lacks; and what is lacking in all, with the number of cells that wait for it.
pub fn find_missing(plan: &Plan, units: &[Unit], variables: &Variables) -> (Vec<bool>, Vec<Missing>) {
    let mut seen: BTreeMap<String, Option<String>> = BTreeMap::new();
    let mut missing: Vec<Missing> = Vec::new();
    let mut lacking = Vec::with_capacity(units.len());
    for unit in units {
        let model = &plan.models[unit.model];
        let dataset = &plan.datasets[unit.dataset];
        let mut needs = vec![(format!("model `{}`", model.name), file_place(&model.weights, variables), &model.get)];
        if let Some(calibration) = unit.needed_calibration(plan)
            && let Some(data) = &calibration.data
        {
            let split = calibration.split.as_deref();
            let place = images_place(data, calibration.dataset.as_deref(), split, variables);
            let what = format!("calibration `{}`", calibration.name);
            needs.push((what, place, &calibration.get));
        }
        let DataRef { template, split, .. } = &unit.data;
        let published = unit.data.dataset.as_deref();
        let looked = seen
            .entry(format!("{template} {split:?} {published:?}"))
            .or_insert_with(|| images_place(template, published, split.as_deref(), variables));
        let what = format!("dataset `{}`", dataset.name);
        needs.push((what, looked.clone(), &dataset.get));
        let mut lacks = false;
        for (what, place, get) in needs {
            let Some(place) = place else { continue };
            lacks = true;
            match missing.iter_mut().find(|m| m.what == what && m.place == place) {
                Some(known) => known.cells += 1,
                None => missing.push(Missing { what, place, get: get.clone(), cells: 1 }),
            }
        }
        lacking.push(lacks);
    }
    (lacking, missing)
}

/// Where a file is missing; `None` if it is there.
fn file_place(template: &str, variables: &Variables) -> Option<String> {
    match variables.expand(template) {
        Err(name) => Some(unset(&name, template)),
        Ok(path) if Path::new(&path).is_file() => None,
        Ok(path) => Some(format!("`{path}`")),
    }
}

/// Where images are missing; `None` if something is there.
fn images_place(template: &str, published: Option<&str>, split: Option<&str>, variables: &Variables) -> Option<String> {
    let path = match variables.expand(template) {
        Err(name) => return Some(unset(&name, template)),
        Ok(path) => path,
    };
    let root = without_parts(local_path(&path));
    // What a store holds shows when it is opened.
    if is_address(root) {
        return None;
    }
    if !Path::new(root).exists() {
        let shards = expand_shards(root).unwrap_or_default();
        let first = shards.first().filter(|_| root.contains('{'));
        return match first {
            Some(first) if first.exists() => None,
            _ => Some(format!("`{root}`")),
        };
    }
    let (Some(published), Some(split)) = (published, split) else {
        return None;
    };
    let info = find(published).ok()?;
    let root = Path::new(root);
    let mut places = info.places.iter().map(|place| place.replace("{split}", split));
    // Corruptions may be folders called by the generator's number, or arrays.
    let corruption = split.split_once('/').map(|(corruption, _)| corruption);
    let is_there = places.any(|place| root.join(place).exists())
        || corruption.is_some_and(|name| root.join(name).is_dir() || root.join(format!("{name}.npy")).is_file());
    let place = info.places.first().copied().unwrap_or_default();
    (!is_there).then(|| format!("`{}`", root.join(place).display()))
}

fn unset(name: &str, template: &str) -> String {
    format!("`{template}`, where {name} has no value: give it one with `--set {name}=FOLDER` or in the environment")
}

/// A path without `#first-half:0` and the like.
fn without_parts(path: &str) -> &str {
    let mut path = path;
    while !Path::new(path).exists() {
        match Part::split_off(path) {
            Some((whole, _)) => path = whole,
            None => break,
        }
    }
    path
}
