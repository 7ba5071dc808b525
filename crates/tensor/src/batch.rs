use crate::{ByteScale, DeviceImages, ImageSet, Pixels, Shape, TensorError};
use std::error::Error;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Preprocessed images, channels-last: `values[((image * height + y) * width + x) * channels + channel]`.
///
/// A batch holds its values; or it holds bytes and what they stand for, is a selection from an [`ImageSet`], or lies on a
/// device ([`DeviceImages`]), and the values are put together when they are first asked for: an executor that takes bytes, keeps
/// the set, or runs on the device, needs none.
///
/// ```
/// use flipcast_tensor::Batch;
///
/// // Two images of one row, two columns and three channels.
/// let batch = Batch::new([2, 1, 2, 3], (0..12).map(|x| x as f32).collect())?;
/// assert_eq!(batch.image(1), [6., 7., 8., 9., 10., 11.]);
/// // The same images as PyTorch stores them, channels first.
/// let given = [0., 3., 1., 4., 2., 5., 6., 9., 7., 10., 8., 11.];
/// assert_eq!(Batch::from_channels_first([2, 3, 1, 2], &given)?, batch);
/// # Ok::<(), flipcast_tensor::TensorError>(())
/// ```
#[derive(Debug)]
pub struct Batch {
    images: usize,
    height: usize,
    width: usize,
    channels: usize,
    values: OnceLock<Vec<f32>>,
    /// Where the values come from, unless they were given.
    source: Option<Source>,
    /// Why a device did not give its values.
    failure: OnceLock<Arc<dyn Error + Send + Sync>>,
    /// Memory for the values.
    spare: Mutex<Vec<f32>>,
}

#[derive(Clone, Debug)]
enum Source {
    Bytes { bytes: Vec<u8>, scale: Arc<ByteScale> },
    Set { set: Arc<ImageSet>, positions: Vec<u32> },
    Device(Arc<dyn DeviceImages>),
}

/// Memory of batches that are gone, for the next ones.
#[derive(Debug, Default)]
pub struct BatchMemory {
    /// Memory of values.
    pub values: Vec<f32>,
    /// Memory of bytes.
    pub bytes: Vec<u8>,
}

impl Batch {
    /// A batch of `images` images of `height` x `width` x `channels`, which `values` must fill exactly.
    pub fn new(extents: [usize; 4], values: Vec<f32>) -> Result<Self, TensorError> {
        Shape::from(extents).expect_len(values.len())?;
        Ok(Self { values: OnceLock::from(values), ..Self::with_source(extents, None, Vec::new()) })
    }

    /// The same from bytes on a scale of as many channels. `spare` is memory that may be filled with their values.
    pub fn from_bytes(
        extents: [usize; 4],
        bytes: Vec<u8>,
        scale: &Arc<ByteScale>,
        spare: Vec<f32>,
    ) -> Result<Self, TensorError> {
        Shape::from(extents).expect_len(bytes.len())?;
        Shape::from([extents[3], 256]).expect_len(scale.values().len())?;
        let scale = Arc::clone(scale);
        Ok(Self::with_source(extents, Some(Source::Bytes { bytes, scale }), spare))
    }

    /// The images of `set` at `positions`. `spare` is memory that may be filled with their values.
    ///
    /// # Panics
    /// If the set has no image at one of the positions.
    pub fn select(set: &Arc<ImageSet>, positions: Vec<u32>, spare: Vec<f32>) -> Self {
        let within = |&position: &u32| (position as usize) < set.images();
        assert!(positions.iter().all(within), "positions lie in the set");
        let [height, width, channels] = set.extents();
        let extents = [positions.len(), height, width, channels];
        let set = Arc::clone(set);
        Self::with_source(extents, Some(Source::Set { set, positions }), spare)
    }

    /// Images that lie on a device.
    pub fn on_device(images: Arc<dyn DeviceImages>) -> Self {
        Self::with_source(images.extents(), Some(Source::Device(images)), Vec::new())
    }

    fn with_source([images, height, width, channels]: [usize; 4], source: Option<Source>, spare: Vec<f32>) -> Self {
        Self {
            images,
            height,
            width,
            channels,
            values: OnceLock::new(),
            source,
            failure: OnceLock::new(),
            spare: Mutex::new(spare),
        }
    }

    /// The same from PyTorch's order, `[image, channel, y, x]`.
    pub fn from_channels_first(
        [images, channels, height, width]: [usize; 4],
        values: &[f32],
    ) -> Result<Self, TensorError> {
        Shape::from([images, channels, height, width]).expect_len(values.len())?;
        let pixels = height * width;
        let mut last = vec![0.0; values.len()];
        for image in 0..images {
            for channel in 0..channels {
                for pixel in 0..pixels {
                    last[(image * pixels + pixel) * channels + channel] =
                        values[(image * channels + channel) * pixels + pixel];
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
        match &self.source {
            Some(Source::Set { set, positions }) => Some((set, positions)),
            _ => None,
        }
    }

    /// The images on a device that it consists of.
    pub fn device_images(&self) -> Option<&dyn DeviceImages> {
        match &self.source {
            Some(Source::Device(images)) => Some(&**images),
            _ => None,
        }
    }

    /// The bytes it was given, image after image, and what they stand for.
    pub fn bytes(&self) -> Option<(&[u8], &Arc<ByteScale>)> {
        match &self.source {
            Some(Source::Bytes { bytes, scale }) => Some((bytes, scale)),
            _ => None,
        }
    }

    /// What its bytes stand for, if it was given bytes or is a selection from a set of them.
    pub fn scale(&self) -> Option<&Arc<ByteScale>> {
        match self.source.as_ref()? {
            Source::Bytes { scale, .. } => Some(scale),
            Source::Set { set, .. } => set.scale(),
            Source::Device(_) => None,
        }
    }

    /// The bytes of one image, if it was given bytes or is a selection from a set of them.
    pub fn image_bytes(&self, index: usize) -> Option<&[u8]> {
        let (bytes, position) = match self.source.as_ref()? {
            Source::Bytes { bytes, .. } => (bytes.as_slice(), index),
            Source::Set { set, positions } => match set.pixels() {
                Pixels::Bytes(bytes, _) => (bytes, positions[index] as usize),
                Pixels::Values(_) => return None,
            },
            Source::Device(_) => return None,
        };
        let len = self.height * self.width * self.channels;
        Some(&bytes[position * len..(position + 1) * len])
    }

    /// Has a device give its values, if the images lie on one.
    ///
    /// # Errors
    /// What the device reports.
    pub fn read(&self) -> Result<(), Arc<dyn Error + Send + Sync>> {
        if self.device_images().is_some() {
            self.values();
        }
        self.failure.get().map_or(Ok(()), |failure| Err(Arc::clone(failure)))
    }

    /// All values, image after image. Those that a device cannot give are NaN, and [`Batch::read`] tells why.
    pub fn values(&self) -> &[f32] {
        self.values.get_or_init(|| {
            let len = self.images * self.height * self.width * self.channels;
            let spare = self.spare.lock();
            let mut values = std::mem::take(&mut *spare.unwrap_or_else(PoisonError::into_inner));
            values.clear();
            values.reserve_exact(len);
            match &self.source {
                Some(Source::Bytes { bytes, scale }) => scale.append(bytes, &mut values),
                Some(Source::Set { set, positions }) => {
                    for &position in positions {
                        set.append_image(position as usize, &mut values);
                    }
                }
                Some(Source::Device(images)) => {
                    if let Err(failure) = images.append(&mut values) {
                        // Set once: values are made once.
                        let _ = self.failure.set(Arc::from(failure));
                        values.clear();
                        values.resize(len, f32::NAN);
                    }
                }
                None => {}
            }
            values
        })
    }

    /// All values, to change in place. Whatever they came from is left behind.
    pub fn values_mut(&mut self) -> &mut [f32] {
        self.values();
        self.source = None;
        self.values.get_mut().expect("the values were just asked for")
    }

    /// The values of one image.
    pub fn image(&self, index: usize) -> &[f32] {
        if let (Some((set, positions)), None) = (self.selection(), self.values.get())
            && let Some(values) = set.image_values(positions[index] as usize)
        {
            return values;
        }
        let len = self.height * self.width * self.channels;
        &self.values()[index * len..(index + 1) * len]
    }

    /// Gives up the extents and returns the values.
    pub fn into_values(self) -> Vec<f32> {
        self.values();
        self.into_memory().values
    }

    /// Memory that the batch no longer needs, whatever it holds, so that a loader can fill it again.
    pub fn into_memory(self) -> BatchMemory {
        let spare = self.spare.into_inner();
        let spare = spare.unwrap_or_else(PoisonError::into_inner);
        BatchMemory {
            values: self.values.into_inner().unwrap_or(spare),
            bytes: match self.source {
                Some(Source::Bytes { bytes, .. }) => bytes,
                _ => Vec::new(),
            },
        }
    }
}

impl Clone for Batch {
    fn clone(&self) -> Self {
        Self {
            values: self.values.clone(),
            source: self.source.clone(),
            failure: self.failure.clone(),
            spare: Mutex::default(),
            ..*self
        }
    }
}

/// Batches are equal when their images are, wherever those lie.
impl PartialEq for Batch {
    fn eq(&self, other: &Self) -> bool {
        let extents = |batch: &Self| [batch.images, batch.height, batch.width, batch.channels];
        extents(self) == extents(other) && (0..self.images).all(|image| self.image(image) == other.image(image))
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
        assert_eq!((batch.image(1), batch.image(2)), (&[0., 1.][..], &[20., 21.][..]));
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
        assert_eq!(batch.image(0), [-1., 11.]);
        assert_eq!(set.image_values(1).unwrap(), [10., 11.]);
    }

    #[test]
    fn memory_goes_round_whether_or_not_it_was_needed() {
        let spare = Vec::with_capacity(100);
        let place = spare.as_ptr();
        let unused = Batch::select(&set(), vec![0], spare).into_memory().values;
        assert_eq!(unused.as_ptr(), place);
        let used = Batch::select(&set(), vec![0], unused);
        assert_eq!(used.values(), [0., 1.]);
        let back = used.into_memory().values;
        assert_eq!(back.as_ptr(), place);
    }

    #[test]
    fn bytes_stand_for_the_values_of_their_scale() {
        let scale = Arc::new(ByteScale::new(2, |channel, byte| f32::from(byte) + 0.5 * channel as f32));
        let bytes = vec![1, 2, 3, 4, 5, 6, 7, 8];
        let place = bytes.as_ptr();
        let batch = Batch::from_bytes([2, 1, 2, 2], bytes, &scale, Vec::new()).unwrap();
        let values = vec![1., 2.5, 3., 4.5, 5., 6.5, 7., 8.5];
        assert_eq!(batch, Batch::new([2, 1, 2, 2], values.clone()).unwrap());
        assert_eq!(batch.image(1), [5., 6.5, 7., 8.5]);
        let bytes = batch.bytes().unwrap().0;
        let set = ImageSet::from_bytes([2, 1, 2, 2], bytes.to_vec(), scale.clone()).unwrap();
        let both = Batch::select(&Arc::new(set), vec![1, 0], Vec::new());
        assert_eq!(both.image_bytes(0), batch.image_bytes(1));
        assert_eq!(both.scale(), batch.scale());
        assert_eq!((both.image(0), both.image(1)), (&values[4..], &values[..4]));
        let memory = batch.into_memory();
        assert_eq!((memory.bytes.as_ptr(), memory.values), (place, values));
        let short = Batch::from_bytes([2, 1, 2, 2], vec![0; 7], &scale, Vec::new());
        assert!(short.is_err());
    }

    #[test]
    #[should_panic(expected = "positions lie in the set")]
    fn a_position_outside_the_set_is_refused() {
        Batch::select(&set(), vec![3], Vec::new());
    }

    #[derive(Debug)]
    struct Elsewhere;

    impl DeviceImages for Elsewhere {
        fn extents(&self) -> [usize; 4] {
            [2, 1, 2, 1]
        }

        fn append(&self, values: &mut Vec<f32>) -> Result<(), Box<dyn Error + Send + Sync>> {
            values.extend([1., 2., 3., 4.]);
            Ok(())
        }
    }

    #[derive(Debug)]
    struct Gone;

    impl DeviceImages for Gone {
        fn extents(&self) -> [usize; 4] {
            [2, 1, 2, 1]
        }

        fn append(&self, values: &mut Vec<f32>) -> Result<(), Box<dyn Error + Send + Sync>> {
            values.push(1.0);
            Err("the device is gone".into())
        }
    }

    #[test]
    fn what_a_device_cannot_give_is_not_a_number_and_the_reason_is_kept() {
        let batch = Batch::on_device(Arc::new(Gone));
        assert_eq!(batch.read().unwrap_err().to_string(), "the device is gone");
        assert!(batch.values().len() == 4 && batch.values().iter().all(|value| value.is_nan()));
        assert_eq!(batch.clone().read().unwrap_err().to_string(), "the device is gone");
        assert!(Batch::on_device(Arc::new(Elsewhere)).read().is_ok());
    }

    #[test]
    fn images_on_a_device_are_copied_when_their_values_are_asked_for() {
        let batch = Batch::on_device(Arc::new(Elsewhere));
        assert!(batch.device_images().is_some() && batch.bytes().is_none() && batch.image_bytes(0).is_none());
        assert_eq!((batch.images(), batch.image(1)), (2, &[3., 4.][..]));
        assert_eq!(batch, Batch::new([2, 1, 2, 1], vec![1., 2., 3., 4.]).unwrap());
        let mut changed = batch.clone();
        changed.values_mut()[0] = 9.0;
        assert!(changed.device_images().is_none());
    }
}
