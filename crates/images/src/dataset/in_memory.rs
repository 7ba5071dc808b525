use super::{DataError, Dataset, Layout, Payload, Sample};
use crate::{Image, Label};

/// Images that are already in memory.
///
/// ```
/// use flipcast_images::dataset::{Dataset, InMemory};
/// use flipcast_images::{Image, Label};
///
/// let grey = |value: u8| Image::new(8, 8, vec![value; 8 * 8 * 3]).expect("three bytes a pixel");
/// let data = InMemory::new([(grey(0), Label::Class(0)), (grey(255), Label::Class(1))])
///     .with_classes(["black", "white"]);
/// assert_eq!((data.len(), data.classes()[1].as_str()), (2, "white"));
/// ```
#[derive(Clone, Debug, Default)]
pub struct InMemory {
    samples: Vec<(Image, Label)>,
    classes: Vec<String>,
}

impl InMemory {
    /// Images and their labels, [`Label::Unknown`] where nobody knows.
    pub fn new(samples: impl IntoIterator<Item = (Image, Label)>) -> Self {
        Self { samples: samples.into_iter().collect(), classes: Vec::new() }
    }

    /// The same with names of the classes, in label order.
    pub fn with_classes<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> Self {
        self.classes = names.into_iter().map(Into::into).collect();
        self
    }
}

impl Dataset for InMemory {
    fn layout(&self) -> Layout {
        Layout::Memory
    }

    fn len(&self) -> usize {
        self.samples.len()
    }

    fn classes(&self) -> &[String] {
        &self.classes
    }

    fn id(&self, index: usize) -> String {
        index.to_string()
    }

    fn label(&self, index: usize) -> Result<Label, DataError> {
        Ok(self.samples[index].1.clone())
    }

    fn sample(&self, index: usize) -> Result<Sample, DataError> {
        let (image, label) = self.samples[index].clone();
        Ok(Sample { id: self.id(index), payload: Payload::Pixels(image), label })
    }
}
