//! A network, its calibration, and estimates with it.

use crate::array::write;
use crate::calibration::check_level;
use crate::error::{raise, refuse};
use crate::estimates::{ByClass, Estimates, combined, no_combined};
use crate::images;
use crate::plain::to_python;
use crate::watch::watched;
use flipcast::images::preprocess::{Interpolation, PreprocessChange, Resize, Size};
use flipcast::run::advise::{ADVICE_IMAGES, AdviceOptions, AdviceOrder, advise_on, learn_advice};
use flipcast::run::{CalibrationShift, ImageGuesses, Images, MEMORY_LIMIT, Precision, RunError, Scope, run_source};
use flipcast::{CalibrationJob, Device, FlipProtocol, Ledger, ModelRequest, Setting, calibrate};
use pyo3::prelude::*;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A network with its weights, preprocessing and classes.
///
/// >>> model = flipcast.Model.load(weights)
/// >>> model.predict(images).shape == (len(images), model.classes)
/// True
/// >>> calibration = model.calibrate(images, image_labels, protocol="statistics", shifts="fog:3,contrast:3")
/// >>> estimate = model.estimate(images, calibration)
/// >>> estimate.interval[0] <= estimate.accuracy <= estimate.interval[1]
/// True
#[pyclass(frozen, module = "flipcast")]
pub struct Model {
    pub inner: Arc<flipcast::Model>,
    /// What `calibrate` made last, or was set.
    calibration: Mutex<Option<Arc<flipcast::Calibration>>>,
}

/// What estimates for a network need: made of labelled images by `Model.calibrate`.
#[pyclass(frozen, module = "flipcast")]
pub struct ModelCalibration {
    pub(crate) inner: Arc<flipcast::Calibration>,
}

#[pymethods]
impl Model {
    /// Loads a network: a weight file, an exported program (`net.pt2`), an ONNX file, a hub's folder, or the name of an architecture or of published weights with its file as `weights`.
    ///
    /// `mean`, `std` and `scale` (numbers, or one for each channel), `resize` and `crop` (the short side or a square, or height and width), and `interpolation` go before what
    /// the model card or the name of the weights says about preprocessing.
    #[staticmethod]
    #[pyo3(signature = (model, *, weights=None, classes=None, mean=None, std=None, scale=None, resize=None, crop=None, interpolation=None))]
    #[expect(clippy::too_many_arguments, reason = "Python names them")]
    fn load(
        py: Python<'_>,
        model: PathBuf,
        weights: Option<PathBuf>,
        classes: Option<usize>,
        mean: Option<Channels>,
        std: Option<Channels>,
        scale: Option<f32>,
        resize: Option<Extent>,
        crop: Option<Extent>,
        interpolation: Option<&str>,
    ) -> PyResult<Self> {
        let change = PreprocessChange {
            mean: mean.map(Channels::values),
            std: std.map(Channels::values),
            scale,
            resize: resize.map(|resize| match resize {
                Extent::Side(side) => Resize::ShortSide(side),
                Extent::Both(height, width) => Resize::Exact(Size { width, height }),
            }),
            crop: crop.map(|crop| match crop {
                Extent::Side(side) => Some(Size::square(side)),
                Extent::Both(height, width) => Some(Size { width, height }),
            }),
            interpolation: interpolation.map(|name| parse_interpolation(py, name)).transpose()?,
        };
        let name = model.to_string_lossy();
        let request = match &weights {
            Some(weights) => ModelRequest { architecture: Some(&name), classes, ..ModelRequest::new(weights) },
            None => ModelRequest { classes, ..ModelRequest::new(&model) },
        };
        let request = ModelRequest { preprocess: Some(&change), ..request };
        let inner = watched(py, None, |_| request.open())?;
        Ok(Self { inner: Arc::new(inner), calibration: Mutex::default() })
    }

    /// Its name.
    #[getter]
    fn name(&self) -> &str {
        self.inner.name()
    }

    /// Number of classes.
    #[getter]
    fn classes(&self) -> usize {
        self.inner.num_classes()
    }

    /// Names of the classes, where they are known.
    #[getter]
    fn class_names(&self) -> Option<Vec<String>> {
        self.inner.class_names().map(<[String]>::to_vec)
    }

    /// Logits of images, `[images, classes]`: a path, or an array of bytes, `[images, height, width, 3]`.
    #[pyo3(signature = (images, *, limit=None, seed=0, device="cpu", precision="tf32", threads=0, progress=None))]
    #[expect(clippy::too_many_arguments, reason = "Python names them")]
    fn predict<'py>(
        &self,
        py: Python<'py>,
        images: &Bound<'py, PyAny>,
        limit: Option<usize>,
        seed: u64,
        device: &str,
        precision: &str,
        threads: usize,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let device = parse_device(py, device, precision, threads)?;
        let data = images::open(images, None, &self.inner, limit, seed)?;
        let pass = watched(py, progress.as_ref(), |watcher| {
            let images = Images::open(data.dataset.clone(), data.config.clone(), MEMORY_LIMIT)?;
            run_source(&self.inner, &images, &data.scope, device, watcher)
        })?;
        write(py, &[pass.outputs.images(), pass.outputs.classes()], pass.outputs.logits())
    }

    /// Learns from labelled clean images how the model's accuracy shows in its outputs: a path to files with labels, or an array of bytes and `labels`.
    ///
    /// `protocol` says how flips are counted, `shifts` what is done to the images, as on the command line; `advise=True` learns too what ways to adapt gain, for `advise`. The model
    /// keeps the calibration, as `Model.calibration`.
    #[pyo3(signature = (images, labels=None, *, protocol="flipcast", shifts="family", advise=false, limit=None, seed=0, device="cpu", precision="tf32", threads=0, progress=None))]
    #[expect(clippy::too_many_arguments, reason = "Python names them")]
    fn calibrate(
        &self,
        py: Python<'_>,
        images: &Bound<'_, PyAny>,
        labels: Option<&Bound<'_, PyAny>>,
        protocol: &str,
        shifts: &str,
        advise: bool,
        limit: Option<usize>,
        seed: u64,
        device: &str,
        precision: &str,
        threads: usize,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<ModelCalibration> {
        let device = parse_device(py, device, precision, threads)?;
        let data = images::open(images, labels, &self.inner, limit, seed)?;
        let model = &*self.inner;
        let inner = watched(py, progress.as_ref(), |watcher| -> Result<_, RunError> {
            let mut protocol = FlipProtocol::for_network(protocol, model.graph())?;
            protocol.seed = seed;
            let setting = Setting { model, protocol: &protocol, device };
            let shifts = CalibrationShift::parse_list(shifts)?;
            let job = CalibrationJob { shifts, ..CalibrationJob::new(setting, data.request()) };
            let mut made = calibrate(&job, &mut Ledger::default(), watcher)?;
            if advise {
                made.advice = Some(learn_advice(&job, &made.basis, &mut Ledger::default(), watcher)?);
            }
            Ok(made)
        })?;
        let inner = Arc::new(inner);
        *self.lock() = Some(Arc::clone(&inner));
        Ok(ModelCalibration { inner })
    }

    /// The calibration that `calibrate` made last, or that was set; `estimate` and `advise` use it where they are given none.
    #[getter]
    fn calibration(&self) -> Option<ModelCalibration> {
        self.lock().clone().map(|inner| ModelCalibration { inner })
    }

    #[setter]
    fn set_calibration(&self, py: Python<'_>, calibration: Option<&ModelCalibration>) -> PyResult<()> {
        if let (Some(calibration), Some(preprocess)) = (calibration, self.inner.preprocess()) {
            let scope = Scope::new(self.inner.num_classes(), None);
            let fits = calibration.inner.check_fits(&self.inner, preprocess, &scope);
            fits.map_err(|error| raise(py, &error))?;
        }
        *self.lock() = calibration.map(|calibration| Arc::clone(&calibration.inner));
        Ok(())
    }

    /// Estimates the accuracy on images that nobody labelled: a path, or an array of bytes. Without a `calibration`, with the one that the model keeps. Labels show the truth beside the
    /// estimates, which no estimate uses. `by_class` asks for `Estimates.by_class`.
    #[pyo3(signature = (images, calibration=None, *, labels=None, level=0.9, by_class=false, limit=None, seed=0, device="cpu", precision="tf32", threads=0, progress=None))]
    #[expect(clippy::too_many_arguments, reason = "Python names them")]
    fn estimate(
        &self,
        py: Python<'_>,
        images: &Bound<'_, PyAny>,
        calibration: Option<&ModelCalibration>,
        labels: Option<&Bound<'_, PyAny>>,
        level: f64,
        by_class: bool,
        limit: Option<usize>,
        seed: u64,
        device: &str,
        precision: &str,
        threads: usize,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Estimates> {
        check_level(py, level)?;
        let device = parse_device(py, device, precision, threads)?;
        let data = images::open(images, labels, &self.inner, limit, seed)?;
        let (model, calibration) = (&*self.inner, &*self.calibration_or(py, calibration)?);
        let asked = by_class;
        let (cell, estimates, by_class) = watched(py, progress.as_ref(), |watcher| {
            calibration.check_fits(model, &data.preprocess, &data.scope)?;
            let setting = Setting { model, protocol: &calibration.protocol, device };
            let request = data.request();
            let cell = setting.cell("estimate", &request, &calibration.basis, &mut Ledger::default(), watcher)?;
            let estimates = calibration.estimate(&cell, level);
            // Without a combined estimate `by_class` is refused below.
            let classes = match combined(&estimates) {
                Some(accuracy) if asked => {
                    let mut guesses = ImageGuesses::new(&setting, &request, calibration.basis.temperature.value);
                    let ledger = &mut Ledger::default();
                    let found = guesses.by_class(accuracy, &calibration.basis, level, ledger, watcher)?;
                    Some(ByClass { found, names: Some(request.scope.alternative_names(model)) })
                }
                _ => None,
            };
            Ok::<_, RunError>((cell, estimates, classes))
        })?;
        if asked && by_class.is_none() {
            return Err(no_combined(py));
        }
        Ok(Estimates::new(cell, estimates, level, by_class))
    }

    /// Tells whether to adapt the model to these images, how, and for how long: tries about twenty ways, and says without labels what each would gain, with an interval and the
    /// risk of losing accuracy. The calibration must have been made with `advise=True`.
    ///
    /// `order` is "shuffled", or "stored" for images that come as they are stored. Gives what `flipcast advise --json` prints; written to a file, `flipcast adapt --advice` takes it.
    #[pyo3(signature = (images, calibration=None, *, labels=None, order="shuffled", trial_images=ADVICE_IMAGES, level=0.9, limit=None, seed=0, device="cpu", precision="tf32", threads=0, progress=None))]
    #[expect(clippy::too_many_arguments, reason = "Python names them")]
    fn advise<'py>(
        &self,
        py: Python<'py>,
        images: &Bound<'py, PyAny>,
        calibration: Option<&ModelCalibration>,
        labels: Option<&Bound<'py, PyAny>>,
        order: &str,
        trial_images: usize,
        level: f64,
        limit: Option<usize>,
        seed: u64,
        device: &str,
        precision: &str,
        threads: usize,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        check_level(py, level)?;
        let order = match order {
            "shuffled" => AdviceOrder::Shuffled,
            "stored" => AdviceOrder::Stored,
            _ => {
                let problem = format!("order is `{order}`, expected `shuffled` or `stored`");
                return Err(refuse(py, problem, "`shuffled` is usual"));
            }
        };
        let device = parse_device(py, device, precision, threads)?;
        let calibration = &*self.calibration_or(py, calibration)?;
        let fit = calibration.advice.as_ref().ok_or_else(|| {
            let hint = "make it by `model.calibrate(..., advise=True)`, or by `flipcast calibrate --advise`";
            refuse(py, "the calibration knows nothing of adapting", hint)
        })?;
        let data = images::open(images, labels, &self.inner, limit, seed)?;
        let found = watched(py, progress.as_ref(), |watcher| -> Result<_, RunError> {
            calibration.check_fits(&self.inner, &data.preprocess, &data.scope)?;
            let setting = Setting { model: &self.inner, protocol: &calibration.protocol, device };
            let options = AdviceOptions { order, limit: trial_images, level };
            advise_on(&setting, (calibration, fit), &data.request(), options, &mut Ledger::default(), watcher)
        })?;
        let spec = images::path(images)?.unwrap_or_else(|| "array".to_owned());
        to_python(py, &found.to_file(&spec, level))
    }

    fn __repr__(&self) -> String {
        format!("Model({}, {} classes)", self.name(), self.classes())
    }
}

impl Model {
    fn lock(&self) -> MutexGuard<'_, Option<Arc<flipcast::Calibration>>> {
        self.calibration.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The calibration that was given, or else the one that the model keeps.
    fn calibration_or(&self, py: Python<'_>, given: Option<&ModelCalibration>) -> PyResult<Arc<flipcast::Calibration>> {
        let found = given.map(|given| Arc::clone(&given.inner)).or_else(|| self.lock().clone());
        found.ok_or_else(|| {
            let hint = "calibrate the model, give `calibration`, or set `model.calibration`";
            refuse(py, "the model has no calibration", hint)
        })
    }
}

#[pymethods]
impl ModelCalibration {
    /// Reads what `save` or `flipcast calibrate` wrote.
    #[staticmethod]
    fn load(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        Ok(Self { inner: Arc::new(watched(py, None, |_| flipcast::Calibration::load(&path))?) })
    }

    /// Writes it as JSON, for `load` and for `flipcast estimate`.
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        let text = self.inner.to_json().map_err(|error| raise(py, &error))?;
        flipcast::record::write_atomically(&path, text.as_bytes()).map_err(|error| raise(py, &error))
    }

    /// The name of the model it belongs to.
    #[getter]
    fn model(&self) -> &str {
        &self.inner.model.name
    }

    /// Accuracy on the clean images.
    #[getter]
    fn clean_accuracy(&self) -> f64 {
        self.inner.basis.reference.accuracy
    }

    /// Whether it knows what ways to adapt gain, for `Model.advise`.
    #[getter]
    fn has_advice(&self) -> bool {
        self.inner.advice.is_some()
    }

    fn __repr__(&self) -> String {
        let reference = &self.inner.basis.reference;
        let (images, accuracy) = (reference.images, 100.0 * reference.accuracy);
        format!("ModelCalibration({}, {images} clean images, {accuracy:.1}% right)", self.inner.model.name)
    }
}

/// One number for all channels, or one for each.
#[derive(FromPyObject)]
enum Channels {
    Same(f32),
    Each([f32; 3]),
}

impl Channels {
    fn values(self) -> [f32; 3] {
        match self {
            Self::Same(value) => [value; 3],
            Self::Each(values) => values,
        }
    }
}

/// One side, or height and width.
#[derive(FromPyObject)]
enum Extent {
    Side(usize),
    Both(usize, usize),
}

fn parse_interpolation(py: Python<'_>, name: &str) -> PyResult<Interpolation> {
    Interpolation::find(name).ok_or_else(|| {
        let names = Interpolation::NAMES.map(|(name, _)| name).join(", ");
        refuse(py, format!("interpolation is `{name}`, expected one of {names}"), "`bilinear` is usual")
    })
}

/// `cpu`, `cuda` or `cuda:1`.
pub fn parse_device(py: Python<'_>, device: &str, precision: &str, threads: usize) -> PyResult<Device> {
    let precision = Precision::from_name(precision).ok_or_else(|| {
        refuse(py, format!("precision is `{precision}`, expected tf32, bf16 or f32"), "it matters on a GPU alone")
    })?;
    match device.split_once(':') {
        None if device == "cpu" => Ok(Device::cpu(threads)),
        None if device == "cuda" => Ok(Device::Cuda { index: 0, precision }),
        Some(("cuda", index)) if index.parse::<usize>().is_ok() => {
            Ok(Device::Cuda { index: index.parse().unwrap_or_default(), precision })
        }
        _ => Err(refuse(
            py,
            format!("device is `{device}`, expected cpu, cuda or cuda:1"),
            "`flipcast env` lists what is there",
        )),
    }
}
