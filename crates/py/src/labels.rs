//! A few labels: which images to label, and what the labels say.

use crate::array::{read, write};
use crate::calibration::{Calibration, check_level, classes, outputs};
use crate::error::{raise, refuse};
use crate::estimates::{Estimate, row, table};
use flipcast::estimate::{Answer, choose_questions, join_with_labels, powered_estimate};
use flipcast::{Outputs, OutputsCalibration};
use pyo3::prelude::*;

/// What a few labels say about the accuracy on all images.
#[pyclass(frozen, module = "flipcast")]
#[derive(Clone)]
pub struct LabelledEstimate {
    /// From labels and the confidences of all images together: valid whatever the shift.
    #[pyo3(get)]
    estimate: Estimate,
    /// From the labels alone.
    #[pyo3(get)]
    labels_alone: Estimate,
    /// From labels and calibration together; none without a calibration, and where the two contradict each other.
    #[pyo3(get)]
    joined: Option<Estimate>,
    /// How many random labels alone would be as certain.
    #[pyo3(get)]
    effective_labels: f64,
}

#[pymethods]
impl LabelledEstimate {
    fn __repr__(&self) -> String {
        format!("LabelledEstimate({})", self.estimate.describe())
    }

    fn _repr_html_(&self) -> String {
        let rows = [Some(&self.estimate), Some(&self.labels_alone), self.joined.as_ref()];
        table("interval", rows.into_iter().flatten().map(|estimate| row(estimate, None, false)))
    }
}

/// Chooses images to label so that they tell most about the accuracy: numbers of rows of `logits`.
///
/// With a calibration, confidences are taken at its temperature.
///
/// >>> rows = flipcast.choose_images(new, 50)
/// >>> len(rows), rows.dtype.name
/// (50, 'int64')
#[pyfunction]
#[pyo3(signature = (logits, labels, *, calibration=None, seed=0))]
pub fn choose_images<'py>(
    py: Python<'py>,
    logits: &Bound<'py, PyAny>,
    labels: usize,
    calibration: Option<&Calibration>,
    seed: u64,
) -> PyResult<Bound<'py, PyAny>> {
    let outputs = outputs(logits, "logits")?;
    let calibration = calibration.map(|calibration| &calibration.inner);
    let question = py.detach(|| choose_questions(&guesses(&outputs, calibration), labels, seed));
    let question = question.map_err(|error| raise(py, &error))?;
    let images: Vec<i64> = question.images.iter().map(|&image| image as i64).collect();
    write(py, &[images.len()], &images)
}

/// What labels of a few images say about the accuracy on all of them.
///
/// `images` are numbers of rows of `logits`, `labels` their true classes. `chosen` says that `choose_images` chose them, with the same logits and calibration;
/// otherwise they must be drawn at random.
///
/// >>> rows = flipcast.choose_images(new, 50)
/// >>> found = flipcast.estimate_with_labels(new, rows, truth[rows])
/// >>> found.estimate.low <= found.estimate.accuracy <= found.estimate.high
/// True
#[pyfunction]
#[pyo3(signature = (logits, images, labels, *, calibration=None, chosen=true, level=0.9))]
pub fn estimate_with_labels(
    py: Python<'_>,
    logits: &Bound<'_, PyAny>,
    images: &Bound<'_, PyAny>,
    labels: &Bound<'_, PyAny>,
    calibration: Option<&Calibration>,
    chosen: bool,
    level: f64,
) -> PyResult<LabelledEstimate> {
    check_level(py, level)?;
    let outputs = outputs(logits, "logits")?;
    what_labels_say(&outputs, (images, labels), calibration.map(|calibration| &calibration.inner), chosen, level)
}

/// What the labels of a few images say about all that `outputs` are of.
pub fn what_labels_say(
    outputs: &Outputs,
    (images, labels): (&Bound<'_, PyAny>, &Bound<'_, PyAny>),
    calibration: Option<&OutputsCalibration>,
    chosen: bool,
    level: f64,
) -> PyResult<LabelledEstimate> {
    let py = images.py();
    let (_, images) = read::<i64>(images, "images")?;
    let labels = classes(labels)?;
    if images.len() != labels.len() {
        let problem = format!("there are {} labels for {} images", labels.len(), images.len());
        return Err(refuse(py, problem, "give a label for every image that was chosen"));
    }
    let predicted = outputs.classes_predicted();
    let guesses = guesses(outputs, calibration);
    let strata = match chosen {
        // Strata depend on the guesses and the number of labels alone.
        true => choose_questions(&guesses, images.len(), 0).map_err(|error| raise(py, &error))?.strata,
        false => vec![0; guesses.len()],
    };
    let answers: Option<Vec<Answer>> = images
        .iter()
        .zip(&labels)
        .map(|(&image, &label)| {
            let image = usize::try_from(image).ok().filter(|&image| image < predicted.len())?;
            Some(Answer { image, right: predicted[image] == label, stratum: strata[image] })
        })
        .collect();
    let answers = answers.ok_or_else(|| {
        let problem = format!("an image is outside of 0 to {}", predicted.len());
        refuse(py, problem, "images are numbers of rows of the logits")
    })?;
    let found = powered_estimate(&guesses, &strata, &answers, level).map_err(|error| raise(py, &error))?;
    let joined = match calibration {
        Some(calibration) if calibration.fits.is_some() => {
            let cell = calibration.cell(outputs, None, None).map_err(|error| raise(py, &error))?;
            let estimates = calibration.estimate_cell(&cell, level);
            estimates.best().and_then(|(_, estimate)| join_with_labels(estimate, &found.estimate))
        }
        _ => None,
    };
    Ok(LabelledEstimate {
        estimate: Estimate::named("labelled", found.estimate),
        labels_alone: Estimate::named("labels_alone", found.labels_alone),
        joined: joined.map(|joined| Estimate::named("joined", joined)),
        effective_labels: found.effective_labels,
    })
}

/// How sure the classifier is of every image.
fn guesses(outputs: &Outputs, calibration: Option<&OutputsCalibration>) -> Vec<f64> {
    match calibration {
        Some(calibration) => outputs.scaled(calibration.basis.temperature.value).confidences(),
        None => outputs.confidences(),
    }
}
