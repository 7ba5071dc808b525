use super::Subject;
use super::kinds::Estimates;
use super::variant::name_variants;
use crate::ReportError;
use flipcast_record::results::{
    AdaptSummary, AdviceResult, ByClassResult, CalibrationResult, Cell, EmbeddingMap, EstimatesResult, FewLabelsResult,
    FlipPoint, Omission, Phases, Refit, SubsetErrors, Toy, Transfer,
};
use flipcast_record::{Records, RunRecord, canonical_json};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// A result and what it is about.
#[derive(Clone, Debug)]
pub(crate) struct Entry<T> {
    pub subject: Subject,
    pub result: T,
}

/// A record of a known kind that does not hold what the kind holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Broken {
    pub key: String,
    pub kind: String,
    pub why: String,
}

/// Everything that is known from some record files.
#[derive(Debug, Default)]
pub struct Study {
    /// Every record once, in a total order.
    pub(crate) records: Vec<RunRecord>,
    pub(crate) estimates: Vec<Entry<Estimates>>,
    pub(crate) few_labels: Vec<Entry<FewLabelsResult>>,
    pub(crate) by_class: Vec<Entry<ByClassResult>>,
    pub(crate) calibrations: Vec<Entry<CalibrationResult>>,
    pub(crate) refits: Vec<Entry<Refit>>,
    pub(crate) subsets: Vec<Entry<SubsetErrors>>,
    pub(crate) transfers: Vec<Entry<Transfer>>,
    pub(crate) advice: Vec<Entry<AdviceResult>>,
    pub(crate) adaptations: Vec<Entry<AdaptSummary>>,
    pub(crate) phases: Vec<Entry<Phases>>,
    pub(crate) omissions: Vec<Entry<Omission>>,
    pub(crate) flips: Vec<Entry<FlipPoint>>,
    pub(crate) maps: Vec<Entry<EmbeddingMap>>,
    pub(crate) toys: Vec<Entry<Toy>>,
    /// Kinds that are not shown, and how many records they have.
    pub(crate) ignored: BTreeMap<String, usize>,
    pub(crate) broken: Vec<Broken>,
}

impl Study {
    /// Reads record files, and all files that end in `.jsonl` or `.jsonl.gz` of folders.
    pub fn load(paths: &[PathBuf]) -> Result<Self, ReportError> {
        let mut files = BTreeSet::new();
        for path in paths {
            if path.is_dir() {
                files.extend(files_of(path)?);
            } else {
                files.insert(path.clone());
            }
        }
        let mut records = Vec::new();
        for file in &files {
            let loaded = Records::load(file).map_err(|source| ReportError::Records { source })?;
            records.extend(loaded.iter().cloned());
        }
        Ok(Self::new(records))
    }

    /// Sorts records out. Of several with one key, or that differ in the level of intervals alone, the youngest
    /// counts.
    pub fn new(records: Vec<RunRecord>) -> Self {
        let mut by_key: BTreeMap<String, RunRecord> = BTreeMap::new();
        for record in records {
            let identity = identity(&record);
            let is_outlived = by_key.get(&identity).is_some_and(|known: &RunRecord| match known.key == record.key {
                true => age(known) >= age(&record),
                // Of two levels within one second, the one that was appended later.
                false => known.created > record.created,
            });
            if !is_outlived {
                by_key.insert(identity, record);
            }
        }
        let mut sorted: Vec<(Subject, RunRecord)> =
            by_key.into_values().map(|record| (Subject::of(&record), record)).collect();
        let shifted: BTreeSet<String> =
            sorted.iter().filter(|(subject, _)| subject.is_shifted).map(|(subject, _)| subject.base.clone()).collect();
        for (subject, _) in &mut sorted {
            // Beside their own corruptions, images as they are have one name.
            if !subject.is_shifted && shifted.contains(&subject.base) {
                (subject.name, subject.family) = ("clean".to_owned(), "clean".to_owned());
            }
        }
        name_variants(&mut sorted);
        name_settings(&mut sorted);
        sorted.sort_by(|(a, a_record), (b, b_record)| {
            let rank = |s: &Subject, r: &RunRecord| {
                let place = natural(&s.name);
                (
                    r.kind.clone(),
                    s.model.clone(),
                    s.family.clone(),
                    place,
                    s.data.clone(),
                    s.method.clone(),
                    s.key.clone(),
                )
            };
            rank(a, a_record).cmp(&rank(b, b_record))
        });
        let mut study = Self::default();
        let mut cells: Vec<Entry<Cell>> = Vec::new();
        for (subject, record) in sorted {
            study.sort_in(subject, &record, &mut cells);
            study.records.push(record);
        }
        study.add_direct(cells);
        study
    }

    /// Whether there is nothing to show.
    pub fn is_empty(&self) -> bool {
        self.estimates.is_empty()
            && self.few_labels.is_empty()
            && self.by_class.is_empty()
            && self.calibrations.is_empty()
            && self.refits.is_empty()
            && self.subsets.is_empty()
            && self.transfers.is_empty()
            && self.advice.is_empty()
            && self.adaptations.is_empty()
            && self.phases.is_empty()
            && self.omissions.is_empty()
            && self.flips.is_empty()
            && self.maps.is_empty()
            && self.toys.is_empty()
    }

    /// How many records were read.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// What was read but is not shown, one line each.
    pub fn notes(&self) -> Vec<String> {
        let kinds =
            self.ignored.iter().map(|(kind, count)| format!("{count} of kind `{kind}`, which a report does not show"));
        let broken =
            self.broken.iter().map(|broken| format!("`{}` of kind `{}`: {}", broken.key, broken.kind, broken.why));
        kinds.chain(broken).collect()
    }

    fn sort_in(&mut self, subject: Subject, record: &RunRecord, cells: &mut Vec<Entry<Cell>>) {
        let broken = &mut self.broken;
        match record.kind.as_str() {
            "estimates" => {
                let mut found: Vec<Entry<EstimatesResult>> = Vec::new();
                keep(subject, record, &mut found, broken);
                let shown = found.into_iter().map(|Entry { subject, result }| Entry { subject, result: result.into() });
                self.estimates.extend(shown);
            }
            "adapt" => {
                let known = self.adaptations.len();
                keep(subject, record, &mut self.adaptations, broken);
                self.phases.extend(self.adaptations[known..].iter().filter_map(watched_phases));
            }
            "advice" => keep(subject, record, &mut self.advice, broken),
            "few_labels" => keep(subject, record, &mut self.few_labels, broken),
            "by_class" => keep(subject, record, &mut self.by_class, broken),
            "calibration" => keep(subject, record, &mut self.calibrations, broken),
            "transfer" => keep(subject, record, &mut self.transfers, broken),
            "phases" => keep(subject, record, &mut self.phases, broken),
            "flips" => keep(subject, record, &mut self.flips, broken),
            "map" => keep(subject, record, &mut self.maps, broken),
            "toy" => keep(subject, record, &mut self.toys, broken),
            "estimate" => keep(subject, record, cells, broken),
            "subsets" => keep(subject, record, &mut self.subsets, broken),
            "refit" => keep(subject, record, &mut self.refits, broken),
            "omission" => keep(subject, record, &mut self.omissions, broken),
            other => *self.ignored.entry(other.to_owned()).or_default() += 1,
        }
    }

    /// Raw scores that no record turned into estimates: what they say as they stand.
    fn add_direct(&mut self, cells: Vec<Entry<Cell>>) {
        let known: BTreeSet<String> = self.estimates.iter().map(|entry| entry.result.cell.clone()).collect();
        for Entry { subject, result } in cells {
            if !known.contains(&subject.key) {
                self.estimates.push(Entry { result: Estimates::of_cell(&result, &subject.key), subject });
            }
        }
    }
}

/// What records share of which the youngest counts: the key, or for estimates everything but the level of the intervals.
fn identity(record: &RunRecord) -> String {
    if record.kind != "estimates" {
        return record.key.clone();
    }
    let mut fields = record.protocol.fields().clone();
    fields.remove("level");
    canonical_json(&Value::Object(fields))
}

/// Where records of one kind tell of a network and a method with several settings, the method's name gets its setting.
fn name_settings(sorted: &mut [(Subject, RunRecord)]) {
    let mut settings: BTreeMap<[String; 3], BTreeSet<String>> = BTreeMap::new();
    let place = |subject: &Subject, record: &RunRecord| {
        let method = subject.method.clone()?;
        Some([record.kind.clone(), subject.network.clone(), method])
    };
    for (subject, record) in &*sorted {
        if let Some(place) = place(subject, record) {
            let known = settings.entry(place).or_default();
            known.insert(subject.setting.clone());
        }
    }
    for (subject, record) in sorted {
        let several = place(subject, record).is_some_and(|place| settings[&place].len() > 1);
        if let Some(method) = &mut subject.method
            && several
            && !subject.setting.is_empty()
        {
            *method = format!("{method}, {}", subject.setting);
        }
    }
}

fn keep<T: DeserializeOwned>(
    subject: Subject,
    record: &RunRecord,
    entries: &mut Vec<Entry<T>>,
    broken: &mut Vec<Broken>,
) {
    match T::deserialize(&record.result) {
        Ok(result) => entries.push(Entry { subject, result }),
        Err(error) => {
            broken.push(Broken { key: record.key.clone(), kind: record.kind.clone(), why: error.to_string() })
        }
    }
}

/// The looks at the clusters of an adaptation run, where there were any.
fn watched_phases(entry: &Entry<AdaptSummary>) -> Option<Entry<Phases>> {
    let checkpoints = entry.result.watched.clone();
    let images = entry.result.images;
    let phases = Phases { checkpoints, phase_1_end: None, images, clusters: 0 };
    (!phases.checkpoints.is_empty()).then(|| Entry { subject: entry.subject.clone(), result: phases })
}

/// What decides between records with one key, whatever files they come from.
fn age(record: &RunRecord) -> (u64, String) {
    (record.created, record.result.to_string())
}

/// Text and numbers in turns, so that `noise:10` comes after `noise:9`.
pub(crate) fn natural(text: &str) -> Vec<(String, u64)> {
    let mut parts = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let word = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let (words, after) = rest.split_at(word);
        let number = after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len());
        let (digits, after) = after.split_at(number);
        parts.push((words.to_owned(), digits.parse().unwrap_or(0)));
        rest = after;
    }
    parts
}

fn files_of(folder: &Path) -> Result<Vec<PathBuf>, ReportError> {
    let failed = |source| ReportError::Folder { path: folder.to_owned(), source };
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_file() && (name.ends_with(".jsonl") || name.ends_with(".jsonl.gz")) {
            files.push(path);
        }
    }
    if files.is_empty() {
        return Err(ReportError::NoFiles { path: folder.to_owned() });
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;
    use flipcast_record::{Protocol, Timing};
    use serde_json::json;

    fn record(kind: &str, data: &str, result: Value, created: u64) -> RunRecord {
        let protocol = Protocol::new(kind).with("data", &data).expect("JSON");
        let seconds = 1.0;
        RunRecord::new(protocol, result, Timing { created, seconds })
    }

    fn flips(data: &str, share: f64, created: u64) -> RunRecord {
        record(
            "flips",
            data,
            json!({"silhouette": null, "flips": share, "weighted_flips": 0.0, "accuracy": null, "images": 3}),
            created,
        )
    }

    #[test]
    fn the_order_of_records_does_not_matter_and_the_youngest_counts() {
        let all = [flips("x@fog:10", 0.1, 1), flips("x@fog:9", 0.2, 1), flips("x@fog:9", 0.3, 2)];
        for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0]] {
            let study = Study::new(order.map(|i| all[i].clone()).to_vec());
            let shares: Vec<_> = study.flips.iter().map(|e| e.result.flips).collect();
            assert_eq!(shares, [0.3, 0.1]);
        }
    }

    #[test]
    fn what_is_not_understood_is_named() {
        let study =
            Study::new(vec![record("weather", "x", json!({}), 1), record("phases", "x", json!({"checkpoints": 3}), 1)]);
        assert!(study.is_empty());
        let notes = study.notes();
        assert_eq!(notes.len(), 2);
        assert!(notes[0].contains("`weather`") && notes[1].contains("`phases`"), "{notes:?}");
    }

    #[test]
    fn raw_scores_count_only_where_no_estimates_were_made() {
        let cell = |data: &str| {
            let score = |value: f64| json!({"value": value, "standard_error": null});
            let result = json!({
                "images": 9, "skipped": 0, "accuracy": 0.6, "adapted_accuracy": null, "adapted": {}, "probe_images": 9,
                "source": {"ac": score(0.7), "wf": score(12.0)},
                "adaptation": {"steps": 1, "seen": 9, "reliable": 9, "used": 9, "resets": 0},
                "seconds": {"source": 1.0, "flips": 1.0, "estimators": 1.0},
            });
            record("estimate", data, result, 1)
        };
        let (one, two) = (cell("one"), cell("two"));
        let made = json!({
            "cell": one.key, "images": 9, "accuracy": 0.6, "adapted_accuracy": null, "adapted": {},
            "source": {"wf": {"accuracy": 0.5, "low": 0.4, "high": 0.6, "flags": []}},
            "seconds": {"source": 1.0, "flips": 1.0, "estimators": 1.0},
        });
        let made = record("estimates", "one", made, 1);
        let study = Study::new(vec![one, two, made]);
        let names: Vec<&str> = study.estimates.iter().map(|e| e.subject.data.as_str()).collect();
        assert_eq!(names, ["one", "two"]);
        assert!(study.estimates[1].result.source.keys().eq(["ac"]));
    }
}
