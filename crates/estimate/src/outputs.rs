use crate::EstimateError;
use crate::parallel::map_ranges;
use crate::softmax::{RowSummary, summarize, write_probs};
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

/// How far the sum of a row of probabilities may be from 1, which rounding to half precision of either kind stays within.
const SUM_TOLERANCE: f64 = 1.0 / 256.0;
/// Rows summarized by one thread at a time.
const STEP: usize = 128;

/// Logits of a network for a set of images, one row per image: at least one row, at least one class, all finite.
///
/// ```
/// use flipcast_estimate::Outputs;
///
/// # fn main() -> Result<(), flipcast_estimate::EstimateError> {
/// let outputs = Outputs::new(vec![2.0, 0.0, 0.5, 1.0], 2)?;
/// assert_eq!((outputs.images(), outputs.classes_predicted()), (2, vec![0, 1]));
/// assert!(Outputs::new(vec![2.0, f32::NAN], 2).is_err());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Outputs {
    logits: Values,
    classes: usize,
    /// Filled when first asked for: many estimators ask.
    summaries: OnceLock<Vec<RowSummary>>,
}

impl PartialEq for Outputs {
    fn eq(&self, other: &Self) -> bool {
        self.classes == other.classes && *self.logits == *other.logits
    }
}

/// Where logits lie.
#[derive(Clone)]
enum Values {
    Owned(Vec<f32>),
    Shared(Arc<dyn AsRef<[f32]> + Send + Sync>),
}

impl Deref for Values {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        match self {
            Self::Owned(values) => values,
            Self::Shared(values) => (**values).as_ref(),
        }
    }
}

impl fmt::Debug for Values {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl Outputs {
    /// Takes row-major logits; refuses NaN, infinity, incomplete rows, no classes and no images.
    pub fn new(logits: Vec<f32>, classes: usize) -> Result<Self, EstimateError> {
        Self::from_values(Values::Owned(logits), classes)
    }

    /// The same with logits that lie in memory of somebody else, such as an array of another language, and are not copied. They must not change.
    pub fn shared(logits: Arc<dyn AsRef<[f32]> + Send + Sync>, classes: usize) -> Result<Self, EstimateError> {
        Self::from_values(Values::Shared(logits), classes)
    }

    fn from_values(logits: Values, classes: usize) -> Result<Self, EstimateError> {
        check_rows("logits", &logits, classes).map_err(|error| match error {
            EstimateError::NotFinite { index, found, .. } => {
                EstimateError::NotFiniteLogit { image: index / classes, class: index % classes, found }
            }
            error => error,
        })?;
        Ok(Self { logits, classes, summaries: OnceLock::new() })
    }

    /// Refuses what can only be probabilities: two rows or more of two classes or more, all of values from 0 to 1 that sum to 1. Logits that a network computed
    /// need no such check; those that somebody gives may have been softmaxed before.
    pub fn check_logits(&self) -> Result<(), EstimateError> {
        let is_probs = |row: &[f32]| {
            let sum: f64 = row.iter().map(|&p| f64::from(p)).sum();
            row.iter().all(|p| (0.0..=1.0).contains(p)) && (sum - 1.0).abs() <= SUM_TOLERANCE
        };
        if self.classes >= 2 && self.images() >= 2 && self.rows().all(is_probs) {
            return Err(EstimateError::Probabilities { images: self.images() });
        }
        Ok(())
    }

    /// Number of images.
    pub fn images(&self) -> usize {
        self.logits.len() / self.classes
    }

    /// Number of classes.
    pub fn classes(&self) -> usize {
        self.classes
    }

    /// All logits, row after row.
    pub fn logits(&self) -> &[f32] {
        &self.logits
    }

    /// The logits of each image in turn.
    pub fn rows(&self) -> std::slice::ChunksExact<'_, f32> {
        self.logits.chunks_exact(self.classes)
    }

    /// The logits of one image.
    ///
    /// # Panics
    /// If there is no such image.
    pub fn row(&self, image: usize) -> &[f32] {
        &self.logits[image * self.classes..][..self.classes]
    }

    /// The logits divided by `temperature`, rounded to `f32`; what would overflow stays at the largest finite value.
    ///
    /// # Panics
    /// If the temperature is not positive and finite; [`Temperature::check`](crate::Temperature::check) says so beforehand.
    pub fn scaled(&self, temperature: f64) -> Self {
        assert!(
            temperature > 0.0 && temperature.is_finite(),
            "the temperature is {temperature}, expected a positive finite number"
        );
        let largest = f64::from(f32::MAX);
        let scale = |&z: &f32| (f64::from(z) / temperature).clamp(-largest, largest) as f32;
        let logits = Values::Owned(self.logits.iter().map(scale).collect());
        Self { logits, classes: self.classes, summaries: OnceLock::new() }
    }

    /// The class with the largest logit of each image, the first of several.
    pub fn classes_predicted(&self) -> Vec<usize> {
        self.summaries().iter().map(|row| row.class).collect()
    }

    /// The largest probability of each image.
    pub fn confidences(&self) -> Vec<f64> {
        self.summaries().iter().map(RowSummary::confidence).collect()
    }

    /// The entropy of each image's probabilities in nats.
    pub fn entropies(&self) -> Vec<f64> {
        self.summaries().iter().map(RowSummary::entropy).collect()
    }

    /// Replaces `out` by the probabilities of one image.
    ///
    /// # Panics
    /// If there is no such image.
    pub fn probs_into(&self, image: usize, out: &mut Vec<f64>) {
        out.resize(self.classes, 0.0);
        write_probs(self.row(image), &self.summaries()[image], out);
    }

    /// What estimators ask about each image.
    pub(crate) fn summaries(&self) -> &[RowSummary] {
        self.summaries.get_or_init(|| {
            let of_range = |range: std::ops::Range<usize>| range.map(|image| summarize(self.row(image))).collect();
            let parts: Vec<Vec<RowSummary>> = map_ranges(0, self.images(), STEP, of_range);
            parts.concat()
        })
    }

    /// Refuses labels that do not fit: one per image, each below the number of classes.
    pub fn check_labels(&self, labels: &[usize]) -> Result<(), EstimateError> {
        check_classes("label", labels, self.images(), self.classes)
    }

    /// The share of images whose predicted class is their label.
    pub fn accuracy(&self, labels: &[usize]) -> Result<f64, EstimateError> {
        self.check_labels(labels)?;
        let predicted = self.classes_predicted();
        let right = predicted.iter().zip(labels).filter(|(p, l)| p == l).count();
        Ok(right as f64 / labels.len() as f64)
    }
}

/// The largest logit of a row.
pub(crate) fn largest(row: &[f32]) -> f64 {
    f64::from(row.iter().copied().fold(f32::NEG_INFINITY, f32::max))
}

/// Refuses values that are not finite or do not fill at least one row of at least one value.
pub(crate) fn check_rows(what: &'static str, values: &[f32], width: usize) -> Result<(), EstimateError> {
    if width == 0 || values.is_empty() {
        return Err(EstimateError::Empty { what });
    }
    if !values.len().is_multiple_of(width) {
        return Err(EstimateError::Ragged { what, found: values.len(), width });
    }
    match values.iter().position(|z| !z.is_finite()) {
        Some(index) => Err(EstimateError::NotFinite { what, index, found: values[index].into() }),
        None => Ok(()),
    }
}

/// Refuses class numbers that are too many, too few or out of range.
pub(crate) fn check_classes(
    what: &'static str,
    found: &[usize],
    images: usize,
    classes: usize,
) -> Result<(), EstimateError> {
    if found.len() != images {
        return Err(EstimateError::Length { what: "class numbers", found: found.len(), expected: images });
    }
    match found.iter().position(|class| *class >= classes) {
        Some(index) => Err(EstimateError::UnknownClass { what, index, found: found[index], classes }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probabilities_are_told_from_logits() {
        let probs: Vec<f32> = (0..50).flat_map(|i| [i as f32 / 50.0, 0.25 * (1.0 - i as f32 / 50.0)]).collect();
        let probs: Vec<f32> = probs.chunks(2).flat_map(|p| [p[0], p[1], 1.0 - p[0] - p[1]]).collect();
        let check = |logits: &[f32], classes: usize| Outputs::new(logits.to_vec(), classes).unwrap().check_logits();
        assert_eq!(check(&probs, 3), Err(EstimateError::Probabilities { images: 50 }));
        // Half precision keeps eleven bits, brain floats eight.
        for bits in [13, 16] {
            let rounded = |p: &f32| f32::from_bits((p.to_bits() + (1 << (bits - 1))) >> bits << bits);
            assert!(check(&probs.iter().map(rounded).collect::<Vec<_>>(), 3).is_err(), "{bits}");
        }
        let logs: Vec<f32> = probs.iter().map(|p| p.max(1e-9).ln()).collect();
        assert_eq!(check(&logs, 3), Ok(()));
        let one_row_astray = [&probs[..], &[0.5, 0.5, 0.5]].concat();
        assert_eq!(check(&one_row_astray, 3), Ok(()));
        assert_eq!(
            (check(&[1.0; 40], 1), check(&[0.0, 1.0], 2)),
            (Ok(()), Ok(())),
            "one class or one row tell nothing"
        );
    }

    #[test]
    fn logits_of_somebody_else_are_used_where_they_lie() {
        let values: Arc<Vec<f32>> = Arc::new(vec![2.0, 0.0, 0.5, 1.0]);
        let shared = Outputs::shared(values.clone(), 2).unwrap();
        assert_eq!(shared.logits().as_ptr(), values.as_ptr());
        assert_eq!(shared, Outputs::new(values.to_vec(), 2).unwrap());
        assert!(Outputs::shared(Arc::new(vec![f32::NAN, 0.0]), 2).is_err());
    }

    #[test]
    fn bad_logits_are_refused() {
        let refused = |logits: &[f32], classes| Outputs::new(logits.to_vec(), classes).unwrap_err();
        assert!(matches!(refused(&[], 3), EstimateError::Empty { .. }));
        assert!(matches!(refused(&[1.0], 0), EstimateError::Empty { .. }));
        assert!(matches!(refused(&[1.0, 2.0, 3.0], 2), EstimateError::Ragged { .. }));
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let error = refused(&[1.0, bad], 2);
            assert!(matches!(error, EstimateError::NotFiniteLogit { image: 0, class: 1, .. }), "{error}");
        }
    }

    #[test]
    fn the_first_of_tied_classes_is_predicted() {
        let outputs = Outputs::new(vec![0.0, 2.0, 2.0, -1.0, -1.0, -1.0], 3).unwrap();
        assert_eq!(outputs.classes_predicted(), [1, 0]);
        assert_eq!(outputs.accuracy(&[1, 2]).unwrap(), 0.5);
    }

    #[test]
    fn extreme_logits_give_finite_probabilities() {
        let outputs = Outputs::new(vec![f32::MAX, f32::MIN, 0.0, 5.0, 5.0, 5.0], 3).unwrap();
        let mut probs = Vec::new();
        outputs.probs_into(0, &mut probs);
        assert_eq!(probs, [1.0, 0.0, 0.0]);
        assert_eq!(outputs.confidences(), [1.0, 1.0 / 3.0]);
        let entropies = outputs.entropies();
        assert_eq!(entropies[0], 0.0);
        assert!((entropies[1] - 3f64.ln()).abs() < 1e-12);
        assert!(outputs.scaled(1e-3).row(0).iter().all(|z| z.is_finite()));
    }

    #[test]
    fn a_single_class_is_certain() {
        let outputs = Outputs::new(vec![-7.0], 1).unwrap();
        assert_eq!(outputs.confidences(), [1.0]);
        assert_eq!(outputs.entropies(), [0.0]);
        assert_eq!(outputs.classes_predicted(), [0]);
    }

    #[test]
    fn labels_must_fit_images_and_classes() {
        let outputs = Outputs::new(vec![0.0; 6], 3).unwrap();
        assert!(matches!(outputs.check_labels(&[0]), Err(EstimateError::Length { .. })));
        assert!(matches!(outputs.check_labels(&[0, 3]), Err(EstimateError::UnknownClass { index: 1, .. })));
    }
}
