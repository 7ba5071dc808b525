//! A stream of outputs that is watched.

use crate::calibration::{Calibration, outputs};
use crate::error::raise;
use flipcast::run::monitor::{Monitor as Inner, MonitorBasis, MonitorConfig, MonitorError};
use pyo3::prelude::*;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Watches the outputs of a classifier as they come: accuracy by windows of images and of time, and alarms when the stream changes.
///
/// `monitor.update(logits)` takes a batch, `monitor.report()` says what is known. States of several monitors of one classifier can be merged, saved and loaded.
#[pyclass(frozen, module = "flipcast")]
pub struct Monitor {
    basis: Arc<MonitorBasis>,
    inner: Mutex<Inner>,
}

#[pymethods]
impl Monitor {
    /// Watches a classifier that `calibration` belongs to. `window_images` (a multiple of 64) and `window_seconds` say how long windows are; `false_alarms` is the probability of any
    /// false alarm in a stream that never changes; `accuracy_line` raises an alarm when the accuracy is probably below it.
    #[new]
    #[pyo3(signature = (calibration, *, window_images=512, window_seconds=3600, level=0.9, false_alarms=0.01, accuracy_line=None, seed=0))]
    #[expect(clippy::too_many_arguments, reason = "Python names them")]
    fn new(
        py: Python<'_>,
        calibration: &Calibration,
        window_images: usize,
        window_seconds: u64,
        level: f64,
        false_alarms: f64,
        accuracy_line: Option<f64>,
        seed: u64,
    ) -> PyResult<Self> {
        let config = MonitorConfig {
            window_images,
            window_seconds,
            level,
            false_alarms,
            accuracy_line,
            seed,
            ..MonitorConfig::default()
        };
        Self::make(calibration, |basis| Inner::new(basis, config)).map_err(|error| raise(py, &error))
    }

    /// Takes the logits of the next images, `[images, classes]`, and of a second look at them, if the calibration has one. `time` is in seconds since 1970, now if not given.
    /// Gives the numbers of the images, first and one past the last.
    #[pyo3(signature = (logits, *, second=None, time=None))]
    fn update(
        &self,
        py: Python<'_>,
        logits: &Bound<'_, PyAny>,
        second: Option<&Bound<'_, PyAny>>,
        time: Option<f64>,
    ) -> PyResult<(u64, u64)> {
        let time = match time {
            Some(time) => time,
            None => py.import("time")?.call_method0("time")?.extract()?,
        };
        let first = outputs(logits, "logits")?;
        let second = second.map(|second| outputs(second, "the second look")).transpose()?;
        let updated = py.detach(|| -> Result<_, MonitorError> {
            let mut monitor = self.lock();
            let images = monitor.update(&first, time)?;
            if let Some(second) = second {
                let numbers: Vec<u64> = images.clone().collect();
                monitor.look_again(&numbers, &second)?;
            }
            Ok((images.start, images.end))
        });
        updated.map_err(|error| raise(py, &error))
    }

    /// What is known now, as plain dictionaries and lists: images, windows, tests and alarms.
    fn report<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let report = py.detach(|| self.lock().report()).map_err(|error| raise(py, &error))?;
        to_python(py, &report)
    }

    /// All alarms, oldest first.
    #[getter]
    fn alarms<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let alarms = self.lock().alarms().to_vec();
        to_python(py, &alarms)
    }

    /// Images so far.
    #[getter]
    fn images(&self) -> u64 {
        self.lock().state().images()
    }

    /// Takes back all alarms: tests begin again.
    fn reset(&self) {
        self.lock().reset();
    }

    /// Adds what another monitor of the same classifier has seen.
    fn merge(&self, py: Python<'_>, other: &Self) -> PyResult<()> {
        // A copy, since a monitor may be merged with itself.
        let other = other.lock().clone();
        py.detach(|| self.lock().merge(&other)).map_err(|error| raise(py, &error))
    }

    /// Writes the state, for `load`.
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        let text = self.lock().save().map_err(|error| raise(py, &error))?;
        flipcast::record::write_atomically(&path, text.as_bytes()).map_err(|error| raise(py, &error))
    }

    /// Goes on from a state that `save` wrote, with this monitor's settings.
    fn load(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        let text = std::fs::read_to_string(path)?;
        let mut monitor = self.lock();
        let config = monitor.config().clone();
        *monitor = Inner::load(Arc::clone(&self.basis), config, &text).map_err(|error| raise(py, &error))?;
        Ok(())
    }

    fn __repr__(&self) -> String {
        format!("Monitor({} images, {} alarms)", self.images(), self.lock().alarms().len())
    }
}

impl Monitor {
    fn make(
        calibration: &Calibration,
        monitor: impl FnOnce(Arc<MonitorBasis>) -> Result<Inner, MonitorError>,
    ) -> Result<Self, MonitorError> {
        let basis = Arc::new(MonitorBasis::from_outputs(&calibration.inner)?);
        Ok(Self { inner: Mutex::new(monitor(Arc::clone(&basis))?), basis })
    }

    /// An update that panicked leaves a state that `load` mends.
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A value as Python's dictionaries, lists and numbers.
fn to_python<'py>(py: Python<'py>, value: &impl serde::Serialize) -> PyResult<Bound<'py, PyAny>> {
    let text = serde_json::to_string(value).map_err(|error| raise(py, &error))?;
    py.import("json")?.call_method1("loads", (text,))
}
