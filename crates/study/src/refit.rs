//! Curves fitted again from cells that are there: no network is needed.

use crate::left_out::LeftOut;
use crate::recorded::RecordedCells;
use crate::subsets::EverySubset;
use crate::{Plan, RefitEntry, RefitGroup, StudyError, Unit};
use flipcast_estimate::{CurveKind, Direction, fit_curve};
use flipcast_images::loader::Order;
use flipcast_record::results::{Refit, Transfer};
use flipcast_record::{Protocol, RunRecord};
use flipcast_run::{CalibrationCell, Cell, FlipProtocol, Ledger, score_info};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// Raised whenever a refit's numbers change for the same cells.
pub(crate) const REFIT_VERSION: u32 = 1;

/// What became of the refits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RefitOutcome {
    /// Cells of the plan that were found.
    pub cells: usize,
    /// Records that were already there.
    pub found: usize,
    /// Records that were made.
    pub made: usize,
    /// Refits that could not be made, and why.
    pub skipped: Vec<String>,
}

/// Cells under one model, protocol, calibration and seed.
pub(crate) struct Series<'a> {
    cells: Vec<(&'a Unit, String, Cell)>,
    calibration: Vec<CalibrationCell>,
    /// The model's identity as records have it.
    model: Value,
    flips: FlipProtocol,
    seed: u64,
    /// The protocol, by number in the plan.
    variant: usize,
    name: String,
}

/// A cell as a curve sees it.
#[derive(Clone)]
pub(crate) struct Point {
    pub group: String,
    pub score: f64,
    pub accuracy: f64,
    /// Whether nothing was done to its images.
    pub is_clean: bool,
}

/// Makes the refits of `plan` from cells among `records`, and keeps them in `ledger`.
pub fn run_refits(
    plan: &Plan,
    units: &[Unit],
    records: &[RunRecord],
    ledger: &mut Ledger,
) -> Result<RefitOutcome, StudyError> {
    let mut outcome = RefitOutcome::default();
    if plan.refits().len() == 0 {
        return Ok(outcome);
    }
    let all = series(plan, units, records)?;
    outcome.cells = all.iter().map(|series| series.cells.len()).sum();
    for entry in plan.refits() {
        let mut results = Vec::new();
        match entry {
            RefitEntry::Subsets { .. } => {
                for series in &all {
                    subsets(plan, entry, series, &mut results, &mut outcome.skipped)?;
                }
            }
            RefitEntry::Calibration { groups, estimators, curve } => {
                let left_out = LeftOut { plan, groups: *groups, estimators, curve: *curve };
                left_out.refits(units, records, &mut results, &mut outcome.skipped)?;
            }
            RefitEntry::Curves { estimators, curves } => {
                for series in &all {
                    for estimator in estimators {
                        for &curve in curves {
                            let fit = Fit { estimator, curve };
                            let made = fit.calibrated(plan, series, series)?;
                            collect(made, &mut results, &mut outcome.skipped);
                        }
                    }
                }
            }
            RefitEntry::Transfer { from, to, estimators, curve } => {
                for (source, target) in pairs(plan, &all, from.as_deref(), to.as_deref()) {
                    for estimator in estimators {
                        let curve = curve.unwrap_or_else(|| usual(estimator, &source.flips));
                        let fit = Fit { estimator, curve };
                        let made = fit.transferred(plan, source, target)?;
                        collect(made, &mut results, &mut outcome.skipped);
                    }
                }
            }
        }
        for (protocol, result) in results {
            if ledger.find::<Value>(&protocol)?.is_some() {
                outcome.found += 1;
            } else {
                ledger.keep(protocol, &result, 0.0)?;
                outcome.made += 1;
            }
        }
    }
    // A score that a network does not have is told once, not for every curve.
    outcome.skipped.dedup();
    Ok(outcome)
}

fn collect(made: Result<(Protocol, Value), String>, results: &mut Vec<(Protocol, Value)>, skipped: &mut Vec<String>) {
    match made {
        Ok(made) => results.push(made),
        Err(problem) => skipped.push(problem),
    }
}

/// Series of two models under the same protocol and seed; of every two different ones where a model is not named.
fn pairs<'a>(
    plan: &'a Plan,
    all: &'a [Series<'a>],
    from: Option<&'a str>,
    to: Option<&'a str>,
) -> impl Iterator<Item = (&'a Series<'a>, &'a Series<'a>)> {
    let model = |series: &Series| series.cells.first().map(|(unit, ..)| unit.model);
    let is = move |series: &Series, name: Option<&str>| {
        name.is_none_or(|name| model(series).is_some_and(|model| plan.models[model].name == name))
    };
    let sources = all.iter().filter(move |series| is(series, from));
    sources.flat_map(move |source| {
        let same = move |target: &&Series| {
            is(target, to)
                && model(target) != model(source)
                && target.variant == source.variant
                && target.seed == source.seed
        };
        all.iter().filter(same).map(move |target| (source, target))
    })
}

/// The curve a score usually takes.
pub(crate) fn usual(estimator: &str, flips: &FlipProtocol) -> CurveKind {
    match score_info(estimator) {
        Some(info) if info.is_flips => flips.curve(),
        Some(info) => info.curve,
        None => CurveKind::Linear,
    }
}

/// The cells that are there, in the order of the plan.
fn series<'a>(plan: &Plan, units: &'a [Unit], records: &[RunRecord]) -> Result<Vec<Series<'a>>, StudyError> {
    let recorded = RecordedCells::new(records);
    let mut all: BTreeMap<(usize, usize, usize, u64), Series> = BTreeMap::new();
    for unit in units.iter().filter(|unit| unit.analysis.is_none()) {
        let Some(found) = recorded.of(unit)? else {
            continue;
        };
        let place = (unit.model, unit.protocol, unit.calibration, unit.seed);
        if let Entry::Vacant(free) = all.entry(place) {
            let series = Series {
                cells: Vec::new(),
                calibration: recorded.calibration_of(&found)?,
                model: found.record.protocol.get("model").cloned().unwrap_or_default(),
                flips: flips(found.record)?,
                seed: unit.seed,
                variant: unit.protocol,
                name: format!("{} {}", plan.models[unit.model].name, plan.protocols[unit.protocol].name),
            };
            free.insert(series);
        }
        if let Some(series) = all.get_mut(&place) {
            series.cells.push((unit, found.record.key.clone(), found.cell));
        }
    }
    Ok(all.into_values().collect())
}

/// How flips were counted, which may depend on the network.
fn flips(record: &RunRecord) -> Result<FlipProtocol, StudyError> {
    let flips = record.protocol.get("flips").cloned().unwrap_or_default();
    let flips = serde_json::from_value(flips);
    Ok(flips.map_err(|source| flipcast_run::RunError::Record { key: record.key.clone(), source })?)
}

/// A score and the curve it is given.
pub(crate) struct Fit<'a> {
    pub estimator: &'a str,
    pub curve: CurveKind,
}

impl Fit<'_> {
    /// Fits the calibration cells of `source` and tests on the cells of `target`.
    fn calibrated(
        &self,
        plan: &Plan,
        source: &Series,
        target: &Series,
    ) -> Result<Result<(Protocol, Value), String>, StudyError> {
        let tested = target.points(plan, self.estimator, RefitGroup::Dataset);
        let errors = match self.errors(&source.calibration_points(self.estimator), &tested) {
            Ok(errors) => errors,
            Err(problem) => return Ok(Err(self.skipped(target, &problem))),
        };
        let protocol = self.protocol("refit", plan, target)?;
        let result = json!(self.refit(None, tested.len(), &errors));
        Ok(Ok((protocol, result)))
    }

    /// The same between two models.
    fn transferred(
        &self,
        plan: &Plan,
        source: &Series,
        target: &Series,
    ) -> Result<Result<(Protocol, Value), String>, StudyError> {
        let tested = target.points(plan, self.estimator, RefitGroup::Dataset);
        let errors = match self.errors(&source.calibration_points(self.estimator), &tested) {
            Ok(errors) => errors,
            Err(problem) => return Ok(Err(self.skipped(target, &problem))),
        };
        let protocol = self.protocol("transfer", plan, target)?.with("from", &source.model)?;
        let name = |series: &Series| {
            let name = series.model.get("name").and_then(Value::as_str);
            name.unwrap_or_default().to_owned()
        };
        let result = json!(Transfer {
            from: name(source),
            to: name(target),
            estimator: self.estimator.to_owned(),
            curve: self.curve,
            mae: errors.mae,
            worst: errors.worst,
            cells: tested.len(),
        });
        Ok(Ok((protocol, result)))
    }

    pub(crate) fn errors(&self, fitted: &[Point], tested: &[Point]) -> Result<Errors, String> {
        if tested.is_empty() {
            return Err("no cell with a known accuracy has this score".to_owned());
        }
        let info = score_info(self.estimator);
        let direction = info.map_or(Direction::Increasing, |info| info.direction);
        let x: Vec<f64> = fitted.iter().map(|p| p.score).collect();
        let y: Vec<f64> = fitted.iter().map(|p| p.accuracy).collect();
        let curve = fit_curve(self.curve, &x, &y, direction).map_err(|error| error.to_string())?;
        let mut groups: BTreeMap<&str, (f64, usize)> = BTreeMap::new();
        let mut worst = 0.0f64;
        for point in tested {
            let error = (curve.predict(point.score).value - point.accuracy).abs();
            worst = worst.max(error);
            let (sum, count) = groups.entry(point.group.as_str()).or_default();
            *sum += error;
            *count += 1;
        }
        // Rows count alike, as in the paper's tables, whatever their number of splits.
        let means = groups.values().map(|(sum, n)| sum / *n as f64);
        let mae = means.sum::<f64>() / groups.len() as f64;
        Ok(Errors { mae, worst })
    }

    fn protocol(&self, kind: &str, plan: &Plan, series: &Series) -> Result<Protocol, StudyError> {
        let mut keys: Vec<&str> = series.cells.iter().map(|(_, key, _)| key.as_str()).collect();
        keys.sort_unstable();
        let images: usize = series.cells.iter().map(|(.., cell)| cell.images).sum();
        let cells = Protocol::new("cells").with("cells", &keys)?.key();
        Ok(Protocol::new(kind)
            .with("version", &REFIT_VERSION)?
            .with("model", &series.model)?
            .with("data", &plan.study.name)?
            .with("images", &images)?
            .with("seed", &series.seed)?
            .with("flips", &series.flips)?
            .with("cells", &cells)?
            .with("estimator", &self.estimator)?
            .with("curve", &self.curve)?)
    }

    fn refit(&self, draw: Option<usize>, cells: usize, errors: &Errors) -> Refit {
        let Errors { mae, worst } = *errors;
        Refit { draw, cells, estimator: self.estimator.to_owned(), curve: self.curve, mae, worst }
    }

    fn skipped(&self, series: &Series, problem: &str) -> String {
        format!("{} of {}: {problem}", self.estimator, series.name)
    }
}

/// Mean absolute and largest error, as fractions.
pub(crate) struct Errors {
    pub mae: f64,
    pub worst: f64,
}

/// Fits to groups drawn at random and tests on the others.
fn subsets(
    plan: &Plan,
    entry: &RefitEntry,
    series: &Series,
    results: &mut Vec<(Protocol, Value)>,
    skipped: &mut Vec<String>,
) -> Result<(), StudyError> {
    let RefitEntry::Subsets { draws, groups: wanted, by, estimators, curve } = entry else {
        return Ok(());
    };
    for estimator in estimators {
        let curve = curve.unwrap_or_else(|| usual(estimator, &series.flips));
        let fit = Fit { estimator, curve };
        let points = series.points(plan, estimator, *by);
        let mut groups: Vec<&str> = points.iter().map(|p| p.group.as_str()).collect();
        groups.sort_unstable();
        groups.dedup();
        if groups.len() <= *wanted {
            let problem = format!("there are {} groups, expected more than the {wanted} to fit to", groups.len());
            skipped.push(fit.skipped(series, &problem));
            continue;
        }
        let Some(draws) = draws else {
            let every = EverySubset { fit: &fit, groups: *wanted };
            match every.errors(&points) {
                Ok(errors) => {
                    let protocol = fit.protocol("subsets", plan, series)?.with("groups", wanted)?.with("by", by)?;
                    results.push((protocol, json!(errors)));
                }
                Err(problem) => skipped.push(fit.skipped(series, &problem)),
            }
            continue;
        };
        for draw in 0..*draws {
            let order = Order::Shuffled { seed: draw as u64 }.indices(groups.len());
            let drawn: Vec<&str> = order.iter().take(*wanted).map(|&i| groups[i]).collect();
            let is_drawn = |point: &&Point| drawn.contains(&point.group.as_str());
            let (fitted, tested): (Vec<&Point>, Vec<&Point>) = points.iter().partition(is_drawn);
            let own = |points: Vec<&Point>| points.into_iter().cloned().collect::<Vec<_>>();
            let (fitted, tested) = (own(fitted), own(tested));
            let errors = match fit.errors(&fitted, &tested) {
                Ok(errors) => errors,
                Err(problem) => {
                    skipped.push(fit.skipped(series, &format!("draw {draw}: {problem}")));
                    continue;
                }
            };
            let protocol =
                fit.protocol("refit", plan, series)?.with("draw", &draw)?.with("groups", &drawn)?.with("by", by)?;
            results.push((protocol, json!(fit.refit(Some(draw), tested.len(), &errors))));
        }
    }
    Ok(())
}

impl Series<'_> {
    /// The cells whose accuracy and score are known.
    fn points(&self, plan: &Plan, estimator: &str, by: RefitGroup) -> Vec<Point> {
        let point = |(unit, _, cell): &(&Unit, String, Cell)| {
            Some(Point {
                group: match by {
                    RefitGroup::Dataset => plan.datasets[unit.dataset].name.clone(),
                    RefitGroup::Corruption => unit.group.clone(),
                },
                score: cell.source.get(estimator)?.value,
                accuracy: cell.accuracy?,
                is_clean: unit.data.corruption.is_none(),
            })
        };
        self.cells.iter().filter_map(point).collect()
    }

    fn calibration_points(&self, estimator: &str) -> Vec<Point> {
        let point = |(place, cell): (usize, &CalibrationCell)| {
            Some(Point {
                group: cell.group.clone(),
                score: cell.cell.source.get(estimator)?.value,
                accuracy: cell.cell.accuracy?,
                is_clean: place == 0,
            })
        };
        self.calibration.iter().enumerate().filter_map(point).collect()
    }
}
