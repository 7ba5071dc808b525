use super::capacity::{UNIT, capacities, rounded};
use crate::Outputs;

/// Which images are to be given which classes.
pub(crate) struct Problem {
    probs: Vec<f64>,
    classes: usize,
    capacities: Vec<i64>,
    places: Vec<usize>,
}

impl Problem {
    /// The probabilities of the images named, and room for them by the classes' shares.
    ///
    /// The shares must be finite, not negative and not all zero, one per class.
    pub(crate) fn new(outputs: &Outputs, images: &[usize], shares: &[f64]) -> Self {
        let classes = outputs.classes();
        let mut probs = Vec::with_capacity(images.len() * classes);
        let mut row = Vec::with_capacity(classes);
        for &image in images {
            outputs.probs_into(image, &mut row);
            probs.extend_from_slice(&row);
        }
        let capacities = capacities(shares, images.len());
        Self {
            probs,
            classes,
            places: rounded(&capacities, UNIT).into_iter().map(|mass| (mass / UNIT) as usize).collect(),
            capacities,
        }
    }

    pub(super) fn images(&self) -> usize {
        self.probs.len() / self.classes
    }

    pub(super) fn classes(&self) -> usize {
        self.classes
    }

    /// The probabilities of one image.
    pub(super) fn row(&self, image: usize) -> &[f64] {
        &self.probs[image * self.classes..][..self.classes]
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
