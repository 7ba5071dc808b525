use std::sync::Arc;

use super::{DataError, Dataset, Ignored, Layout, Sample};
use crate::Label;

/// Some images of another dataset, in the order of a list of their indices. They keep their ids, labels and stored
/// indices, so that a corruption drawn per image is the same one as in the whole dataset.
pub struct Subset {
    dataset: Arc<dyn Dataset>,
    indices: Vec<usize>,
}

impl Subset {
    /// The images of `dataset` at `indices`, each of which must exist and be named once.
    pub fn new(dataset: Arc<dyn Dataset>, indices: Vec<usize>) -> Result<Self, DataError> {
        let images = dataset.len();
        let mut seen = vec![false; images];
        for &index in &indices {
            match seen.get_mut(index) {
                Some(seen) if !*seen => *seen = true,
                Some(_) => return Err(DataError::SubsetTwice { index }),
                None => return Err(DataError::SubsetIndex { index, images }),
            }
        }
        Ok(Self { dataset, indices })
    }

    /// The images of `dataset` at `indices`, each of which must exist; an image may come more than once.
    pub fn repeating(dataset: Arc<dyn Dataset>, indices: Vec<usize>) -> Result<Self, DataError> {
        let images = dataset.len();
        match indices.iter().find(|&&index| index >= images) {
            Some(&index) => Err(DataError::SubsetIndex { index, images }),
            None => Ok(Self { dataset, indices }),
        }
    }

    /// The index in the whole dataset of each image.
    pub fn indices(&self) -> &[usize] {
        &self.indices
    }
}

impl Dataset for Subset {
    fn layout(&self) -> Layout {
        self.dataset.layout()
    }

    fn len(&self) -> usize {
        self.indices.len()
    }

    fn classes(&self) -> &[String] {
        self.dataset.classes()
    }

    fn id(&self, index: usize) -> String {
        self.dataset.id(self.indices[index])
    }

    fn label(&self, index: usize) -> Result<Label, DataError> {
        self.dataset.label(self.indices[index])
    }

    fn sample(&self, index: usize) -> Result<Sample, DataError> {
        self.dataset.sample(self.indices[index])
    }

    fn stored_index(&self, index: usize) -> usize {
        self.dataset.stored_index(self.indices[index])
    }

    fn ignored(&self) -> &Ignored {
        self.dataset.ignored()
    }

    fn reads_at_once(&self) -> usize {
        self.dataset.reads_at_once()
    }

    fn is_stream(&self) -> bool {
        self.dataset.is_stream()
    }
}
