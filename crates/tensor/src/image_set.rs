use crate::TensorError;
use std::sync::OnceLock;

/// Preprocessed images of one size that many batches are taken from. It never changes, so that whoever uses it often may
/// keep a copy where it is quicker to reach, such as in a GPU's memory.
#[derive(Debug)]
pub struct ImageSet {
    images: usize,
    extents: [usize; 3],
    values: Vec<f32>,
    /// Positions of images with a NaN or an infinity, once somebody asked.
    non_finite: OnceLock<Vec<u32>>,
}

impl ImageSet {
    /// A set of `images` images of `height` x `width` x `channels`, which `values` must fill exactly.
    pub fn new(
        [images, height, width, channels]: [usize; 4],
        values: Vec<f32>,
    ) -> Result<Self, TensorError> {
        let tensor = crate::Tensor::new([images, height, width, channels], values)?;
        Ok(Self {
            images,
            extents: [height, width, channels],
            values: tensor.into_values(),
            non_finite: OnceLock::new(),
        })
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

    /// All values, image after image.
    pub fn values(&self) -> &[f32] {
        &self.values
    }

    /// The values of one image.
    pub fn image(&self, position: usize) -> &[f32] {
        let len = self.image_len();
        &self.values[position * len..(position + 1) * len]
    }

    /// Positions of images that hold a NaN or an infinity, in rising order. They are looked for once.
    pub fn non_finite(&self) -> &[u32] {
        self.non_finite.get_or_init(|| {
            let positions = 0..self.images as u32;
            positions
                .filter(|&position| !all_finite(self.image(position as usize)))
                .collect()
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

    #[test]
    fn images_that_are_no_numbers_are_named() {
        let mut values = vec![0.5; 4 * 6];
        values[7] = f32::NAN;
        values[23] = f32::NEG_INFINITY;
        let set = ImageSet::new([4, 1, 2, 3], values).unwrap();
        assert_eq!(set.non_finite(), [1, 3]);
        assert_eq!(set.image(2), [0.5; 6]);
    }

    #[test]
    fn a_set_is_filled_exactly() {
        assert!(ImageSet::new([2, 1, 1, 3], vec![0.0; 5]).is_err());
    }
}
