//! Long work: detached from the interpreter, watched by a callback, ended by Ctrl-C.

use crate::error::raise;
use flipcast::Watcher;
use pyo3::prelude::*;
use std::error::Error;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::{Duration, Instant};

/// Time between two looks at signals and calls of the callback.
const PAUSE: Duration = Duration::from_millis(50);

/// Tells a callback `(what, done, total)` how far work is, and looks for Ctrl-C.
struct Watch<'a> {
    progress: Option<&'a Py<PyAny>>,
    due: Instant,
    stopped: Option<PyErr>,
}

/// What unwinds work that was stopped; never seen outside of this file.
struct Stopped;

impl Watch<'_> {
    /// The library's loops cannot be told to end, so that they are unwound; what they keep on disk is written whole or not at all.
    fn look(&mut self, what: &str, done: usize, total: usize, is_due: bool) {
        if !is_due && Instant::now() < self.due {
            return;
        }
        self.due = Instant::now() + PAUSE;
        let told = Python::attach(|py| {
            py.check_signals()?;
            match self.progress {
                Some(progress) => progress.call1(py, (what, done, total)).map(drop),
                None => Ok(()),
            }
        });
        if let Err(error) = told {
            self.stopped = Some(error);
            resume_unwind(Box::new(Stopped));
        }
    }
}

impl Watcher for Watch<'_> {
    fn predicted(&mut self, images: usize, total: usize) {
        self.look("images", images, total, images == total);
    }

    fn step(&mut self, step: usize, total: usize) {
        self.look("steps", step, total, step == total);
    }

    fn cell(&mut self, name: &str, cell: usize, total: usize) {
        self.look(name, cell, total, true);
    }
}

/// Does `work` without the interpreter. `progress` is whatever `flipcast._progress.follow` takes.
pub fn watched<T: Send, E: Error + Send + 'static>(
    py: Python<'_>,
    progress: Option<&Py<PyAny>>,
    work: impl FnOnce(&mut dyn Watcher) -> Result<T, E> + Send,
) -> PyResult<T> {
    let follow = |progress: &Py<PyAny>| -> PyResult<(Py<PyAny>, Py<PyAny>)> {
        py.import("flipcast._progress")?.call_method1("follow", (progress,))?.extract()
    };
    let follower = progress.filter(|progress| !is_off(progress.bind(py))).map(follow).transpose()?;
    let told = follower.as_ref().map(|(tell, _)| tell);
    let mut watch = Watch { progress: told, due: Instant::now() + PAUSE, stopped: None };
    let outcome = py.detach(|| catch_unwind(AssertUnwindSafe(|| work(&mut watch))));
    let stopped = watch.stopped;
    if let Some((_, end)) = &follower {
        end.call0(py)?;
    }
    match (outcome, stopped) {
        (_, Some(error)) => Err(error),
        (Ok(result), None) => result.map_err(|error| raise(py, &error)),
        (Err(panic), None) => resume_unwind(panic),
    }
}

/// Whether progress is not wanted: `None` or `False`.
fn is_off(progress: &Bound<'_, PyAny>) -> bool {
    progress.is_none() || progress.extract::<bool>().is_ok_and(|wanted| !wanted)
}
