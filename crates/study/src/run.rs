//! Making what a folder of records lacks.

use crate::estimates::done_units;
use crate::run_model::ModelRun;
use crate::{Missing, Plan, Shard, StudyError, StudyWatcher, Unit, Variables, find_missing};
use flipcast_ground::with_causes;
use flipcast_images::loader::OnBadImage;
use flipcast_run::analysis::{Analysis, ToyConfig};
use flipcast_run::{CleanImages, Device, Ledger, ModelIdentity, Unwatched};
use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

/// What to run, and how.
pub struct StudyJob<'a> {
    /// The plan.
    pub plan: &'a Plan,
    /// Its variables.
    pub variables: &'a Variables,
    /// The units to make; those of a shard, perhaps.
    pub units: &'a [Unit],
    /// The shard they belong to.
    pub shard: Shard,
    /// Use at most this many images of a calibration.
    pub limit: Option<usize>,
    /// One for every cell at once: where its network runs. They may be several GPUs, or one device several times.
    pub workers: &'a [Device],
    /// Bytes of images kept in memory by all cells together.
    pub memory_limit: usize,
    /// What happens when an image cannot be read.
    pub on_bad_image: OnBadImage,
    /// Threads that load the images of one cell.
    pub threads: usize,
}

/// A cell that could not be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Its unit's key.
    pub unit: String,
    /// What a reader calls it.
    pub title: String,
    /// Why, causes included.
    pub problem: String,
}

/// What became of the units.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Units that were already there.
    pub found: usize,
    /// Units that were made.
    pub made: usize,
    /// Units that could not be made.
    pub failed: Vec<Failure>,
    /// Units that wait for data.
    pub waiting: usize,
    /// What is not there.
    pub missing: Vec<Missing>,
}

/// Makes every unit of `job` that is not known to `ledger`, model by model: calibrations first, then cells and estimates. A cell
/// that cannot be made is listed and the others go on; what ends the run is a record that cannot be written.
pub fn run_study(job: &StudyJob, ledger: &Ledger, watcher: &dyn StudyWatcher) -> Result<Outcome, StudyError> {
    let device = match job.workers {
        [first, others @ ..] if others.iter().all(|other| other.records_like(first)) => *first,
        _ => return Err(StudyError::Workers { found: job.workers.to_vec() }),
    };
    let (lacking, missing) = find_missing(job.plan, job.units, job.variables);
    let present: Vec<&Unit> =
        job.units.iter().zip(&lacking).filter_map(|(unit, lacks)| (!lacks).then_some(unit)).collect();
    let cells = calibration_cells(job.plan, &calibrations(job.plan, &present))?;
    watcher.total(present.len() + cells);
    let mut outcome = Outcome { waiting: job.units.len() - present.len(), missing, ..Outcome::default() };
    for (number, entry) in job.plan.models.iter().enumerate() {
        let units: Vec<&Unit> = present.iter().copied().filter(|u| u.model == number).collect();
        if units.is_empty() {
            continue;
        }
        let opened = job
            .variables
            .expand(&entry.weights)
            .map_err(|name| format!("{name} has no value"))
            .and_then(|path| entry.request(&path).open().map_err(|error| with_causes(&error)));
        let model = match opened {
            Ok(model) => model,
            Err(problem) => {
                for unit in units {
                    let title = unit.title(job.plan);
                    watcher.failed(&title, &problem);
                    outcome.failed.push(Failure { unit: unit.key.clone(), title, problem: problem.clone() });
                }
                continue;
            }
        };
        ledger.refresh()?;
        let identity = ModelIdentity::of(&model);
        let done = done_units(&ledger.records(), &identity, device)?;
        let (known, pending): (Vec<&Unit>, Vec<&Unit>) = units.into_iter().partition(|unit| done.contains(&unit.key));
        for unit in &known {
            watcher.finished(&unit.title(job.plan), false);
        }
        let settled = &calibrations(job.plan, &known) - &calibrations(job.plan, &pending);
        for _ in 0..calibration_cells(job.plan, &settled)? {
            watcher.finished("calibration", false);
        }
        outcome.found += known.len();
        let failed = Mutex::new(Vec::new());
        ModelRun {
            job,
            model: &model,
            ledger,
            watcher,
            failed: &failed,
            clean: CleanImages::default(),
            opened: Mutex::default(),
        }
        .run(&pending)?;
        let failed = failed.into_inner().unwrap_or_else(PoisonError::into_inner);
        outcome.made += pending.len() - failed.len();
        outcome.failed.extend(failed);
    }
    if job.plan.study.toy {
        ToyConfig::default().recorded(&mut ledger.clone(), &mut Unwatched)?;
    }
    outcome.failed.sort_by(|a, b| a.title.cmp(&b.title));
    Ok(outcome)
}

/// A calibration of a model: model, protocol, calibration and seed.
type Calibrated = (usize, usize, usize, u64);

/// The calibrations of labelled images that these units need.
fn calibrations(plan: &Plan, units: &[&Unit]) -> BTreeSet<Calibrated> {
    let needed = units
        .iter()
        .filter(|unit| unit.analysis.is_none())
        .filter(|unit| plan.calibrations[unit.calibration].data.is_some())
        .map(|unit| (unit.model, unit.protocol, unit.calibration, unit.seed));
    needed.collect()
}

/// How many cells they have that are known beforehand: clean images, and every shift of theirs.
fn calibration_cells(plan: &Plan, calibrations: &BTreeSet<Calibrated>) -> Result<usize, StudyError> {
    let mut cells = 0;
    for (_, _, calibration, _) in calibrations {
        cells += 1 + plan.calibrations[*calibration].shifts()?.len();
    }
    Ok(cells)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ExpandOptions, expand};

    #[test]
    fn a_calibration_counts_as_many_cells_as_it_has_shifts_and_its_clean_images() {
        let plan = r#"
            [study]
            name = "counted"
            question = "?"
            [[models]]
            name = "a"
            weights = "a.pth"
            [[calibrations]]
            name = "held-out"
            data = "x#first-half:0"
            [[calibrations]]
            name = "own"
            data = "x#first-half:0"
            shifts = "fog:1,fog:3,snow:5"
            [[datasets]]
            name = "c"
            data = "x#second-half:0"
            corruptions = ["fog"]
        "#;
        let plan = Plan::parse(plan).unwrap();
        let units = expand(&plan, &ExpandOptions::default()).unwrap();
        let cells = |calibrations: &[usize]| {
            let units: Vec<&Unit> = units.iter().filter(|unit| calibrations.contains(&unit.calibration)).collect();
            calibration_cells(&plan, &super::calibrations(&plan, &units)).unwrap()
        };
        assert_eq!((cells(&[0]), cells(&[1]), cells(&[0, 1])), (21, 4, 25));
    }
}
