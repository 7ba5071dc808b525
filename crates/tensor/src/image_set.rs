use crate::{ByteChange, ByteRecipe, ByteScale, Shape, TensorError};
use std::sync::{Arc, OnceLock};

/// Preprocessed images of one size that many batches are taken from. It never changes, so that whoever uses it often may
/// keep a copy where it is quicker to reach, such as in a GPU's memory.
///
/// It holds values, or bytes and what they stand for, which is a quarter of that. Bytes may also be told instead of given:
/// as a change of another set's, which is made when they are first asked for, so that an executor that makes the change
/// itself needs no copy of them.
#[derive(Debug)]
pub struct ImageSet {
    images: usize,
    extents: [usize; 3],
    store: Store,
    /// Positions of images with a NaN or an infinity, once somebody asked.
    non_finite: OnceLock<Vec<u32>>,
}

#[derive(Debug)]
enum Store {
    Values(Vec<f32>),
    Bytes { bytes: OnceLock<Vec<u8>>, scale: Arc<ByteScale>, derived: Option<Derived> },
}

/// How the bytes of a set come from those of another.
#[derive(Debug)]
pub struct Derived {
    base: Arc<ImageSet>,
    change: Arc<dyn ByteChange>,
    recipe: ByteRecipe,
    numbers: Vec<usize>,
}

impl Derived {
    /// The other set, with as many images of the same size.
    pub fn base(&self) -> &Arc<ImageSet> {
        &self.base
    }

    /// What happens to its images, told in full.
    pub fn recipe(&self) -> &ByteRecipe {
        &self.recipe
    }

    /// The number that the image at each position has in the change.
    pub fn numbers(&self) -> &[usize] {
        &self.numbers
    }

    /// The bytes of the image at `position`, from those of the other set.
    pub fn image(&self, position: usize) -> Vec<u8> {
        let Pixels::Bytes(bytes, _) = self.base.pixels() else {
            unreachable!("only bytes are derived from");
        };
        let len = self.base.image_len();
        let mut image = bytes[position * len..(position + 1) * len].to_vec();
        self.change
            .change(self.numbers[position], self.base.extents, &mut image)
            .expect("what has a recipe refuses no image");
        image
    }

    /// All bytes, made on every core.
    fn bytes(&self) -> Vec<u8> {
        let len = self.base.image_len();
        let mut bytes = vec![0; len * self.numbers.len()];
        let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
        let share = self.numbers.len().div_ceil(threads).max(1);
        std::thread::scope(|scope| {
            for (part, bytes) in bytes.chunks_mut((share * len).max(1)).enumerate() {
                scope.spawn(move || {
                    for (at, image) in bytes.chunks_mut(len).enumerate() {
                        image.copy_from_slice(&self.image(part * share + at));
                    }
                });
            }
        });
        bytes
    }
}

/// What a set holds, image after image.
#[derive(Clone, Copy, Debug)]
pub enum Pixels<'a> {
    /// Values as networks take them.
    Values(&'a [f32]),
    /// Bytes, and what they stand for.
    Bytes(&'a [u8], &'a ByteScale),
}

impl ImageSet {
    /// A set of `images` images of `height` x `width` x `channels`, which `values` must fill exactly.
    pub fn new([images, height, width, channels]: [usize; 4], values: Vec<f32>) -> Result<Self, TensorError> {
        Shape::from([images, height, width, channels]).expect_len(values.len())?;
        let extents = [height, width, channels];
        Ok(Self::with(images, extents, Store::Values(values)))
    }

    /// The same from bytes on a scale of as many channels.
    pub fn from_bytes(
        [images, height, width, channels]: [usize; 4],
        bytes: Vec<u8>,
        scale: Arc<ByteScale>,
    ) -> Result<Self, TensorError> {
        Shape::from([images, height, width, channels]).expect_len(bytes.len())?;
        Shape::from([channels, 256]).expect_len(scale.values().len())?;
        let store = Store::Bytes { bytes: OnceLock::from(bytes), scale, derived: None };
        Ok(Self::with(images, [height, width, channels], store))
    }

    /// The images of `base` after `change`, in which they have these `numbers`; `None` if `base` does not hold bytes or the
    /// change has no recipe for its images.
    ///
    /// # Panics
    /// If there is not one number per image.
    pub fn derive(base: &Arc<Self>, change: Arc<dyn ByteChange>, numbers: Vec<usize>) -> Option<Self> {
        assert_eq!(numbers.len(), base.images, "every image has a number");
        let Store::Bytes { scale, .. } = &base.store else {
            return None;
        };
        let store = Store::Bytes {
            bytes: OnceLock::new(),
            scale: Arc::clone(scale),
            derived: Some(Derived { recipe: change.recipe(base.extents)?, base: Arc::clone(base), change, numbers }),
        };
        Some(Self::with(base.images, base.extents, store))
    }

    fn with(images: usize, extents: [usize; 3], store: Store) -> Self {
        Self { images, extents, store, non_finite: OnceLock::new() }
    }

    /// Number of images.
    pub fn images(&self) -> usize {
        self.images
    }

    /// Height, width and channels of every image.
    pub fn extents(&self) -> [usize; 3] {
        self.extents
    }

    /// Values of one image.
    pub fn image_len(&self) -> usize {
        self.extents.iter().product()
    }

    /// Bytes that all images take as they are held.
    pub fn size(&self) -> usize {
        let each = match self.store {
            Store::Values(_) => 4,
            Store::Bytes { .. } => 1,
        };
        each * self.images * self.image_len()
    }

    /// All images. Bytes that were only told are made now.
    pub fn pixels(&self) -> Pixels<'_> {
        match &self.store {
            Store::Values(values) => Pixels::Values(values),
            Store::Bytes { bytes, scale, derived } => {
                let make = || derived.as_ref().map_or_else(Vec::new, Derived::bytes);
                Pixels::Bytes(bytes.get_or_init(make), scale)
            }
        }
    }

    /// What the bytes stand for, if it is bytes.
    pub fn scale(&self) -> Option<&Arc<ByteScale>> {
        match &self.store {
            Store::Values(_) => None,
            Store::Bytes { scale, .. } => Some(scale),
        }
    }

    /// How its bytes come from those of another set, if they do and nobody has asked for them yet.
    pub fn derived(&self) -> Option<&Derived> {
        match &self.store {
            Store::Bytes { bytes, derived, .. } if bytes.get().is_none() => derived.as_ref(),
            _ => None,
        }
    }

    /// The values of one image, if it is values that the set holds.
    pub(crate) fn image_values(&self, position: usize) -> Option<&[f32]> {
        let len = self.image_len();
        match &self.store {
            Store::Values(values) => Some(&values[position * len..(position + 1) * len]),
            Store::Bytes { .. } => None,
        }
    }

    /// Appends the values of one image.
    pub fn append_image(&self, position: usize, values: &mut Vec<f32>) {
        let place = position * self.image_len()..(position + 1) * self.image_len();
        match self.pixels() {
            Pixels::Values(all) => values.extend_from_slice(&all[place]),
            Pixels::Bytes(all, scale) => scale.append(&all[place], values),
        }
    }

    /// Positions of images that hold a NaN or an infinity, in rising order. They are looked for once.
    pub fn non_finite(&self) -> &[u32] {
        self.non_finite.get_or_init(|| {
            if self.scale().is_some_and(|scale| all_finite(scale.values())) {
                return Vec::new();
            }
            let mut values = Vec::new();
            let mut is_bad = |&position: &u32| {
                values.clear();
                self.append_image(position as usize, &mut values);
                !all_finite(&values)
            };
            (0..self.images as u32).filter(&mut is_bad).collect()
        })
    }
}

/// Whether every value is a number. Without an early end, so that it runs at the speed of memory.
fn all_finite(values: &[f32]) -> bool {
    const EXPONENT: u32 = 0x7f80_0000;
    let bad = |value: &f32| u32::from(value.to_bits() & EXPONENT == EXPONENT);
    values.iter().map(bad).fold(0, |any, bad| any | bad) == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ChangeError;

    fn values(set: &ImageSet, position: usize) -> Vec<f32> {
        let mut values = Vec::new();
        set.append_image(position, &mut values);
        values
    }

    #[test]
    fn images_that_are_no_numbers_are_named() {
        let mut values = vec![0.5; 4 * 6];
        values[7] = f32::NAN;
        values[23] = f32::NEG_INFINITY;
        let set = ImageSet::new([4, 1, 2, 3], values).unwrap();
        assert_eq!(set.non_finite(), [1, 3]);
        assert_eq!(set.image_values(2).unwrap(), [0.5; 6]);
        // A byte that stands for no number is bad where it occurs.
        let value = |_, byte| if byte == 9 { f32::INFINITY } else { 0.5 };
        let scale = Arc::new(ByteScale::new(3, value));
        let bytes = vec![1, 2, 3, 4, 5, 6, 7, 8, 9];
        let set = ImageSet::from_bytes([3, 1, 1, 3], bytes, scale).unwrap();
        assert_eq!(set.non_finite(), [2]);
    }

    #[test]
    fn a_set_is_filled_exactly() {
        assert!(ImageSet::new([2, 1, 1, 3], vec![0.0; 5]).is_err());
        let scale = |channels| Arc::new(ByteScale::new(channels, |_, byte| f32::from(byte)));
        let bytes = |count, channels| ImageSet::from_bytes([2, 1, 1, 3], vec![0; count], scale(channels)).is_ok();
        assert!(bytes(6, 3) && !bytes(5, 3) && !bytes(6, 1));
    }

    #[test]
    fn bytes_take_a_quarter() {
        let scale = Arc::new(ByteScale::new(3, |channel, byte| f32::from(byte) / (channel + 1) as f32));
        let set = ImageSet::from_bytes([2, 1, 1, 3], vec![4, 4, 6, 10, 20, 30], scale).unwrap();
        assert_eq!((set.size(), set.image_len()), (6, 3));
        assert_eq!(values(&set, 0), [4., 2., 2.]);
        assert_eq!(values(&set, 1), [10., 10., 10.]);
        let floats = ImageSet::new([2, 1, 1, 3], vec![0.0; 6]).unwrap();
        assert_eq!(floats.size(), 24);
    }

    /// Adds the number of the image to its bytes.
    #[derive(Debug)]
    struct Add;

    impl ByteChange for Add {
        fn change(&self, index: usize, _: [usize; 3], bytes: &mut Vec<u8>) -> Result<(), ChangeError> {
            bytes.iter_mut().for_each(|byte| *byte += index as u8);
            Ok(())
        }
        fn recipe(&self, [height, ..]: [usize; 3]) -> Option<ByteRecipe> {
            (height < 100).then_some(ByteRecipe::Contrast { factor: 1.0 })
        }
    }

    #[test]
    fn told_bytes_are_made_when_asked_for() {
        let scale = Arc::new(ByteScale::new(1, |_, byte| f32::from(byte)));
        let bytes = || (0..10).collect::<Vec<u8>>();
        let base = Arc::new(ImageSet::from_bytes([5, 2, 1, 1], bytes(), scale.clone()).unwrap());
        let numbers = vec![10, 20, 30, 40, 50];
        let set = ImageSet::derive(&base, Arc::new(Add), numbers.clone()).unwrap();
        assert_eq!(set.derived().unwrap().numbers(), numbers);
        assert_eq!(values(&set, 1), [22., 23.]);
        assert_eq!(values(&set, 4), [58., 59.]);
        assert!(set.derived().is_none());
        let tall = ImageSet::from_bytes([1, 100, 1, 1], vec![0; 100], scale).unwrap();
        assert!(ImageSet::derive(&Arc::new(tall), Arc::new(Add), vec![0]).is_none());
    }
}
