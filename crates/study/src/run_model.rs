//! The calibrations and cells of one model.

use crate::estimates::{calibration_protocol, estimates_protocol};
use crate::progress::Within;
use crate::shard::start_of;
use crate::unit::least;
use crate::{CalibrationEntry, DataRef, Failure, StudyError, StudyJob, StudyWatcher, Unit};
use flipcast_ground::with_causes;
use flipcast_images::dataset::Dataset;
use flipcast_models::Model;
use flipcast_record::Protocol;
use flipcast_run::open::{OpenError, OpenedData};
use flipcast_run::{
    Basis, Calibration, CalibrationJob, CalibrationShift, Cell, CellEstimates, CellJob, CellRequest, CleanImages,
    Device, EstimatesResult, FlipProtocol, ImageMemory, Ledger, PaperFit, RunError, Samples, ScoreOptions, Setting,
    calibrate, cell_protocol, clean_cell, in_flight, share_out,
};
use serde_json::Value;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// One model at work.
pub(crate) struct ModelRun<'a> {
    pub job: &'a StudyJob<'a>,
    pub model: &'a Model,
    pub ledger: &'a Ledger,
    pub watcher: &'a dyn StudyWatcher,
    pub failed: &'a Mutex<Vec<Failure>>,
    /// Images that cells of one dataset share.
    pub clean: CleanImages,
    pub opened: Mutex<Vec<Opened>>,
}

/// A dataset that was opened, by what was asked for, corruption aside, and the seed.
pub(crate) type Opened = (DataRef, u64, Weak<dyn Dataset>);

/// A calibration, and where it has got to.
pub(crate) struct Task<'a> {
    entry: &'a CalibrationEntry,
    flips: FlipProtocol,
    seed: u64,
    place: (usize, usize, u64),
    name: String,
    clean: Option<OpenedData>,
    pub shifts: Vec<CalibrationShift>,
    state: Mutex<State>,
}

#[derive(Clone)]
pub(crate) enum State {
    /// Nothing is known yet.
    New,
    /// What the clean images teach.
    Based(Arc<Basis>),
    /// All is known, under this key.
    Made(Arc<Calibration>, String),
    /// The paper's fit needs nothing.
    Published,
    /// It cannot be made.
    Failed(String),
}

/// What went wrong: with a cell, or with the study as a whole.
pub(crate) enum Trouble {
    Cell(String),
    Study(StudyError),
}

impl Trouble {
    /// What went wrong, causes included.
    fn problem(&self) -> String {
        match self {
            Self::Cell(problem) => problem.clone(),
            Self::Study(error) => with_causes(error),
        }
    }
}

impl From<RunError> for Trouble {
    fn from(error: RunError) -> Self {
        match error {
            RunError::Store(_) => Self::Study(error.into()),
            error => Self::Cell(with_causes(&error)),
        }
    }
}

impl From<StudyError> for Trouble {
    fn from(error: StudyError) -> Self {
        Self::Study(error)
    }
}

impl From<OpenError> for Trouble {
    fn from(error: OpenError) -> Self {
        Self::Cell(with_causes(&error))
    }
}

impl ModelRun<'_> {
    /// Makes `units`. Calibrations come first: their clean cells, then the corrupted ones, then the fits.
    pub(crate) fn run(&self, units: &[&Unit]) -> Result<(), StudyError> {
        let workers = self.job.workers;
        let tasks = self.tasks(units)?;
        self.for_each(&tasks, |device, task| {
            self.settle(task, || {
                self.ledger.refresh()?;
                Ok(match self.calibration_job(task, device) {
                    None => State::Published,
                    Some(job) => State::Based(Arc::new(self.clean(task, &job)?)),
                })
            })
        })?;
        let based = tasks.iter().filter_map(|task| match &*task.state() {
            State::Based(basis) => Some((task, Arc::clone(basis))),
            _ => None,
        });
        let based: Vec<(&Task, Arc<Basis>)> = based.collect();
        let mut cells = Vec::new();
        for (task, basis) in &based {
            cells.extend(self.shifted_cells(task, basis)?);
        }
        // Shards that start at different places seldom want the same cell at once.
        let start = start_of(self.job.shard, cells.len());
        cells.rotate_left(start);
        share_out(workers, &cells, |device, queue| self.make_shifted(device, queue))?;
        self.for_each(&tasks, |device, task| self.settle(task, || self.fit(task, device)))?;
        let (analyses, estimates): (Vec<&Unit>, Vec<&Unit>) = units.iter().partition(|unit| unit.analysis.is_some());
        let mut to_estimate = Vec::new();
        for unit in estimates {
            let task = tasks.iter().find(|task| task.place == place(unit));
            to_estimate.push((unit, task.expect("every unit's calibration is among the tasks")));
        }
        share_out(workers, &to_estimate, |device, queue| self.make_estimates(device, queue))?;
        self.for_each(&analyses, |device, unit| {
            let title = unit.title(self.job.plan);
            let number = unit.analysis.expect("these are analyses");
            let made = self.analysis(unit, &self.job.plan.analyses[number], device, &title);
            self.note(unit, title, made)
        })
    }

    /// Does `work` on every item, each begun in the order of the list by the next worker that is free.
    fn for_each<T: Sync>(
        &self,
        items: &[T],
        work: impl Fn(Device, &T) -> Result<(), StudyError> + Sync,
    ) -> Result<(), StudyError> {
        share_out(self.job.workers, items, |device, mut queue| queue.try_for_each(|item| work(device, item)))
    }

    /// Lists a unit that could not be made.
    fn note(&self, unit: &Unit, title: String, made: Result<(), Trouble>) -> Result<(), StudyError> {
        match made {
            Ok(()) => Ok(()),
            Err(Trouble::Study(error)) => Err(error),
            Err(Trouble::Cell(problem)) => {
                self.watcher.failed(&title, &problem);
                lock(self.failed).push(Failure { unit: unit.key.clone(), title, problem });
                Ok(())
            }
        }
    }

    /// The calibrations of `units`, their images opened.
    fn tasks(&self, units: &[&Unit]) -> Result<Vec<Task<'_>>, StudyError> {
        let plan = self.job.plan;
        let mut tasks: Vec<Task> = Vec::new();
        for unit in units.iter().filter(|unit| unit.analysis.is_none()) {
            if tasks.iter().any(|task| task.place == place(unit)) {
                continue;
            }
            let entry = &plan.calibrations[unit.calibration];
            let protocol = &plan.protocols[unit.protocol];
            let (flips, problem) = match protocol.resolve_for(self.model.graph(), unit.seed) {
                Ok(flips) => (flips, None),
                Err(error) => (protocol.resolve(unit.seed)?, Some(with_causes(&error))),
            };
            let mut task = Task {
                entry,
                flips,
                seed: unit.seed,
                place: place(unit),
                name: String::new(),
                clean: None,
                shifts: entry.shifts()?,
                state: Mutex::new(State::New),
            };
            if let Err(problem) = problem.map_or_else(|| self.open(&mut task), Err) {
                task.state = Mutex::new(State::Failed(problem));
            }
            tasks.push(task);
        }
        Ok(tasks)
    }

    fn open(&self, task: &mut Task) -> Result<(), String> {
        let entry = task.entry;
        if let Some(fit) = entry.published.as_deref().and_then(PaperFit::find) {
            fit.check(self.model).map_err(|error| with_causes(&error))?;
        }
        let Some(data) = entry.data_ref(least(entry.limit, self.job.limit)) else {
            return Ok(());
        };
        let (name, images) = self.images(&data, task.seed).map_err(|trouble| trouble.problem())?;
        (task.name, task.clean) = (name, Some(images));
        Ok(())
    }

    /// Images, and what records call them.
    pub(crate) fn images(&self, data: &DataRef, seed: u64) -> Result<(String, OpenedData), Trouble> {
        let expanded = self.job.variables.expand(&data.template);
        let path = expanded.map_err(|name| Trouble::Cell(format!("{name} has no value")))?;
        let spec = data.spec(&path);
        let mut images = data.request(&spec, seed).open(self.model)?;
        let name = match images.sample {
            Some(count) => data.sample_name(count, seed),
            None => data.name(),
        };
        images.config.on_bad_image = self.job.on_bad_image;
        images.config.threads = self.job.threads;
        images.dataset = self.shared(data, seed, images.dataset);
        Ok((name, images))
    }

    /// The dataset that another cell opened for the same images, if it is still in use, or else this one.
    fn shared(&self, data: &DataRef, seed: u64, dataset: Arc<dyn Dataset>) -> Arc<dyn Dataset> {
        let data = DataRef { corruption: None, ..data.clone() };
        let mut opened = lock(&self.opened);
        opened.retain(|(.., dataset)| dataset.strong_count() > 0);
        let is_it = |(of, with, _): &&Opened| (of, *with) == (&data, seed);
        if let Some(earlier) = opened.iter().find(is_it).and_then(|one| one.2.upgrade()) {
            return earlier;
        }
        opened.push((data, seed, Arc::downgrade(&dataset)));
        dataset
    }

    fn setting<'b>(&'b self, task: &'b Task, device: Device) -> Setting<'b> {
        Setting { model: self.model, protocol: &task.flips, device }
    }

    pub(crate) fn request<'b>(&self, name: String, images: &'b OpenedData) -> CellRequest<'b> {
        CellRequest { data: name, memory_limit: self.memory_limit(), ..images.request() }
    }

    /// Bytes of images that one worker may keep.
    fn memory_limit(&self) -> usize {
        self.job.memory_limit / self.job.workers.len().max(1)
    }

    pub(crate) fn image_memory(&self) -> ImageMemory {
        ImageMemory::new(self.memory_limit())
    }

    /// How to calibrate; `None` where the paper's fit is all there is.
    pub(crate) fn calibration_job<'b>(&'b self, task: &'b Task, device: Device) -> Option<CalibrationJob<'b>> {
        let clean = task.clean.as_ref()?;
        Some(CalibrationJob {
            setting: self.setting(task, device),
            clean: self.request(task.name.clone(), clean),
            shifts: task.shifts.clone(),
            others: Vec::new(),
            options: ScoreOptions { marginal: task.entry.marginal.clone(), temperature: task.entry.temperature },
            storage: self.job.plan.study.storage,
        })
    }

    /// Moves a calibration on, unless it has failed already.
    pub(crate) fn settle(&self, task: &Task, work: impl FnOnce() -> Result<State, Trouble>) -> Result<(), StudyError> {
        if matches!(*task.state(), State::Failed(_)) {
            return Ok(());
        }
        let state = match work() {
            Ok(state) => state,
            Err(Trouble::Study(error)) => return Err(error),
            Err(Trouble::Cell(problem)) => State::Failed(problem),
        };
        let mut known = task.state();
        if !matches!(*known, State::Failed(_)) {
            *known = state;
        }
        Ok(())
    }

    fn clean(&self, task: &Task, job: &CalibrationJob) -> Result<Basis, Trouble> {
        let protocol = cell_protocol("calibrate", &job.setting, &job.clean, &job.options)?;
        let _claim = self.wait_for(&protocol)?;
        let is_known = self.is_known(&protocol)?;
        let mut within = self.within(&task.name);
        let mut ledger = self.ledger.clone();
        let clean = clean_cell(job, &self.clean, &mut ledger, &mut within)?;
        self.watcher.finished(&task.name, !is_known);
        Ok(clean.basis)
    }

    /// The fits, from cells that are all in the ledger; more cells are made where those do not reach far enough.
    fn fit(&self, task: &Task, device: Device) -> Result<State, Trouble> {
        let state = task.state().clone();
        let (State::Based(_), Some(job)) = (&state, self.calibration_job(task, device)) else {
            return Ok(state);
        };
        // Whoever comes first makes the cells that are still missing, and the fits; the others wait for its record.
        let clean = cell_protocol("calibrate", &job.setting, &job.clean, &job.options)?.with("fits", &true);
        let _claim = self.wait_for(&clean.map_err(StudyError::from)?)?;
        let protocol = calibration_protocol(&job)?;
        let key = protocol.key();
        let recorded = self.ledger.find::<Value>(&protocol)?;
        let is_known = recorded.is_some();
        if let Some(made) = recorded.and_then(made_by_this_version) {
            return Ok(State::Made(Arc::new(made), key));
        }
        let mut ledger = self.ledger.clone();
        let made = calibrate(&job, &mut ledger, &mut self.within(&task.name))?;
        if !is_known {
            let seconds = made.cells.iter().map(|cell| cell.cell.seconds.total());
            ledger.keep(protocol, &made, seconds.sum())?;
        }
        Ok(State::Made(Arc::new(made), key))
    }

    /// Makes units that are estimates: while the cell of one is observed, that of the next is prepared and the one before scored.
    fn make_estimates<'b>(
        &self,
        device: Device,
        queue: impl Iterator<Item = &'b (&'b Unit, &'b Task<'b>)> + Send,
    ) -> Result<(), StudyError> {
        let memory = self.image_memory();
        let made = in_flight(
            queue,
            |&(unit, task)| {
                let title = unit.title(self.job.plan);
                let prepared = self.unit_cell(unit, task, device).and_then(|cell| {
                    let prepared = cell.job(self).prepare(&self.clean, &memory, self.ledger)?;
                    Ok((cell, prepared))
                });
                Ok((unit, title, prepared))
            },
            |(unit, title, prepared)| {
                let observed = prepared.and_then(|(cell, prepared)| {
                    let observed = cell.job(self).observe(prepared, &mut self.within(&title))?;
                    Ok((cell, observed))
                });
                Ok((unit, title, observed))
            },
            |(unit, title, observed)| {
                let made = observed.and_then(|(cell, observed)| {
                    let scored = cell.job(self).score(observed, &mut self.ledger.clone())?;
                    self.keep_estimates(unit, &cell, &scored)?;
                    self.watcher.finished(&title, true);
                    Ok(())
                });
                self.note(unit, title, made)
            },
        );
        made.map(drop)
    }

    /// The cell of `unit`, its images opened.
    fn unit_cell<'b>(&self, unit: &Unit, task: &'b Task<'b>, device: Device) -> Result<UnitCell<'b>, Trouble> {
        let state = task.state().clone();
        if let State::Failed(problem) = &state {
            let name = &task.entry.name;
            return Err(Trouble::Cell(format!("its calibration `{name}` cannot be made: {problem}")));
        }
        let (name, images) = self.images(&unit.data, unit.seed)?;
        if let State::Made(calibration, _) = &state {
            let (found, expected) = (calibration.basis.reference.classes, images.scope.num_classes());
            if found != expected {
                return Err(RunError::OtherCalibration {
                    what: "a class space of",
                    found: format!("{found} classes"),
                    expected: format!("{expected} classes"),
                }
                .into());
            }
        }
        Ok(UnitCell { task, state, name, images, device })
    }

    /// Keeps what every fit of the unit's calibration makes of its cell.
    fn keep_estimates(&self, unit: &Unit, cell: &UnitCell, scored: &Cell) -> Result<(), Trouble> {
        let job = cell.job(self);
        let cell_key = job.protocol()?.key();
        let level = self.job.plan.study.level;
        let mut ledger = self.ledger.clone();
        let mut keep = |made_with: &str, estimates: CellEstimates, is_last: bool| -> Result<(), Trouble> {
            let mut protocol = self.estimates_protocol(unit, &job.setting, &job.request, made_with)?;
            let mut seconds = 0.0;
            let result = EstimatesResult::new(cell_key.clone(), scored, estimates);
            if is_last {
                // The unit's own record comes last: where it is, everything is.
                protocol = protocol.with("unit", &unit.key).map_err(StudyError::from)?;
                seconds = result.seconds.total();
            }
            if !self.is_known(&protocol)? {
                ledger.keep(protocol, &result, seconds)?;
            }
            Ok(())
        };
        let published = cell.task.entry.published.as_deref().and_then(PaperFit::find);
        let made = match &cell.state {
            State::Made(calibration, key) => Some((calibration, key)),
            _ => None,
        };
        if let Some(fit) = published {
            keep(fit.name, fit.estimate(scored, level)?, made.is_none())?;
        }
        if let Some((calibration, key)) = made {
            keep(key, calibration.estimate(scored, level), true)?;
        }
        Ok(())
    }

    fn estimates_protocol(
        &self,
        unit: &Unit,
        setting: &Setting,
        request: &CellRequest,
        calibration: &str,
    ) -> Result<Protocol, StudyError> {
        estimates_protocol(self.job.plan, unit, setting, request, calibration)
    }

    pub(crate) fn is_known(&self, protocol: &Protocol) -> Result<bool, RunError> {
        Ok(self.ledger.find::<Value>(protocol)?.is_some())
    }

    pub(crate) fn within<'b>(&'b self, name: &'b str) -> Within<'b> {
        Within { watcher: self.watcher, name }
    }
}

/// A unit's images and its calibration.
struct UnitCell<'a> {
    task: &'a Task<'a>,
    state: State,
    name: String,
    images: OpenedData,
    device: Device,
}

impl UnitCell<'_> {
    fn job<'b>(&'b self, run: &'b ModelRun) -> CellJob<'b> {
        let setting = run.setting(self.task, self.device);
        let request = run.request(self.name.clone(), &self.images);
        match &self.state {
            State::Made(calibration, _) => {
                let basis = Some(&calibration.basis);
                CellJob { setting, kind: "estimate", request, basis, samples: Samples::None }
            }
            // The paper's fit is all there is.
            _ => setting.published_job(request),
        }
    }
}

impl Task<'_> {
    pub fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

/// The calibration of a record, unless another version of the program made it, whose fits may be others.
fn made_by_this_version(recorded: Value) -> Option<Calibration> {
    let made: Calibration = serde_json::from_value(recorded).ok()?;
    (made.made_by == Calibration::MADE_BY).then_some(made)
}

/// What tells calibrations of one model apart.
fn place(unit: &Unit) -> (usize, usize, u64) {
    (unit.calibration, unit.protocol, unit.seed)
}

pub(crate) fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
