use super::capacity::{capacities, whole_images};
use crate::Outputs;
use crate::softmax::write_probs;
use std::borrow::Cow;

/// Probabilities of some images, one row each.
#[derive(Clone, Debug)]
pub(crate) struct ProbRows {
    values: Vec<f64>,
    classes: usize,
}

impl ProbRows {
    /// The rows of the images named, in this order.
    pub(crate) fn new(outputs: &Outputs, images: &[usize]) -> Self {
        let (classes, summaries) = (outputs.classes(), outputs.summaries());
        let mut values = vec![0.0; images.len() * classes];
        for (&image, row) in images.iter().zip(values.chunks_exact_mut(classes)) {
            write_probs(outputs.row(image), &summaries[image], row);
        }
        Self { values, classes }
    }

    pub(crate) fn images(&self) -> usize {
        self.values.len() / self.classes
    }

    pub(crate) fn classes(&self) -> usize {
        self.classes
    }
}

/// Which images are to be given which classes.
pub(crate) struct Problem<'a> {
    probs: &'a ProbRows,
    /// The row of each image.
    rows: Cow<'a, [usize]>,
    capacities: Vec<i64>,
    places: Vec<usize>,
}

impl<'a> Problem<'a> {
    /// Images by their rows, some perhaps more than once, and room for them by the classes' shares.
    ///
    /// The shares must be finite, not negative and not all zero, one per class.
    pub(crate) fn new(probs: &'a ProbRows, rows: Cow<'a, [usize]>, shares: &[f64]) -> Self {
        let capacities = capacities(shares, rows.len());
        let places = whole_images(&capacities);
        Self { probs, rows, capacities, places }
    }

    /// Every image once.
    pub(crate) fn of_all(probs: &'a ProbRows, shares: &[f64]) -> Self {
        Self::new(probs, (0..probs.images()).collect(), shares)
    }

    pub(super) fn images(&self) -> usize {
        self.rows.len()
    }

    pub(super) fn classes(&self) -> usize {
        self.probs.classes
    }

    /// The probabilities of one image.
    pub(super) fn row(&self, image: usize) -> &[f64] {
        &self.probs.values[self.rows[image] * self.probs.classes..][..self.probs.classes]
    }

    /// The mass each class must end up with.
    pub(super) fn capacities(&self) -> &[i64] {
        &self.capacities
    }

    /// The capacity of each class in whole images, all images together.
    pub(super) fn places(&self) -> &[usize] {
        &self.places
    }
}
