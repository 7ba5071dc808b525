//! Calibration and estimates from outputs alone.

use crate::array::{borrow, read};
use crate::error::{raise, refuse};
use crate::estimates::{ByClass, Estimates, combined, no_combined};
use crate::labels::what_labels_say;
use crate::watch::watched;
use flipcast::estimate::Marginal;
use flipcast::run::estimate_classes;
use flipcast::{LabelledOutputs, Outputs, OutputsCalibration, ScoreOptions};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use std::path::PathBuf;
use std::sync::Arc;

/// What estimates from a classifier's outputs alone need: made of logits of labelled images by `Calibration.fit`.
///
/// With clean images only, intervals span everything and estimates have the flag `no_known_shifts`; cells of two or more kinds of shift give
/// calibrated estimates, a combined one, and intervals.
///
/// >>> calibration = flipcast.Calibration.fit(logits, labels, cells={"fog:3": (foggy, labels), "night": (dark, labels)})
/// >>> calibration.cells, calibration.has_intervals
/// (['clean', 'fog:3', 'night'], True)
#[pyclass(frozen, module = "flipcast")]
pub struct Calibration {
    pub(crate) inner: OutputsCalibration,
}

#[pymethods]
impl Calibration {
    /// Learns from logits of clean images, `[images, classes]`, and their labels.
    ///
    /// `cells` has logits of further labelled images, `{"fog:3": (logits, labels), "night": (logits, labels)}`; what stands before a colon is the kind of
    /// shift. `second` has a second look at the clean images: logits under the statistics of their batch or of another model; cells then have three
    /// arrays. `class_shares` is "uniform", "em", "bbse" or a weight for every class. `progress(what, done, total)` is called now and then.
    #[staticmethod]
    #[pyo3(signature = (logits, labels, *, cells=None, second=None, temperature=false, class_shares=None, seed=0, progress=None))]
    #[expect(clippy::too_many_arguments, reason = "Python names them")]
    fn fit(
        py: Python<'_>,
        logits: &Bound<'_, PyAny>,
        labels: &Bound<'_, PyAny>,
        cells: Option<&Bound<'_, PyDict>>,
        second: Option<&Bound<'_, PyAny>>,
        temperature: bool,
        class_shares: Option<&Bound<'_, PyAny>>,
        seed: u64,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Self> {
        let clean = labelled("clean", logits, labels, second)?;
        let mut shifted = Vec::new();
        for (name, arrays) in cells.into_iter().flatten() {
            let name: String = name.extract()?;
            let arrays = arrays.cast::<PyTuple>().map_err(|_| unfit_cell(py, &name))?;
            shifted.push(match arrays.len() {
                2 => labelled(&name, &arrays.get_item(0)?, &arrays.get_item(1)?, None)?,
                3 => labelled(&name, &arrays.get_item(0)?, &arrays.get_item(1)?, Some(&arrays.get_item(2)?))?,
                _ => return Err(unfit_cell(py, &name)),
            });
        }
        let marginal = class_shares.map(marginal).transpose()?.unwrap_or(Marginal::Uniform);
        let options = ScoreOptions { marginal, temperature };
        let inner = watched(py, progress.as_ref(), |watcher| {
            OutputsCalibration::fit(&clean, &shifted, options, seed, watcher)
        })?;
        Ok(Self { inner })
    }

    /// Reads what `save` or `flipcast calibrate --logits` wrote.
    #[staticmethod]
    fn load(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        let inner = watched(py, None, |_| OutputsCalibration::load(&path))?;
        Ok(Self { inner })
    }

    /// Writes it as JSON, for `load` and for `flipcast estimate --logits`.
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        let text = self.inner.to_json().map_err(|error| raise(py, &error))?;
        flipcast::record::write_atomically(&path, text.as_bytes()).map_err(|error| raise(py, &error))
    }

    /// Number of classes.
    #[getter]
    fn classes(&self) -> usize {
        self.inner.classes()
    }

    /// Names of the cells; the first is that of the clean images.
    #[getter]
    fn cells(&self) -> Vec<&str> {
        self.inner.cells.iter().map(|cell| cell.name.as_str()).collect()
    }

    /// Accuracy on the clean images.
    #[getter]
    fn clean_accuracy(&self) -> f64 {
        self.inner.basis.reference.accuracy
    }

    /// The temperature at which confidence and accuracy agree on the clean images.
    #[getter]
    fn temperature(&self) -> f64 {
        self.inner.basis.temperature.value
    }

    /// Whether intervals mean anything: whether there were at least two kinds of shift.
    #[getter]
    fn has_intervals(&self) -> bool {
        self.inner.fits.is_some()
    }

    fn __repr__(&self) -> String {
        let (images, accuracy) = (self.inner.basis.reference.images, self.clean_accuracy());
        format!(
            "Calibration({} classes, {images} clean images, {:.1}% right, {} kinds of shift)",
            self.classes(),
            100.0 * accuracy,
            self.inner.kinds()
        )
    }
}

/// Estimates the accuracy on images that nobody labelled from a classifier's logits for them, `[images, classes]`.
///
/// `second` is there if the calibration has second looks. `class_shares` stands for the classes' shares where they differ from the calibration's, `labels` for the truth
/// beside the estimates, which no estimate uses. `labelled` has the labels of a few images, `(rows, labels)`, for `Estimates.labelled`; `chosen` says that `choose_images` chose them. `by_class` asks for `Estimates.by_class`. Logits of `float32`, row after row, are not copied, so that nobody may change them during the call.
///
/// >>> calibration = flipcast.Calibration.fit(logits, labels, cells={"fog:3": (foggy, labels), "night": (dark, labels)})
/// >>> estimate = flipcast.estimate(new, calibration)
/// >>> estimate.best.name, len(estimate.interval), estimate["atc_mc"].name
/// ('combined', 2, 'atc_mc')
/// >>> rows = flipcast.choose_images(new, 50, calibration=calibration)
/// >>> flipcast.estimate(new, calibration, labelled=(rows, truth[rows])).labelled.estimate.name
/// 'labelled'
#[pyfunction]
#[pyo3(signature = (logits, calibration, *, second=None, level=0.9, class_shares=None, labels=None, labelled=None, chosen=true, by_class=false))]
#[expect(clippy::too_many_arguments, reason = "Python names them")]
pub fn estimate(
    py: Python<'_>,
    logits: &Bound<'_, PyAny>,
    calibration: &Calibration,
    second: Option<&Bound<'_, PyAny>>,
    level: f64,
    class_shares: Option<&Bound<'_, PyAny>>,
    labels: Option<&Bound<'_, PyAny>>,
    labelled: Option<(Bound<'_, PyAny>, Bound<'_, PyAny>)>,
    chosen: bool,
    by_class: bool,
) -> PyResult<Estimates> {
    check_level(py, level)?;
    let outputs = outputs(logits, "logits")?;
    let second = second.map(|logits| self::outputs(logits, "second")).transpose()?;
    let marginal = class_shares.map(marginal).transpose()?;
    let labels = labels.map(classes).transpose()?;
    let calibration = &calibration.inner;
    let (cell, estimates) = watched(py, None, |_| -> Result<_, flipcast::run::RunError> {
        let mut cell = calibration.cell(&outputs, second.as_ref(), marginal.as_ref())?;
        cell.accuracy = labels.map(|labels| outputs.accuracy(&labels)).transpose()?;
        let estimates = calibration.estimate_cell(&cell, level);
        Ok((cell, estimates))
    })?;
    let by_class = match by_class {
        true => {
            let accuracy = combined(&estimates).ok_or_else(|| no_combined(py))?;
            let found = watched(py, None, |_| estimate_classes(&outputs, accuracy, &calibration.basis, level))?;
            Some(ByClass { found, names: None })
        }
        false => None,
    };
    let labelled = labelled
        .map(|(images, labels)| what_labels_say(&outputs, (&images, &labels), Some(calibration), chosen, level))
        .transpose()?;
    Ok(Estimates::new(cell, estimates, level, by_class).with_labels(labelled))
}

/// Refuses a probability outside of 0 and 1.
pub fn check_level(py: Python<'_>, level: f64) -> PyResult<()> {
    if level > 0.0 && level < 1.0 {
        return Ok(());
    }
    Err(refuse(py, format!("level is {level}, expected more than 0 and less than 1"), "0.9 is usual"))
}

fn labelled(
    name: &str,
    logits: &Bound<'_, PyAny>,
    labels: &Bound<'_, PyAny>,
    second: Option<&Bound<'_, PyAny>>,
) -> PyResult<LabelledOutputs> {
    let py = logits.py();
    let (outputs, labels) = (outputs(logits, &format!("logits of `{name}`"))?, classes(labels)?);
    let made = match name {
        "clean" => LabelledOutputs::clean(outputs, labels),
        _ => LabelledOutputs::shifted(name, outputs, labels),
    };
    let made = made.map_err(|error| raise(py, &error))?;
    match second {
        Some(logits) => {
            let second = self::outputs(logits, &format!("second look at `{name}`"))?;
            made.with_second(second).map_err(|error| raise(py, &error))
        }
        None => Ok(made),
    }
}

pub(crate) fn outputs(logits: &Bound<'_, PyAny>, what: &str) -> PyResult<Outputs> {
    let py = logits.py();
    let (shape, values) = borrow(logits, what)?;
    let &[_, classes] = shape.as_slice() else {
        let hint = "a row for every image, a column for every class";
        return Err(refuse(py, format!("{what} has the shape {shape:?}, expected [images, classes]"), hint));
    };
    Outputs::shared(Arc::new(values), classes).map_err(|error| raise(py, &error))
}

/// Labels, counted from 0.
pub fn classes(labels: &Bound<'_, PyAny>) -> PyResult<Vec<usize>> {
    let py = labels.py();
    let (shape, values) = read::<i64>(labels, "labels")?;
    if shape.len() != 1 {
        let problem = format!("labels have the shape {shape:?}, expected [images]");
        return Err(refuse(py, problem, "the number of a class for every image"));
    }
    let class = |label: i64| {
        usize::try_from(label)
            .map_err(|_| refuse(py, format!("a label is {label}, expected 0 or more"), "classes are counted from 0"))
    };
    values.into_iter().map(class).collect()
}

fn marginal(shares: &Bound<'_, PyAny>) -> PyResult<Marginal> {
    let py = shares.py();
    let Ok(name) = shares.extract::<String>() else {
        let weights: Vec<f64> = shares.extract()?;
        return Ok(Marginal::Given(weights));
    };
    match name.as_str() {
        "uniform" => Ok(Marginal::Uniform),
        "em" => Ok(Marginal::Em),
        "bbse" => Ok(Marginal::Bbse),
        _ => Err(refuse(
            py,
            format!("class_shares is `{name}`, expected `uniform`, `em`, `bbse` or a weight for every class"),
            "`uniform` is usual; `em` learns shares from the images",
        )),
    }
}

fn unfit_cell(py: Python<'_>, name: &str) -> PyErr {
    let hint = "give `{\"fog:3\": (logits, labels)}`, and a third array where there are second looks";
    refuse(py, format!("the cell `{name}` is no tuple of two or three arrays"), hint)
}
