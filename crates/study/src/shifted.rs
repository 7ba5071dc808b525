//! The corrupted cells of calibrations, which all shards of a study work through together.

use crate::StudyError;
use crate::run_model::{ModelRun, State, Task, lock};
use flipcast_record::{Claim, Protocol};
use flipcast_run::{Basis, CellJob, Device, RunError, in_flight};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Between two looks at what another shard makes.
const PAUSE: Duration = Duration::from_millis(100);

/// A corrupted cell of a calibration.
pub(crate) type ShiftedCell<'a> = (&'a Task<'a>, CellJob<'a>);

impl ModelRun<'_> {
    /// The corrupted cells of a calibration, on whichever device.
    pub(crate) fn shifted_cells<'b>(
        &'b self,
        task: &'b Task<'b>,
        basis: &'b Basis,
    ) -> Result<Vec<ShiftedCell<'b>>, StudyError> {
        let mut cells = Vec::new();
        for shift in &task.shifts {
            self.settle(task, || {
                if let Some(job) = self.calibration_job(task, self.job.workers[0]) {
                    cells.push((task, job.cell(job.shifted(shift)?, basis)));
                }
                Ok(task.state().clone())
            })?;
        }
        Ok(cells)
    }

    /// Makes corrupted cells of calibrations: first those that no other shard is at, then what is still missing of the others.
    pub(crate) fn make_shifted<'b>(
        &self,
        device: Device,
        queue: impl Iterator<Item = &'b ShiftedCell<'b>> + Send,
    ) -> Result<(), StudyError> {
        let others = Mutex::new(Vec::new());
        let free = queue.filter_map(|cell| {
            let claim = self.claim(cell);
            if claim.is_none() {
                lock(&others).push(cell);
            }
            Some((cell, claim?))
        });
        self.make_claimed(device, free)?;
        let others = others.into_inner().unwrap_or_else(PoisonError::into_inner);
        let waited = others.into_iter().map(|cell| (cell, self.wait_for_cell(cell)));
        self.make_claimed(device, waited)
    }

    /// Makes cells that this shard has claimed: while one is observed, the next is prepared and the one before is scored.
    fn make_claimed<'b>(
        &self,
        device: Device,
        cells: impl Iterator<Item = (&'b ShiftedCell<'b>, Result<Claim, RunError>)> + Send,
    ) -> Result<(), StudyError> {
        let memory = self.image_memory();
        let made = in_flight(
            cells.filter(|((task, _), _)| !matches!(*task.state(), State::Failed(_))),
            |((task, job), claim)| {
                self.ledger.refresh()?;
                let job = job.on(device);
                let prepared = claim.and_then(|claim| {
                    let prepared = job.prepare(&self.clean, &memory, self.ledger)?;
                    Ok((claim, prepared))
                });
                Ok((task, job, prepared))
            },
            |(task, job, prepared)| {
                let observed = prepared.and_then(|(claim, prepared)| {
                    let is_known = prepared.is_known();
                    Ok((claim, is_known, job.observe(prepared, &mut self.within(&job.request.data))?))
                });
                Ok((task, job, observed))
            },
            |(task, job, observed)| {
                self.settle(task, || {
                    let (_claim, is_known, observed) = observed?;
                    job.score(observed, &mut self.ledger.clone())?;
                    self.watcher.finished(&job.request.data, !is_known);
                    Ok(task.state().clone())
                })
            },
        );
        made.map(drop)
    }

    /// Claims a cell, unless another shard is at it.
    fn claim(&self, (_, job): &ShiftedCell) -> Option<Result<Claim, RunError>> {
        match job.protocol() {
            Ok(protocol) => self.ledger.claim(&protocol).map(Ok),
            Err(error) => Some(Err(error)),
        }
    }

    fn wait_for_cell(&self, (_, job): &ShiftedCell) -> Result<Claim, RunError> {
        self.wait_for(&job.protocol()?)
    }

    /// Claims what `protocol` defines; while another shard is at it, waits. A shard that ends, however it does, loses its claims.
    pub(crate) fn wait_for(&self, protocol: &Protocol) -> Result<Claim, RunError> {
        let claim = loop {
            match self.ledger.claim(protocol) {
                Some(claim) => break claim,
                None => std::thread::sleep(PAUSE),
            }
        };
        self.ledger.refresh()?;
        Ok(claim)
    }
}
