//! A network that adapts while it predicts.

use crate::array::{read, write};
use crate::error::{raise, refuse};
use crate::images;
use crate::model::{Model, parse_device};
use flipcast::adapt::{Guard, GuardConfig, GuardState, Norms, Observation, Target};
use flipcast::run::{PooledNetwork, RunError, pixel_space};
use flipcast::{Device, MethodConfig, Purpose};
use pyo3::exceptions::{PyRuntimeWarning, PyTypeError};
use pyo3::prelude::*;
use std::ffi::CString;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// A network that adapts to the batches it predicts: `logits = adapter(batch)`.
///
/// A batch is an array of bytes, `[images, height, width, 3]`, or of preprocessed floats, `[images, 3, height, width]`. A tensor on the adapter's own GPU (DLPack) is read where it lies if
/// it is of `float32`, whatever its strides, or of bytes that the weights take as they are; it must not be changed during the call. Logits are those from before the update
/// unless the method says otherwise. A warning is issued when predictions grow less diverse; with `source=True` the source model predicts too, as a witness that tells
/// a collapse from images of few classes.
///
/// >>> adapter = flipcast.Adapter(flipcast.Model.load(weights), "rdumb", batch_size=16)
/// >>> adapter(images[:16]).shape, adapter.steps
/// ((16, 10), 1)
/// >>> adapter.reset(); adapter.steps
/// 0
#[pyclass(frozen, module = "flipcast")]
pub struct Adapter {
    model: Arc<flipcast::Model>,
    method: MethodConfig,
    batch_size: usize,
    device: Device,
    state: Mutex<State>,
}

struct State {
    net: PooledNetwork,
    source: Option<PooledNetwork>,
    adapter: Box<dyn flipcast::Adapter + Send>,
    guard: Guard,
    seen: GuardState,
    steps: usize,
    seconds: f64,
}

#[pymethods]
impl Adapter {
    /// Adapts `model` by the method of this name, such as "rdumb", "tent", "eata" or "bn", to batches of at most `batch_size` images.
    #[new]
    #[pyo3(signature = (model, method="rdumb", *, batch_size=64, lr=None, source=false, seed=0, device="cpu", precision="tf32", threads=0))]
    #[expect(clippy::too_many_arguments, reason = "Python names them")]
    fn new(
        py: Python<'_>,
        model: &Model,
        method: &str,
        batch_size: usize,
        lr: Option<f32>,
        source: bool,
        seed: u64,
        device: &str,
        precision: &str,
        threads: usize,
    ) -> PyResult<Self> {
        let device = parse_device(py, device, precision, threads)?;
        let model = Arc::clone(&model.inner);
        let table = model.graph().affine_table();
        let num_classes = model.num_classes();
        let target = Target { num_classes, norms: Norms::of(&table), batch_size };
        let config = MethodConfig::default_on(method, target).map_err(|error| raise(py, &error))?;
        let config = match model.preprocess() {
            Some(preprocess) => config.with_pixels(pixel_space(preprocess)),
            None => config,
        };
        let mut config = config.with_published_code(false);
        if let Some(lr) = lr {
            if !(lr.is_finite() && lr > 0.0) {
                return Err(refuse(py, format!("lr is {lr}, expected a finite number above 0"), "leave it out"));
            }
            let unfit = || refuse(py, format!("lr is given, but `{method}` has no learning rate"), "leave it out");
            config = config.with_lr(lr).ok_or_else(unfit)?;
        }
        if config.needs_clean() {
            let problem = format!("`{method}` measures something on clean images first, which an adapter is not given");
            return Err(refuse(py, problem, "use `eta`, which needs none, or the command-line program"));
        }
        let state = py.detach(|| -> Result<State, RunError> {
            config.check()?;
            config.check_network(&table)?;
            let source = source.then(|| device.network(&model, Purpose::Predict, batch_size)).transpose()?;
            Ok(State {
                source,
                net: device.network(&model, Purpose::Adapt, batch_size)?,
                adapter: config.build(seed)?,
                guard: Guard::new(GuardConfig::for_classes(num_classes), num_classes)?,
                seen: GuardState::Healthy,
                steps: 0,
                seconds: 0.0,
            })
        });
        let state = Mutex::new(state.map_err(|error| raise(py, &error))?);
        Ok(Self { model, method: config, batch_size, device, state })
    }

    /// Predicts a batch, then adapts to it; gives its logits, `[images, classes]`.
    fn __call__<'py>(&self, py: Python<'py>, batch: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let batch = images::batch(batch, &self.model, self.device)?;
        if batch.images() > self.batch_size {
            let problem = format!("the batch has {} images, expected at most {}", batch.images(), self.batch_size);
            return Err(refuse(py, problem, "give smaller batches, or make the adapter with a larger `batch_size`"));
        }
        let stepped = py.detach(|| -> Result<_, RunError> {
            let mut state = self.lock();
            let State { net, source, adapter, guard, seen, steps, seconds } = &mut *state;
            let source =
                source.as_mut().map(|source| source.forward(&batch).map(|logits| logits.argmax())).transpose()?;
            let started = Instant::now();
            let logits = adapter.step(&mut **net, &batch)?.logits;
            *seconds = started.elapsed().as_secs_f64();
            *steps += 1;
            let report =
                guard.observe(Observation { logits, source_classes: source.as_deref(), embedding_drift: None });
            let reasons: Vec<String> = report.reasons.iter().map(ToString::to_string).collect();
            let changed = std::mem::replace(seen, report.state) != report.state;
            let text = match report.state {
                GuardState::Warning if changed => Some("predictions grow less diverse"),
                GuardState::Collapsed if changed => Some("the model no longer tells classes apart"),
                _ => None,
            };
            let warning =
                text.map(|text| format!("step {steps}: {text} ({}); `reset()` restores it", reasons.join("; ")));
            Ok((logits.values().to_vec(), logits.classes(), warning))
        });
        let (logits, classes, warning) = stepped.map_err(|error| raise(py, &error))?;
        if let Some(text) = warning {
            let text = CString::new(text).map_err(|_| PyTypeError::new_err("a warning holds a zero byte"))?;
            PyErr::warn(py, &py.get_type::<PyRuntimeWarning>(), &text, 1)?;
        }
        write(py, &[batch.images(), classes], &logits)
    }

    /// What adapts: scales and shifts of all norm layers, one vector. It may be set to one of an earlier moment.
    #[getter]
    fn state<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let affine = self.lock().net.affine().to_vec();
        write(py, &[affine.len()], &affine)
    }

    #[setter]
    fn set_state(&self, py: Python<'_>, affine: &Bound<'_, PyAny>) -> PyResult<()> {
        let (_, values) = read::<f32>(affine, "the state")?;
        let mut state = self.lock();
        let affine = state.net.affine_mut();
        if values.len() != affine.len() {
            let problem = format!("the state has {} values, expected {}", values.len(), affine.len());
            return Err(refuse(py, problem, "a state belongs to one model"));
        }
        affine.copy_from_slice(&values);
        Ok(())
    }

    /// Restores the source parameters and forgets everything.
    fn reset(&self, py: Python<'_>) -> PyResult<()> {
        let reset = py.detach(|| {
            let mut state = self.lock();
            let State { net, adapter, guard, seen, steps, .. } = &mut *state;
            guard.forget_window();
            (*seen, *steps) = (GuardState::Healthy, 0);
            adapter.reset(&mut **net)
        });
        reset.map_err(|error| raise(py, &error))
    }

    /// Steps made since the last reset.
    #[getter]
    fn steps(&self) -> usize {
        self.lock().steps
    }

    /// Seconds that the engine took for the last step, without what stands around it.
    #[getter]
    fn step_seconds(&self) -> f64 {
        self.lock().seconds
    }

    /// The method's name.
    #[getter]
    fn method(&self) -> &str {
        self.method.name()
    }

    fn __repr__(&self) -> String {
        format!("Adapter({}, {}, {} steps)", self.model.name(), self.method.name(), self.steps())
    }
}

impl Adapter {
    /// A step that panicked may have left the network half adapted, which `reset` mends.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
