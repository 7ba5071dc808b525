use super::{LooksAtImages, OutputsError};
use crate::RunError;
use crate::calibration::CLEAN;
use flipcast_estimate::Outputs;

/// Outputs of images whose labels are known.
///
/// ```
/// use flipcast_estimate::Outputs;
/// use flipcast_run::LabelledOutputs;
///
/// let outputs = Outputs::new(vec![2.0, 0.0, 0.5, 1.0], 2)?;
/// let dark = LabelledOutputs::shifted("dark:2", outputs, vec![0, 1])?;
/// assert_eq!((dark.name(), dark.kind()), ("dark:2", "dark"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct LabelledOutputs {
    name: String,
    pub(super) outputs: Outputs,
    pub(super) labels: Vec<usize>,
    pub(super) second: Option<Outputs>,
}

impl LabelledOutputs {
    /// Outputs of clean images: such as the classifier was made for.
    ///
    /// # Errors
    /// When labels do not fit the outputs.
    pub fn clean(outputs: Outputs, labels: Vec<usize>) -> Result<Self, RunError> {
        outputs.check_labels(&labels)?;
        Ok(Self { name: CLEAN.to_owned(), outputs, labels, second: None })
    }

    /// Outputs of images of another season, another camera, or with a corruption. What stands before a colon in `name` is the kind of
    /// shift, so that `fog:1` and `fog:3` are of one kind: errors are measured on kinds that a fit has not seen.
    ///
    /// # Errors
    /// When labels do not fit the outputs, or the name is empty or that of the clean images.
    pub fn shifted(name: &str, outputs: Outputs, labels: Vec<usize>) -> Result<Self, RunError> {
        outputs.check_labels(&labels)?;
        let shifted = Self { name: name.to_owned(), outputs, labels, second: None };
        if matches!(shifted.kind(), "" | CLEAN) {
            return Err(OutputsError::Name { name: name.to_owned() }.into());
        }
        Ok(shifted)
    }

    /// The same with a second look: outputs of the same images, in the same order, under the statistics of their batch or by another model.
    ///
    /// # Errors
    /// When there are more or fewer images or classes than in the first outputs.
    pub fn with_second(mut self, second: Outputs) -> Result<Self, RunError> {
        check_second(Some(&self.name), &self.outputs, &second)?;
        self.second = Some(second);
        Ok(self)
    }

    /// What it is called.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Number of classes of the outputs.
    pub fn classes(&self) -> usize {
        self.outputs.classes()
    }

    /// The kind of shift.
    pub fn kind(&self) -> &str {
        self.name.split(':').next().unwrap_or_default()
    }

    pub(super) fn looks(&self) -> LooksAtImages {
        LooksAtImages::of(self.second.as_ref())
    }
}

/// Refuses second outputs of other images than those of `outputs`.
pub(super) fn check_second(name: Option<&str>, outputs: &Outputs, second: &Outputs) -> Result<(), OutputsError> {
    let [found, expected] = [second, outputs].map(|outputs| [outputs.images(), outputs.classes()]);
    if found == expected {
        return Ok(());
    }
    Err(OutputsError::SecondShape { name: name.map(str::to_owned), found, expected })
}
