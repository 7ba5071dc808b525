//! A stream of outputs that is watched.

use crate::calibration::{Calibration, outputs};
use crate::error::{raise, refuse};
use crate::images;
use crate::model::{Model, ModelCalibration, parse_device};
use crate::plain::to_python;
use flipcast::estimate::FLIP_BATCH;
use flipcast::run::monitor::{BatchLook, BatchLooks, Monitor as Inner, MonitorBasis, MonitorConfig, MonitorError};
use flipcast::run::{PooledNetwork, RunError, Scope};
use flipcast::{Batch, Device, Outputs, Purpose};
use pyo3::prelude::*;
use std::error::Error;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Watches the outputs of a classifier as they come: accuracy by windows of images and of time, and alarms when the stream changes.
///
/// `monitor.update(logits)` takes a batch, `monitor.report()` says what is known. With a network, `Monitor(model.calibrate(...), model=model)`, a batch is images, and both looks at
/// them are the network's own. States of several monitors of one classifier can be merged, saved and loaded.
///
/// >>> calibration = flipcast.Calibration.fit(logits, labels, cells={"fog:3": (foggy, labels), "night": (dark, labels)})
/// >>> monitor = flipcast.Monitor(calibration, window_images=128)
/// >>> monitor.update(new[:200]), monitor.update(new[200:])
/// ((0, 200), (200, 400))
/// >>> monitor.report()["images"]
/// 400
#[pyclass(frozen, module = "flipcast")]
pub struct Monitor {
    basis: Arc<MonitorBasis>,
    watched: Option<Watched>,
    inner: Mutex<Inner>,
}

/// What a network or a monitor refuses.
type WatchError = Box<dyn Error + Send + Sync>;

/// A calibration of outputs, or of a network.
#[derive(FromPyObject)]
enum AnyCalibration<'py> {
    Outputs(PyRef<'py, Calibration>),
    Model(PyRef<'py, ModelCalibration>),
}

/// The model whose images come.
struct Watched {
    model: Arc<flipcast::Model>,
    device: Device,
    /// Taken before the monitor wherever both are.
    network: Mutex<Network>,
}

/// The network, and what stands for a second look.
struct Network {
    source: PooledNetwork,
    /// With the statistics of the batch, where there are batch norms.
    second: Option<BatchLooks>,
    /// Whether the monitor asks for embeddings instead.
    embeds: bool,
    /// Values of the images since the last number that [`FLIP_BATCH`] divides, if all of them came by here.
    waiting: Vec<f32>,
}

impl Network {
    fn new(
        model: &flipcast::Model,
        calibration: &flipcast::Calibration,
        basis: &MonitorBasis,
        device: Device,
    ) -> Result<Self, RunError> {
        let preprocess = model.require_preprocess()?;
        calibration.check_fits(model, preprocess, &Scope::new(model.num_classes(), None))?;
        let source = device.network(model, Purpose::Predict, FLIP_BATCH)?;
        let second = BatchLooks::new(model, device, basis)?;
        let embeds = basis.embedding_dims().is_some();
        Ok(Self { source, second, embeds, waiting: Vec::new() })
    }

    /// Predicts images and, wherever a batch of the stream is complete, looks at it again. Gives the numbers of the images.
    fn watch(&mut self, batch: &Batch, time: f64, monitor: &mut Inner) -> Result<(u64, u64), WatchError> {
        let part = |images, values| {
            let extents = [images, batch.height(), batch.width(), batch.channels()];
            Batch::new(extents, values).expect("they are images of the batch")
        };
        let size = batch.height() * batch.width() * batch.channels();
        let first = monitor.state().images();
        let mut done = 0;
        while done < batch.images() {
            let place = (monitor.state().images() % FLIP_BATCH as u64) as usize;
            let images = (FLIP_BATCH - place).min(batch.images() - done);
            let values = &batch.values()[done * size..(done + images) * size];
            let logits = self.source.forward(&part(images, values.to_vec()))?;
            let outputs = Outputs::new(logits.values().to_vec(), logits.classes())?;
            let numbers = monitor.update(&outputs, time)?;
            if self.embeds {
                let embeddings = self.source.tap("embedding")?;
                let mut sum = vec![0.0f64; embeddings.values().len() / images];
                for row in embeddings.values().chunks_exact(sum.len().max(1)) {
                    sum.iter_mut().zip(row).for_each(|(sum, value)| *sum += f64::from(*value));
                }
                let sum: Vec<f32> = sum.into_iter().map(|value| value as f32).collect();
                monitor.add_embeddings(images as u64, &sum)?;
            }
            done += images;
            let Some(second) = &mut self.second else { continue };
            if place == 0 {
                self.waiting.clear();
            }
            self.waiting.extend_from_slice(values);
            if place + images == FLIP_BATCH && self.waiting.len() == FLIP_BATCH * size {
                let whole = part(FLIP_BATCH, std::mem::take(&mut self.waiting));
                let BatchLook { second, early } = second.look(&whole)?;
                let images: Vec<u64> = (numbers.end - FLIP_BATCH as u64..numbers.end).collect();
                if let Some(early) = early {
                    monitor.look_early(&images, &Outputs::new(early, outputs.classes())?)?;
                }
                monitor.look_again(&images, &Outputs::new(second, outputs.classes())?)?;
            }
        }
        Ok((first, monitor.state().images()))
    }
}

#[pymethods]
impl Monitor {
    /// Watches a classifier that `calibration` belongs to; one of a network needs the `model`, which runs on `device`. `window_images` (a multiple of 64) and `window_seconds` say how long windows are; `false_alarms` is the probability of any
    /// false alarm in a stream that never changes; `accuracy_line` raises an alarm when the accuracy is probably below it.
    #[new]
    #[pyo3(signature = (calibration, *, model=None, window_images=512, window_seconds=3600, level=0.9, false_alarms=0.01, accuracy_line=None, seed=0, device="cpu", precision="tf32", threads=0))]
    #[expect(clippy::too_many_arguments, reason = "Python names them")]
    fn new(
        py: Python<'_>,
        calibration: AnyCalibration<'_>,
        model: Option<&Model>,
        window_images: usize,
        window_seconds: u64,
        level: f64,
        false_alarms: f64,
        accuracy_line: Option<f64>,
        seed: u64,
        device: &str,
        precision: &str,
        threads: usize,
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
        let (basis, watched) = match (&calibration, model) {
            (AnyCalibration::Outputs(calibration), None) => {
                (MonitorBasis::from_outputs(&calibration.inner).map_err(|error| raise(py, &error))?, None)
            }
            (AnyCalibration::Model(calibration), Some(model)) => {
                let (model, device) = (Arc::clone(&model.inner), parse_device(py, device, precision, threads)?);
                let calibration = &calibration.inner;
                let basis = MonitorBasis::new(calibration, &model).map_err(|error| raise(py, &error))?;
                let network = py.detach(|| Network::new(&model, calibration, &basis, device));
                let network = Mutex::new(network.map_err(|error| raise(py, &error))?);
                (basis, Some(Watched { model, device, network }))
            }
            (AnyCalibration::Outputs(_), Some(_)) => {
                let hint = "leave `model` out and give logits to `update`, or calibrate by `model.calibrate`";
                return Err(refuse(py, "a model is given beside a calibration of outputs", hint));
            }
            (AnyCalibration::Model(_), None) => {
                let hint = "give `model=`, or calibrate from outputs by `Calibration.fit`";
                return Err(refuse(py, "the calibration belongs to a network, but no model is given", hint));
            }
        };
        let basis = Arc::new(basis);
        let inner = Inner::new(Arc::clone(&basis), config).map_err(|error| raise(py, &error))?;
        Ok(Self { basis, watched, inner: Mutex::new(inner) })
    }

    /// Takes the logits of the next images, `[images, classes]`, and of a second look at them, if the calibration has one; with a network the next images, bytes or preprocessed floats
    /// as an `Adapter` takes them. `time` is in seconds since 1970, now if not given. Gives the numbers of the images, first and one past the last.
    #[pyo3(signature = (batch, *, second=None, time=None))]
    fn update(
        &self,
        py: Python<'_>,
        batch: &Bound<'_, PyAny>,
        second: Option<&Bound<'_, PyAny>>,
        time: Option<f64>,
    ) -> PyResult<(u64, u64)> {
        let time = match time {
            Some(time) => time,
            None => py.import("time")?.call_method0("time")?.extract()?,
        };
        if let Some(Watched { model, device, network }) = &self.watched {
            if second.is_some() {
                let hint = "leave `second` out: the network looks twice itself";
                return Err(refuse(py, "a second look is given to a monitor with a network", hint));
            }
            let batch = images::batch(batch, model, *device)?;
            let updated = py.detach(|| {
                let mut network = network.lock().unwrap_or_else(PoisonError::into_inner);
                network.watch(&batch, time, &mut self.lock())
            });
            return updated.map_err(|error| raise(py, &*error));
        }
        let first = outputs(batch, "logits")?;
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
    /// An update that panicked leaves a state that `load` mends.
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
