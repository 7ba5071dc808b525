//! A cell on its way: prepared, observed, scored.

use crate::basis::{Basis, ScoreOptions};
use crate::cell::{CellRequest, Observation, Samples, Setting};
use crate::clean_images::CleanImages;
use crate::image_memory::ImageMemory;
use crate::images::Images;
use crate::ledger::{Ledger, cell_protocol, scored_protocol};
use crate::pipeline::in_flight;
use crate::scores::score_without_basis;
use crate::share_out::share_out;
use crate::{Device, RunError, Watcher};
use flipcast_record::Protocol;
use flipcast_record::results::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

/// One cell to make. Its three stages may run on three threads, with other cells before and behind it ([`in_flight`](crate::in_flight)).
#[derive(Clone)]
pub struct CellJob<'a> {
    /// Model, protocol and device.
    pub setting: Setting<'a>,
    /// The kind of its record.
    pub kind: &'a str,
    /// Its images.
    pub request: CellRequest<'a>,
    /// What clean images taught; without it, the cell has only the scores that need nothing of the kind.
    pub basis: Option<&'a Basis>,
    /// Whether samples of it are drawn.
    pub samples: Samples,
}

/// A cell whose images are ready, or that is known already.
pub struct PreparedCell {
    protocol: Protocol,
    state: State<Images>,
}

/// A cell of which everything was seen, or that is known already.
pub struct ObservedCell {
    protocol: Protocol,
    state: State<Observation>,
}

/// A cell from the ledger, or what there is to make it from.
enum State<T> {
    Known(Box<Cell>),
    Made(T),
}

/// Makes cells on several devices at once and keeps them in `ledger`. Each device takes the next cell from one queue; while it observes one, the next is prepared and the one before
/// is scored. `memory_limit` is shared by all of them, and `watcher` makes one for every device.
///
/// # Errors
/// The first cell that cannot be made ends it.
pub fn make_cells<W: Watcher>(
    devices: &[Device],
    cells: &[CellJob],
    memory_limit: usize,
    ledger: &Ledger,
    watcher: impl Fn() -> W + Sync,
) -> Result<(), RunError> {
    let clean = CleanImages::default();
    let place = AtomicUsize::new(0);
    share_out(devices, cells, |device, queue| {
        let memory = ImageMemory::new(memory_limit / devices.len().max(1));
        let mut watcher = watcher();
        let made = in_flight(
            queue.map(|cell| cell.on(device)),
            |cell| {
                let prepared = cell.prepare(&clean, &memory, ledger)?;
                Ok((cell, prepared))
            },
            |(cell, prepared)| {
                watcher.cell(&cell.request.data, place.fetch_add(1, Ordering::Relaxed), cells.len());
                let observed = cell.observe(prepared, &mut watcher)?;
                Ok((cell, observed))
            },
            |(cell, observed)| cell.score(observed, &mut ledger.clone()).map(drop),
        );
        made.map(drop)
    })
}

impl CellJob<'_> {
    /// The same cell, made on `device`.
    pub fn on(&self, device: Device) -> Self {
        Self { setting: Setting { device, ..self.setting }, ..self.clone() }
    }

    /// What defines the numbers of the cell.
    pub fn protocol(&self) -> Result<Protocol, RunError> {
        match self.basis {
            Some(basis) => scored_protocol(self.kind, &self.setting, &self.request, basis),
            None => {
                let options = ScoreOptions::default();
                Ok(cell_protocol(self.kind, &self.setting, &self.request, &options)?.with("basis", &"none")?)
            }
        }
    }

    /// Finds the cell in `ledger`, or else reads and corrupts its images. `clean` are images that other cells may have read.
    pub fn prepare(
        &self,
        clean: &CleanImages,
        memory: &ImageMemory,
        ledger: &Ledger,
    ) -> Result<PreparedCell, RunError> {
        let protocol = self.protocol()?;
        let state = match ledger.find(&protocol)? {
            Some(cell) => State::Known(Box::new(cell)),
            None => State::Made(self.setting.open_images(&self.request, clean, memory)?),
        };
        Ok(PreparedCell { protocol, state })
    }

    /// Makes every pass of the network over the images of `prepared`, and lets them go.
    pub fn observe(&self, prepared: PreparedCell, watcher: &mut dyn Watcher) -> Result<ObservedCell, RunError> {
        let PreparedCell { protocol, state } = prepared;
        let state = match state {
            State::Known(cell) => State::Known(cell),
            State::Made(images) => {
                let mut seen = self.setting.observe_images(&images, self.request.scope, watcher)?;
                if let Some(basis) = self.basis {
                    seen.look_again(&images, &self.request, &self.setting, basis, self.samples)?;
                }
                State::Made(seen)
            }
        };
        Ok(ObservedCell { protocol, state })
    }

    /// Asks every estimator about what was `observed`. The cell is kept in `ledger` unless it came from there.
    pub fn score(&self, observed: ObservedCell, ledger: &mut Ledger) -> Result<Cell, RunError> {
        let mut seen = match observed.state {
            State::Known(cell) => return Ok(*cell),
            State::Made(seen) => seen,
        };
        let cell = match self.basis {
            Some(basis) => seen.score(&self.setting, self.request.scope, basis)?,
            None => seen.cell_of(self.request.scope, score_without_basis(&seen)?),
        };
        ledger.keep(observed.protocol, &cell, cell.seconds.total())?;
        Ok(cell)
    }

    /// All stages, one after the other.
    pub fn make(&self, clean: &CleanImages, ledger: &mut Ledger, watcher: &mut dyn Watcher) -> Result<Cell, RunError> {
        let memory = ImageMemory::new(self.request.memory_limit);
        let prepared = self.prepare(clean, &memory, ledger)?;
        self.score(self.observe(prepared, watcher)?, ledger)
    }
}

impl PreparedCell {
    /// Whether it was found in the ledger.
    pub fn is_known(&self) -> bool {
        matches!(self.state, State::Known(_))
    }
}
