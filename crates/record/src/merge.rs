use crate::{Records, RunRecord};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The field of a result that tells how long something took; it differs from run to run.
const TIME: &str = "seconds";

/// Two files with different results for the same protocol.
#[derive(Debug, thiserror::Error)]
#[error(
    "`{}` and `{}` hold different results for the {kind} record `{key}` ({data}): {left} and {right}",
    one.display(),
    other.display()
)]
pub struct MergeConflict {
    /// The key both have.
    pub key: String,
    /// What kind of run it was.
    pub kind: String,
    /// The data, as the protocol calls it.
    pub data: String,
    /// One file.
    pub one: PathBuf,
    /// The other.
    pub other: PathBuf,
    /// The first value that differs, with its place.
    pub left: String,
    /// The same in the other.
    pub right: String,
}

/// Joins the records of several files: one record per key, ordered by kind and protocol, whatever the order of the files.
///
/// Of records that are equal but for times the earliest stays. Different results for one key are refused.
pub fn merge_records<'a>(
    files: impl IntoIterator<Item = (&'a Path, Records)>,
) -> Result<Vec<RunRecord>, Box<MergeConflict>> {
    let mut merged: BTreeMap<(String, String), (PathBuf, RunRecord)> = BTreeMap::new();
    for (path, records) in files {
        for record in &records {
            let place = (record.kind.clone(), record.protocol.canonical());
            let Some((known_path, known)) = merged.get(&place) else {
                merged.insert(place, (path.to_owned(), record.clone()));
                continue;
            };
            if let Some((left, right)) = difference("", &known.result, &record.result) {
                let data = record.protocol.get("data").and_then(Value::as_str);
                return Err(Box::new(MergeConflict {
                    key: record.key.clone(),
                    kind: record.kind.clone(),
                    data: data.unwrap_or("no data").to_owned(),
                    one: known_path.clone(),
                    other: path.to_owned(),
                    left,
                    right,
                }));
            }
            if is_earlier(record, known) {
                merged.insert(place, (path.to_owned(), record.clone()));
            }
        }
    }
    Ok(merged.into_values().map(|(_, record)| record).collect())
}

/// Whether two results are the same, times aside.
pub fn same_but_for_time(one: &Value, other: &Value) -> bool {
    difference("", one, other).is_none()
}

/// A total order of records that differ in times alone.
fn is_earlier(record: &RunRecord, known: &RunRecord) -> bool {
    let text = |record: &RunRecord| serde_json::to_string(record).unwrap_or_default();
    record.created.cmp(&known.created).then_with(|| text(record).cmp(&text(known))).is_lt()
}

/// The first place at which two values differ, times aside.
fn difference(path: &str, one: &Value, other: &Value) -> Option<(String, String)> {
    let below = |name: &str| match path {
        "" => name.to_owned(),
        path => format!("{path}.{name}"),
    };
    match (one, other) {
        (Value::Object(a), Value::Object(b)) => {
            let names = a.keys().chain(b.keys().filter(|name| !a.contains_key(*name)));
            names.filter(|name| *name != TIME).find_map(|name| {
                let of = |map: &serde_json::Map<String, Value>| map.get(name).cloned().unwrap_or(Value::Null);
                difference(&below(name), &of(a), &of(b))
            })
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            let mut pairs = a.iter().zip(b).enumerate();
            pairs.find_map(|(i, (x, y))| difference(&below(&i.to_string()), x, y))
        }
        _ if one == other => None,
        _ => {
            let place = if path.is_empty() { "result" } else { path };
            Some((format!("{place} = {one}"), format!("{place} = {other}")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Protocol, Timing};
    use serde_json::json;

    fn record(seed: u64, result: Value, created: u64) -> RunRecord {
        let protocol = Protocol::new("estimate").with("seed", &seed).expect("JSON");
        let timing = Timing { created, seconds: created as f64 };
        RunRecord::new(protocol, result, timing)
    }

    fn merge(files: Vec<Vec<RunRecord>>) -> Result<Vec<RunRecord>, Box<MergeConflict>> {
        let names: Vec<PathBuf> = (0..files.len()).map(|i| format!("{i}").into()).collect();
        let files = files.into_iter().map(|file| file.into_iter().collect());
        merge_records(names.iter().map(PathBuf::as_path).zip(files))
    }

    #[test]
    fn equal_but_for_time_counts_once_and_the_order_of_files_does_not_matter() {
        let early = record(1, json!({"accuracy": 0.5, "seconds": {"source": 1.0}}), 10);
        let late = record(1, json!({"accuracy": 0.5, "seconds": {"source": 2.0}}), 20);
        let other = record(2, json!({"accuracy": 0.7}), 15);
        let one = merge(vec![vec![late.clone(), other.clone()], vec![early.clone()]]).unwrap();
        let two = merge(vec![vec![early.clone()], vec![other.clone(), late]]).unwrap();
        assert_eq!(one, two);
        assert_eq!(one, [early, other]);
    }

    #[test]
    fn different_results_are_told() {
        let one = record(1, json!({"accuracy": 0.5}), 1);
        let two = record(1, json!({"accuracy": 0.6}), 1);
        let text = merge(vec![vec![one], vec![two]]).unwrap_err().to_string();
        for part in ["`0`", "`1`", "accuracy = 0.5", "accuracy = 0.6"] {
            assert!(text.contains(part), "{text}");
        }
    }
}
