use super::expectation::{Expectation, ExpectedGradient};
use super::report::{Failure, SuiteReport, exceeds};
use super::subject::Subject;
use crate::{Case, Crossing, GradientError, ReferenceNorm, cases, crossing_taps, relative_l2};
use flipcast_tensor::Batch;
use std::sync::OnceLock;

/// A parameter tensor whose gradient is smaller than this share of the whole is judged as if it were that large:
/// where batch statistics cancel a shift, the true gradient is zero and only rounding is left.
const SMALL_SHARE: f64 = 0.05;

/// How far a subject may be from the reference, in relative L2 norm.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SuiteTolerance {
    /// Of the logits.
    pub logits: f64,
    /// Of the affine gradient as a whole.
    pub gradient: f64,
    /// Of each parameter tensor's share of it.
    pub parameter: f64,
    /// How near to a kink a value lies that rounding may move across it, as a share of the root mean square. A gradient
    /// beyond its bound is excused if the subject shows such crossings and no others.
    pub kink: f64,
}

impl Default for SuiteTolerance {
    /// For `f32` executors.
    fn default() -> Self {
        Self { logits: 1e-5, gradient: 1e-3, parameter: 1e-3, kink: 0.0 }
    }
}

/// Cases with what the reference says about them, computed when first needed and kept.
pub struct Suite {
    entries: Vec<Entry>,
}

struct Entry {
    case: Case,
    batch: OnceLock<Batch>,
    expectations: Vec<(ReferenceNorm, OnceLock<Result<Expectation, GradientError>>)>,
}

/// Runs all named cases through `subject`.
pub fn run_suite(subject: &mut dyn Subject, tolerance: SuiteTolerance) -> SuiteReport {
    Suite::of(cases()).run(subject, tolerance)
}

impl Suite {
    /// A suite of these cases.
    pub fn of(cases: Vec<Case>) -> Self {
        let entries = cases.into_iter().map(|case| Entry {
            expectations: case.modes().into_iter().map(|mode| (mode, OnceLock::new())).collect(),
            batch: OnceLock::new(),
            case,
        });
        Self { entries: entries.collect() }
    }

    /// Compares `subject` with the reference in every case and mode.
    pub fn run(&self, subject: &mut dyn Subject, tolerance: SuiteTolerance) -> SuiteReport {
        let mut report = SuiteReport::default();
        for Entry { case, batch, expectations } in &self.entries {
            if let Some(reason) = subject.unsupported(case) {
                report.unsupported.push((case.name.clone(), reason));
                continue;
            }
            let batch = batch.get_or_init(|| case.batch());
            for (mode, expectation) in expectations {
                let found = expectation.get_or_init(|| Expectation::of(case, batch, *mode));
                let mut comparison = Comparison { case, mode: *mode, tolerance, report: &mut report };
                match found {
                    Ok(expectation) => comparison.run(subject, batch, expectation),
                    Err(error) => comparison.fail(format!("the reference failed: {error}")),
                }
            }
        }
        report
    }
}

/// One case in one mode.
struct Comparison<'a> {
    case: &'a Case,
    mode: ReferenceNorm,
    tolerance: SuiteTolerance,
    report: &'a mut SuiteReport,
}

impl Comparison<'_> {
    fn run(&mut self, subject: &mut dyn Subject, batch: &Batch, expectation: &Expectation) {
        self.report.runs += 1;
        let logits = subject.forward(self.case, batch, self.mode);
        self.compare_logits(&logits, &expectation.logits);
        for expected in &expectation.gradients {
            let start = &expected.logit_gradient;
            let gradient = subject.gradient(self.case, batch, self.mode, start);
            let complaints = self.compare_gradient(&gradient, expected);
            if complaints.is_empty() {
                continue;
            }
            match self.excuse(subject, batch) {
                Some(excuse) => {
                    let report = format!("{}; {excuse}", complaints.join("; "));
                    let excused = self.failure(report);
                    self.report.excused.push(excused);
                }
                None => complaints.into_iter().for_each(|text| self.fail(text)),
            }
        }
    }

    /// The crossings that explain a gradient, if there are any and all of them are near.
    fn excuse(&self, subject: &mut dyn Subject, batch: &Batch) -> Option<String> {
        let nodes = crossing_taps(&self.case.graph);
        let values = subject.values(self.case, batch, self.mode, &nodes)?;
        let reference = self.case.reference();
        let run = reference.forward(batch, self.mode, &reference.affine()).ok()?;
        let found = run.crossings(|name| {
            let at = nodes.iter().position(|node| node == name);
            at.map(|at| values[at].clone()).ok_or(())
        });
        let found = found.ok()?;
        let near = |crossing: &Crossing| crossing.relative <= self.tolerance.kink;
        let first = found.first()?;
        let others = found.len() - 1;
        found.iter().all(near).then(|| format!("{first}, and {others} others"))
    }

    fn compare_logits(&mut self, found: &[f32], expected: &[f64]) {
        if found.len() != expected.len() {
            self.fail(format!("found {} logits, expected {}", found.len(), expected.len()));
            return;
        }
        let found = widen(found);
        let error = relative_l2(&found, expected);
        let at = self.place();
        self.report.worst_logits.see(error, || at);
        let bound = self.tolerance.logits;
        if exceeds(error, bound) {
            let worst = worst_element(&found, expected, |i| i.to_string());
            self.fail(format!("logits: relative L2 error {error:.3e}, bound {bound:.0e}; {worst}"));
        }
    }

    /// What is wrong with a gradient, if anything.
    fn compare_gradient(&mut self, found: &[f32], expected: &ExpectedGradient) -> Vec<String> {
        let table = self.case.graph.affine_table();
        if found.len() != table.len() {
            let (found, expected) = (found.len(), table.len());
            return vec![format!("found a gradient of {found} elements, expected {expected}")];
        }
        let mut complaints = Vec::new();
        let coordinates = &expected.affine.coordinates;
        let found: Vec<f64> = coordinates.iter().map(|&i| f64::from(found[i])).collect();
        let values = &expected.affine.values;
        let error = relative_l2(&found, values);
        let at = self.place();
        self.report.worst_gradient.see(error, || at.clone());
        let bound = self.tolerance.gradient;
        if exceeds(error, bound) {
            let worst = worst_element(&found, values, |i| {
                let names = table.names();
                let at = coordinates[i];
                let owner = names.filter(|(_, range)| range.contains(&at));
                owner.map(|(name, range)| format!("{name}[{}]", at - range.start)).collect()
            });
            complaints.push(format!(
                "gradient of {}: relative L2 error {error:.3e}, bound {bound:.0e}; {worst}",
                expected.loss
            ));
        }
        let floor = SMALL_SHARE * norm(values);
        for (name, range) in table.names() {
            let start = coordinates.partition_point(|&i| i < range.start);
            let end = coordinates.partition_point(|&i| i < range.end);
            let difference: Vec<f64> = found[start..end].iter().zip(&values[start..end]).map(|(a, b)| a - b).collect();
            let scale = norm(&values[start..end]).max(floor);
            let error = if scale > 0.0 { norm(&difference) / scale } else { norm(&difference) };
            let worst = &mut self.report.worst_parameter;
            worst.see(error, || format!("{at}, `{name}`"));
            let bound = self.tolerance.parameter;
            if exceeds(error, bound) {
                complaints.push(format!(
                    "gradient of {} for `{name}`: relative L2 error {error:.3e}, bound {bound:.0e}",
                    expected.loss
                ));
            }
        }
        complaints
    }

    fn place(&self) -> String {
        format!("{} ({:?})", self.case.name, self.mode)
    }

    fn failure(&self, report: String) -> Failure {
        Failure { case: self.case.name.clone(), mode: self.mode, report }
    }

    fn fail(&mut self, report: String) {
        let failure = self.failure(report);
        self.report.failures.push(failure);
    }
}

fn widen(values: &[f32]) -> Vec<f64> {
    values.iter().map(|&v| f64::from(v)).collect()
}

fn norm(values: &[f64]) -> f64 {
    values.iter().map(|v| v * v).sum::<f64>().sqrt()
}

/// The element that is furthest off; a NaN is further than anything.
fn worst_element(found: &[f64], expected: &[f64], name: impl Fn(usize) -> String) -> String {
    let distance = |i: usize| {
        let distance = (found[i] - expected[i]).abs();
        if distance.is_nan() { f64::INFINITY } else { distance }
    };
    let worst = (0..found.len()).max_by(|&a, &b| distance(a).total_cmp(&distance(b)));
    worst.map_or(String::new(), |i| format!("worst at {}: found {:e}, expected {:e}", name(i), found[i], expected[i]))
}

#[cfg(test)]
mod tests;
