//! Curves fitted to some kinds of a calibration's shifts and tested on its others: what cells of a calibration say where there are no others.

use crate::recorded::{age, read};
use crate::refit::{Fit, Point, REFIT_VERSION, usual};
use crate::subsets::EverySubset;
use crate::{Plan, StudyError, Unit};
use flipcast_estimate::CurveKind;
use flipcast_record::{Protocol, RunRecord};
use flipcast_run::{Cell, FlipProtocol};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// The cells of a calibration's kind of record.
const CALIBRATE: &str = "calibrate";
/// What the images are called on which nothing was done.
const CLEAN: &str = "clean";

/// What a plan asks of the cells of its calibrations.
pub(crate) struct LeftOut<'a> {
    pub plan: &'a Plan,
    pub groups: usize,
    pub estimators: &'a [String],
    pub curve: Option<CurveKind>,
}

/// The cells of one calibration under one protocol.
struct Calibrated<'a> {
    name: String,
    variant: &'a str,
    flips: FlipProtocol,
    seed: u64,
    cells: Vec<(&'a RunRecord, String, Cell)>,
}

impl LeftOut<'_> {
    /// Every choice of so many kinds, for every calibration of `units` of which cells are among `records`.
    pub fn refits(
        &self,
        units: &[Unit],
        records: &[RunRecord],
        results: &mut Vec<(Protocol, Value)>,
        skipped: &mut Vec<String>,
    ) -> Result<(), StudyError> {
        let places: BTreeSet<_> =
            units.iter().map(|unit| (unit.model, unit.protocol, unit.calibration, unit.seed)).collect();
        for place in places {
            let Some(calibrated) = self.calibrated(place, records)? else { continue };
            for estimator in self.estimators {
                let curve = self.curve.unwrap_or_else(|| usual(estimator, &calibrated.flips));
                let fit = Fit { estimator, curve };
                let every = EverySubset { fit: &fit, groups: self.groups };
                match every.errors(&calibrated.points(estimator)) {
                    Ok(errors) => results.push((self.protocol(&calibrated, &fit)?, json!(errors))),
                    Err(problem) => skipped.push(format!("{estimator} of {}: {problem}", calibrated.name)),
                }
            }
        }
        Ok(())
    }

    fn calibrated<'b>(
        &'b self,
        (model, protocol, calibration, seed): (usize, usize, usize, u64),
        records: &'b [RunRecord],
    ) -> Result<Option<Calibrated<'b>>, StudyError> {
        let (model, protocol) = (&self.plan.models[model].name, &self.plan.protocols[protocol]);
        let entry = &self.plan.calibrations[calibration];
        let Some(data) = entry.data_ref(entry.limit) else { return Ok(None) };
        let (clean, flips) = (data.name(), protocol.resolve(seed)?);
        let mut latest: BTreeMap<&str, &RunRecord> = BTreeMap::new();
        for record in records.iter().filter(|record| record.kind == CALIBRATE) {
            let (Some(name), fields) = (record.data(), &record.protocol) else { continue };
            let field = |name| fields.get(name).cloned().unwrap_or_default();
            let is_asked = field("model").get("name").and_then(Value::as_str) == Some(model)
                && field("seed") == json!(seed)
                && (name == clean || name.strip_prefix(&clean).is_some_and(|rest| rest.starts_with('@')))
                && serde_json::from_value(field("flips")).is_ok_and(|found: FlipProtocol| found == flips);
            if is_asked && latest.get(name).is_none_or(|known| age(known) < age(record)) {
                latest.insert(name, record);
            }
        }
        let mut cells = Vec::new();
        for (name, record) in latest {
            let shift = name.strip_prefix(&clean).unwrap_or_default().trim_start_matches('@');
            let (kind, cell) = match shift.split(':').next() {
                None | Some("") => (CLEAN, record.result.get("cell").unwrap_or(&Value::Null)),
                Some(kind) => (kind, &record.result),
            };
            cells.push((record, kind.to_owned(), read(record, cell)?));
        }
        let name = format!("the calibration `{}` of {model} {}", entry.name, protocol.name);
        Ok((!cells.is_empty()).then_some(Calibrated { name, variant: &protocol.name, flips, seed, cells }))
    }

    fn protocol(&self, calibrated: &Calibrated, fit: &Fit) -> Result<Protocol, StudyError> {
        let mut keys: Vec<&str> = calibrated.cells.iter().map(|(record, ..)| record.key.as_str()).collect();
        keys.sort_unstable();
        let images: usize = calibrated.cells.iter().map(|(.., cell)| cell.images).sum();
        let model = calibrated.cells.first().and_then(|(record, ..)| record.protocol.get("model"));
        Ok(Protocol::new("subsets")
            .with("version", &REFIT_VERSION)?
            .with("model", &model)?
            .with("data", &self.plan.study.name)?
            .with("images", &images)?
            .with("seed", &calibrated.seed)?
            .with("flips", &calibrated.flips)?
            .with("variant", &calibrated.variant)?
            .with("cells", &Protocol::new("cells").with("cells", &keys)?.key())?
            .with("of", &"calibration")?
            .with("estimator", &fit.estimator)?
            .with("curve", &fit.curve)?
            .with("groups", &self.groups)?
            .with("by", &"kind")?)
    }
}

impl Calibrated<'_> {
    fn points(&self, estimator: &str) -> Vec<Point> {
        let point = |(_, kind, cell): &(&RunRecord, String, Cell)| {
            Some(Point {
                group: kind.clone(),
                score: cell.source.get(estimator)?.value,
                accuracy: cell.accuracy?,
                is_clean: kind == CLEAN,
            })
        };
        self.cells.iter().filter_map(point).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ExpandOptions, expand};
    use flipcast_record::Timing;

    const PLAN: &str = r#"
        [study]
        name = "left-out"
        question = "?"
        [[models]]
        name = "a"
        weights = "a.pth"
        [[protocols]]
        name = "short"
        base = "paper"
        stops = [25]
        [[protocols]]
        name = "long"
        base = "paper"
        [[calibrations]]
        name = "half"
        data = "x.tar#first-half:0"
        [[datasets]]
        name = "c"
        data = "x.tar#second-half:0"
        corruptions = ["fog"]
    "#;

    /// A cell in which flips tell accuracy by a line, but for one kind.
    fn record(plan: &Plan, protocol: usize, shift: &str, created: u64) -> RunRecord {
        let flips = plan.protocols[protocol].resolve(0).unwrap();
        let severity: f64 = shift.split(':').nth(1).map_or(0.0, |severity| severity.parse().unwrap());
        let score = |value: f64| json!({"value": value, "standard_error": null});
        let cell = json!({
            "images": 9, "skipped": 0, "adapted_accuracy": null, "adapted": {}, "probe_images": 9,
            "accuracy": if shift.starts_with("odd") { 0.9 } else { 0.9 - 0.1 * severity },
            "source": {"wf": score(100.0 * severity)},
            "adaptation": {"steps": 1, "seen": 9, "reliable": 9, "used": 9, "resets": 0},
            "seconds": {"source": 1.0, "flips": 1.0, "estimators": 1.0},
        });
        let (data, result) = match shift {
            "" => ("x.tar#first-half:0".to_owned(), json!({"cell": cell})),
            shift => (format!("x.tar#first-half:0@{shift}"), cell),
        };
        let protocol = Protocol::new(CALIBRATE)
            .with("model", &json!({"name": "a"}))
            .and_then(|p| p.with("data", &data))
            .and_then(|p| p.with("seed", &0))
            .and_then(|p| p.with("version", &created))
            .and_then(|p| p.with("flips", &flips));
        RunRecord::new(protocol.unwrap(), result, Timing { created, seconds: 1.0 })
    }

    #[test]
    fn each_kind_is_told_by_the_others_under_the_protocol_that_was_asked_for() {
        let plan = Plan::parse(PLAN).unwrap();
        let units = expand(&plan, &ExpandOptions::default()).unwrap();
        let mut records = vec![record(&plan, 1, "", 1), record(&plan, 0, "fog:9", 1)];
        for kind in ["blur", "noise", "odd"] {
            records.extend([1, 3, 5].map(|severity| record(&plan, 1, &format!("{kind}:{severity}"), 1)));
        }
        // An older version of a cell counts for nothing.
        records.push(record(&plan, 1, "noise:3", 0));
        let estimators = ["wf".to_owned(), "cot".to_owned()];
        let asked = LeftOut { plan: &plan, groups: 2, estimators: &estimators, curve: Some(CurveKind::Linear) };
        let (mut results, mut skipped) = (Vec::new(), Vec::new());
        asked.refits(&units, &records, &mut results, &mut skipped).unwrap();
        assert_eq!((results.len(), skipped.len()), (1, 3), "{skipped:?}");
        let (protocol, errors) = &results[0];
        assert_eq!(protocol.get("variant"), Some(&json!("long")));
        assert_eq!((&errors["subsets"], &errors["cells"]), (&json!(3), &json!(10)));
        assert_eq!(errors["worst"], json!(["blur", "noise"]));
        assert!(skipped.iter().any(|problem| problem.contains("short")), "{skipped:?}");
    }
}
