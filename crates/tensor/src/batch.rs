use crate::{ImageSet, TensorError};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Preprocessed images, channels-last: `values[((image * height + y) * width + x) * channels + channel]`.
///
/// A batch holds its values, or it is a selection from an [`ImageSet`], whose values are put together when they are first
/// asked for: an executor that keeps the set needs only the positions.
#[derive(Debug)]
pub struct Batch {
    images: usize,
    height: usize,
    width: usize,
    channels: usize,
    values: OnceLock<Vec<f32>>,
    selection: Option<Selection>,
}

/// Images of a set.
#[derive(Debug)]
struct Selection {
    set: Arc<ImageSet>,
    positions: Vec<u32>,
    /// Memory for the values.
    spare: Mutex<Vec<f32>>,
}

impl Selection {
    /// Puts the values together.
    fn gather(&self) -> Vec<f32> {
        let spare = self.spare.lock();
        let mut values = std::mem::take(&mut *spare.unwrap_or_else(PoisonError::into_inner));
        values.clear();
        values.reserve_exact(self.positions.len() * self.set.image_len());
        for &position in &self.positions {
            values.extend_from_slice(self.set.image(position as usize));
        }
        values
    }
}

impl Batch {
    /// A batch of `images` images of `height` x `width` x `channels`, which `values` must fill exactly.
    pub fn new(
        [images, height, width, channels]: [usize; 4],
        values: Vec<f32>,
    ) -> Result<Self, TensorError> {
        let tensor = crate::Tensor::new([images, height, width, channels], values)?;
        Ok(Self {
            images,
            height,
            width,
            channels,
            values: OnceLock::from(tensor.into_values()),
            selection: None,
        })
    }

    /// The images of `set` at `positions`. `spare` is memory that may be filled with their values.
    ///
    /// # Panics
    /// If the set has no image at one of the positions.
    pub fn select(set: &Arc<ImageSet>, positions: Vec<u32>, spare: Vec<f32>) -> Self {
        let within = |&position: &u32| (position as usize) < set.images();
        assert!(positions.iter().all(within), "positions lie in the set");
        let [height, width, channels] = set.extents();
        Self {
            images: positions.len(),
            height,
            width,
            channels,
            values: OnceLock::new(),
            selection: Some(Selection {
                set: Arc::clone(set),
                positions,
                spare: Mutex::new(spare),
            }),
        }
    }

    /// The same from PyTorch's order, `[image, channel, y, x]`.
    pub fn from_channels_first(
        [images, channels, height, width]: [usize; 4],
        values: &[f32],
    ) -> Result<Self, TensorError> {
        let tensor = crate::Tensor::new([images, channels, height, width], values.to_vec())?;
        let pixels = height * width;
        let mut last = vec![0.0; tensor.values().len()];
        for image in 0..images {
            for channel in 0..channels {
                for pixel in 0..pixels {
                    last[(image * pixels + pixel) * channels + channel] =
                        tensor.values()[(image * channels + channel) * pixels + pixel];
                }
            }
        }
        Self::new([images, height, width, channels], last)
    }

    /// Number of images.
    pub fn images(&self) -> usize {
        self.images
    }

    /// Rows per image.
    pub fn height(&self) -> usize {
        self.height
    }

    /// Columns per image.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Channels per pixel.
    pub fn channels(&self) -> usize {
        self.channels
    }

    /// The set it is a selection from, and the positions of its images there.
    pub fn selection(&self) -> Option<(&Arc<ImageSet>, &[u32])> {
        let selection = self.selection.as_ref()?;
        Some((&selection.set, &selection.positions))
    }

    /// All values, image after image.
    pub fn values(&self) -> &[f32] {
        self.values.get_or_init(|| match &self.selection {
            Some(selection) => selection.gather(),
            None => Vec::new(),
        })
    }

    /// All values, to change in place. A selection becomes a batch of its own.
    pub fn values_mut(&mut self) -> &mut [f32] {
        self.values();
        self.selection = None;
        self.values
            .get_mut()
            .expect("the values were just asked for")
    }

    /// The values of one image.
    pub fn image(&self, index: usize) -> &[f32] {
        if let (Some(selection), None) = (&self.selection, self.values.get()) {
            return selection.set.image(selection.positions[index] as usize);
        }
        let len = self.height * self.width * self.channels;
        &self.values()[index * len..(index + 1) * len]
    }

    /// Gives up the extents and returns the values.
    pub fn into_values(self) -> Vec<f32> {
        self.values();
        self.into_memory()
    }

    /// Memory that the batch no longer needs, whatever it holds, so that a loader can fill it again.
    pub fn into_memory(self) -> Vec<f32> {
        match (self.values.into_inner(), self.selection) {
            (Some(values), _) => values,
            (None, Some(selection)) => {
                let spare = selection.spare.into_inner();
                spare.unwrap_or_else(PoisonError::into_inner)
            }
            (None, None) => Vec::new(),
        }
    }
}

impl Clone for Batch {
    fn clone(&self) -> Self {
        Self {
            values: self.values.clone(),
            selection: self.selection.as_ref().map(|selection| Selection {
                set: Arc::clone(&selection.set),
                positions: selection.positions.clone(),
                spare: Mutex::default(),
            }),
            ..*self
        }
    }
}

/// Batches are equal when their images are, wherever those lie.
impl PartialEq for Batch {
    fn eq(&self, other: &Self) -> bool {
        let extents = |batch: &Self| [batch.images, batch.height, batch.width, batch.channels];
        extents(self) == extents(other)
            && (0..self.images).all(|image| self.image(image) == other.image(image))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn channels_move_last() {
        let batch = Batch::from_channels_first([1, 2, 1, 3], &[1., 2., 3., 4., 5., 6.]).unwrap();
        assert_eq!(batch.values(), [1., 4., 2., 5., 3., 6.]);
        assert_eq!([batch.height(), batch.width(), batch.channels()], [1, 3, 2]);
    }

    /// Three images of two values: 0 and 1, 10 and 11, 20 and 21.
    fn set() -> Arc<ImageSet> {
        let values = vec![0., 1., 10., 11., 20., 21.];
        Arc::new(ImageSet::new([3, 1, 2, 1], values).unwrap())
    }

    #[test]
    fn a_selection_holds_the_images_it_names_in_their_order() {
        let batch = Batch::select(&set(), vec![2, 0, 2], Vec::new());
        let written = Batch::new([3, 1, 2, 1], vec![20., 21., 0., 1., 20., 21.]).unwrap();
        assert_eq!(
            (batch.image(1), batch.image(2)),
            (&[0., 1.][..], &[20., 21.][..])
        );
        assert_eq!(batch, written);
        assert_eq!(batch.values(), written.values());
        assert_eq!(batch.clone().into_values(), written.into_values());
    }

    #[test]
    fn a_changed_selection_is_none_any_more_and_leaves_the_set_alone() {
        let set = set();
        let mut batch = Batch::select(&set, vec![1], Vec::new());
        assert!(batch.selection().is_some());
        batch.values_mut()[0] = -1.0;
        assert!(batch.selection().is_none());
        assert_eq!(
            (batch.image(0), set.image(1)),
            (&[-1., 11.][..], &[10., 11.][..])
        );
    }

    #[test]
    fn memory_goes_round_whether_or_not_it_was_needed() {
        let spare = Vec::with_capacity(100);
        let place = spare.as_ptr();
        let unused = Batch::select(&set(), vec![0], spare).into_memory();
        assert_eq!(unused.as_ptr(), place);
        let used = Batch::select(&set(), vec![0], unused);
        assert_eq!(used.values(), [0., 1.]);
        let back = used.into_memory();
        assert_eq!(back.as_ptr(), place);
    }

    #[test]
    #[should_panic(expected = "positions lie in the set")]
    fn a_position_outside_the_set_is_refused() {
        Batch::select(&set(), vec![3], Vec::new());
    }
}
