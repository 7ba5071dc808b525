use super::{DataError, Dataset, Layout, Payload, Sample};
use crate::{Image, Label};

/// Images that are already in memory.
///
/// ```
/// use flipcast_images::{Image, Label, dataset::{Dataset, InMemory}};
///
/// let grey = |level: u8| Image::new(2, 2, vec![level; 12]).expect("four pixels");
/// let images = (0..6).map(|i| (grey(40 * i), Label::Class(u32::from(i) % 2)));
/// let data = InMemory::new(images).with_classes(["even", "odd"]);
/// assert_eq!((data.len(), data.id(3)), (6, "3".to_owned()));
/// assert_eq!(data.label(3)?, Label::Class(1));
/// # Ok::<(), flipcast_images::dataset::DataError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct InMemory {
    samples: Vec<Sample>,
    classes: Vec<String>,
    is_stream: bool,
}

impl InMemory {
    /// These images with their labels; an image's id is its number.
    pub fn new(images: impl IntoIterator<Item = (Image, Label)>) -> Self {
        let sample = |(index, (image, label)): (usize, (Image, Label))| Sample {
            id: index.to_string(),
            payload: Payload::Pixels(image),
            label,
        };
        Self::from_samples(images.into_iter().enumerate().map(sample))
    }

    /// These samples, which may be encoded.
    pub fn from_samples(samples: impl IntoIterator<Item = Sample>) -> Self {
        Self { samples: samples.into_iter().collect(), ..Self::default() }
    }

    /// With names of the classes, in label order.
    pub fn with_classes<S: Into<String>>(mut self, classes: impl IntoIterator<Item = S>) -> Self {
        self.classes = classes.into_iter().map(Into::into).collect();
        self
    }

    /// As a stream, whose order is part of the data.
    pub fn as_stream(mut self) -> Self {
        self.is_stream = true;
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
        self.samples[index].id.clone()
    }

    fn label(&self, index: usize) -> Result<Label, DataError> {
        Ok(self.samples[index].label.clone())
    }

    fn sample(&self, index: usize) -> Result<Sample, DataError> {
        Ok(self.samples[index].clone())
    }

    fn is_stream(&self) -> bool {
        self.is_stream
    }
}
