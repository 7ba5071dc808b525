//! Estimates as Python sees them.

use crate::error::refuse;
use crate::labels::LabelledEstimate;
use crate::plain::to_python;
use flipcast::run::ByClassResult;
use flipcast::{Cell, CellEstimates};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

/// An accuracy, how sure it is, and what speaks against it. All numbers are fractions.
#[pyclass(frozen, module = "flipcast")]
#[derive(Clone)]
pub struct Estimate {
    name: String,
    estimate: flipcast::Estimate,
}

#[pymethods]
impl Estimate {
    /// The estimator's name.
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    /// The best guess.
    #[getter]
    fn accuracy(&self) -> f64 {
        self.estimate.accuracy
    }

    /// Lower end of the interval.
    #[getter]
    fn low(&self) -> f64 {
        self.estimate.low
    }

    /// Upper end of the interval.
    #[getter]
    fn high(&self) -> f64 {
        self.estimate.high
    }

    /// Both ends of the interval.
    #[getter]
    fn interval(&self) -> (f64, f64) {
        (self.estimate.low, self.estimate.high)
    }

    /// Names of the reasons for doubt.
    #[getter]
    fn flags(&self) -> Vec<&'static str> {
        self.estimate.flags.iter().map(|flag| flag.name()).collect()
    }

    /// What each flag means, by its name.
    fn explain<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let texts = PyDict::new(py);
        for flag in &self.estimate.flags {
            texts.set_item(flag.name(), flag.text())?;
        }
        Ok(texts)
    }

    fn __repr__(&self) -> String {
        format!("Estimate({})", self.describe())
    }

    /// For notebooks: the estimate, drawn from 0 to 100%.
    fn _repr_html_(&self) -> String {
        table("interval", [row(self, None, false)])
    }
}

impl Estimate {
    pub(crate) fn named(name: &str, estimate: flipcast::Estimate) -> Self {
        Self { name: name.to_owned(), estimate }
    }

    pub(crate) fn describe(&self) -> String {
        let percent = |share: f64| format!("{:.1}", 100.0 * share);
        let flipcast::Estimate { accuracy, low, high, .. } = &self.estimate;
        let mut text = format!("{}: {}%, {} to {}", self.name, percent(*accuracy), percent(*low), percent(*high));
        if !self.estimate.flags.is_empty() {
            text += &format!("; {}", self.flags().join(", "));
        }
        text
    }
}

/// What every estimator says of some images. `accuracy`, `interval` and `flags` are those of the estimate to look at first; the others are found by
/// name, as in `estimates["atc_mc"]`.
#[pyclass(frozen, mapping, module = "flipcast")]
pub struct Estimates {
    cell: Cell,
    estimates: CellEstimates,
    level: f64,
    by_class: Option<ByClass>,
    labelled: Option<LabelledEstimate>,
}

/// What is expected of every class, and their names where they are known.
#[derive(serde::Serialize)]
pub struct ByClass {
    #[serde(flatten)]
    pub found: ByClassResult,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub names: Option<Vec<String>>,
}

/// The estimate that tables by class rest on.
pub fn combined(estimates: &CellEstimates) -> Option<&flipcast::Estimate> {
    estimates.source.get("combined")
}

/// Tables by class were asked for, and there is nothing to rest them on.
pub fn no_combined(py: Python<'_>) -> PyErr {
    let hint = "calibrate with more images, or with more kinds of shift";
    refuse(py, "there is no combined estimate, which tables by class rest on", hint)
}

impl Estimates {
    pub fn new(cell: Cell, estimates: CellEstimates, level: f64, by_class: Option<ByClass>) -> Self {
        Self { cell, estimates, level, by_class, labelled: None }
    }

    /// The same with what the labels of a few images say.
    pub fn with_labels(self, labelled: Option<LabelledEstimate>) -> Self {
        Self { labelled, ..self }
    }

    fn first(&self, py: Python<'_>) -> PyResult<Estimate> {
        let (name, estimate) = self.estimates.best().ok_or_else(|| {
            refuse(py, "no estimate could be made of these images", "give more images, or more calibration cells")
        })?;
        Ok(Estimate { name: name.to_owned(), estimate: estimate.clone() })
    }

    fn all(&self) -> impl Iterator<Item = Estimate> {
        let make = |(name, estimate): (&String, &flipcast::Estimate)| Estimate {
            name: name.clone(),
            estimate: estimate.clone(),
        };
        self.estimates.source.iter().map(make)
    }
}

#[pymethods]
impl Estimates {
    /// The best guess of the accuracy.
    #[getter]
    fn accuracy(&self, py: Python<'_>) -> PyResult<f64> {
        Ok(self.first(py)?.accuracy())
    }

    /// Both ends of its interval.
    #[getter]
    fn interval(&self, py: Python<'_>) -> PyResult<(f64, f64)> {
        Ok(self.first(py)?.interval())
    }

    /// Names of the reasons to doubt it.
    #[getter]
    fn flags(&self, py: Python<'_>) -> PyResult<Vec<&'static str>> {
        Ok(self.first(py)?.flags())
    }

    /// The estimate to look at first: the combined one, or transport where too little is known to combine anything.
    #[getter]
    fn best(&self, py: Python<'_>) -> PyResult<Estimate> {
        self.first(py)
    }

    /// Probability with which intervals are meant to hold the truth.
    #[getter]
    fn level(&self) -> f64 {
        self.level
    }

    /// Images behind it.
    #[getter]
    fn images(&self) -> usize {
        self.cell.images
    }

    /// The accuracy where labels are known, otherwise `None`. No estimate uses them.
    #[getter]
    fn truth(&self) -> Option<f64> {
        self.cell.accuracy
    }

    /// Estimates of the accuracy of the model adapted to the images, by name; empty without a network.
    #[getter]
    fn adapted<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let found = PyDict::new(py);
        for (name, estimate) in &self.estimates.adapted {
            found.set_item(name, Estimate { name: name.clone(), estimate: estimate.clone() })?;
        }
        Ok(found)
    }

    /// What is expected of every class, where `by_class=True` asked for it: its share, how often answers with it are right, and which confusions are expected most, as
    /// `flipcast estimate --by-class --json` prints them. Otherwise `None`.
    #[getter]
    fn by_class<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.by_class.as_ref().map(|found| to_python(py, found)).transpose()
    }

    /// What the labels of a few images say, where `labelled` gave some; otherwise `None`.
    #[getter]
    fn labelled(&self) -> Option<LabelledEstimate> {
        self.labelled.clone()
    }

    /// Names of the estimators.
    fn keys(&self) -> Vec<String> {
        self.estimates.source.keys().cloned().collect()
    }

    fn __len__(&self) -> usize {
        self.estimates.source.len()
    }

    fn __contains__(&self, name: &str) -> bool {
        self.estimates.source.contains_key(name)
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        PyList::new(py, self.keys())?.call_method0("__iter__")
    }

    fn __getitem__(&self, py: Python<'_>, name: &str) -> PyResult<Estimate> {
        self.all().find(|estimate| estimate.name == name).ok_or_else(|| {
            let known = self.keys().join(", ");
            let error = refuse(py, format!("no estimator is called `{name}`"), &format!("there are {known}"));
            pyo3::exceptions::PyKeyError::new_err(error.value(py).to_string())
        })
    }

    /// Columns by name: `estimator`, `accuracy`, `low`, `high`, `flags`.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let all: Vec<Estimate> = self.all().collect();
        let columns = PyDict::new(py);
        columns.set_item("estimator", all.iter().map(|e| e.name.as_str()).collect::<Vec<_>>())?;
        columns.set_item("accuracy", all.iter().map(Estimate::accuracy).collect::<Vec<_>>())?;
        columns.set_item("low", all.iter().map(Estimate::low).collect::<Vec<_>>())?;
        columns.set_item("high", all.iter().map(Estimate::high).collect::<Vec<_>>())?;
        columns.set_item("flags", all.iter().map(|e| e.flags().join(", ")).collect::<Vec<_>>())?;
        Ok(columns)
    }

    /// The same as a pandas `DataFrame`, or as it is where pandas is not installed.
    fn to_frame<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let columns = self.to_dict(py)?;
        match py.import("pandas") {
            Ok(pandas) => pandas.call_method1("DataFrame", (columns,)),
            Err(_) => Ok(columns.into_any()),
        }
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let first = self.first(py)?.describe();
        Ok(format!("Estimates({first}; {} images, {:.0}% interval)", self.cell.images, 100.0 * self.level))
    }

    /// For notebooks: a line per estimator, drawn from 0 to 100%, with the truth as a line across where it is known.
    fn _repr_html_(&self, py: Python<'_>) -> PyResult<String> {
        let first = self.first(py)?;
        let others = self.all().filter(|estimate| estimate.name != first.name);
        let others = others.map(|estimate| row(&estimate, self.cell.accuracy, false));
        let rows = std::iter::once(row(&first, self.cell.accuracy, true)).chain(others);
        Ok(table(&format!("{:.0}% interval", 100.0 * self.level), rows))
    }
}

/// Rows of estimates below what their columns are called.
pub fn table(interval: &str, rows: impl IntoIterator<Item = String>) -> String {
    let rows: String = rows.into_iter().collect();
    format!(
        "<table><thead><tr><th>estimator</th><th>accuracy</th><th>{interval}</th><th></th><th>flags</th></tr></thead>\
         <tbody>{rows}</tbody></table>"
    )
}

/// An estimate as a row: numbers, and the interval drawn from 0 to 100%.
pub fn row(estimate: &Estimate, truth: Option<f64>, is_first: bool) -> String {
    let percent = |share: f64| format!("{:.1}", 100.0 * share);
    let at = |share: f64| format!("{:.1}", 200.0 * share);
    let flipcast::Estimate { accuracy, low, high, .. } = &estimate.estimate;
    let line = |truth| format!("<rect x=\"{}\" width=\"1.5\" height=\"12\" fill=\"#c33\"/>", at(truth));
    let bar = format!(
        "<svg width=\"200\" height=\"12\"><rect width=\"200\" height=\"12\" fill=\"#8882\"/>\
         <rect x=\"{}\" width=\"{}\" height=\"12\" fill=\"#4a90d9\" fill-opacity=\"0.5\"/>{}\
         <circle cx=\"{}\" cy=\"6\" r=\"4\" fill=\"#1b5fa8\"/></svg>",
        at(*low),
        at(high - low),
        truth.map_or_else(String::new, line),
        at(*accuracy),
    );
    let (open, close) = if is_first { ("<b>", "</b>") } else { ("", "") };
    format!(
        "<tr><td>{open}{}{close}</td><td>{}%</td><td>{} to {}</td><td>{bar}</td><td>{}</td></tr>",
        estimate.name,
        percent(*accuracy),
        percent(*low),
        percent(*high),
        estimate.flags().join(", "),
    )
}
