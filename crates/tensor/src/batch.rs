use crate::TensorError;

/// Preprocessed images, channels-last: `values[((image * height + y) * width + x) * channels + channel]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch {
    images: usize,
    height: usize,
    width: usize,
    channels: usize,
    values: Vec<f32>,
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
            values: tensor.into_values(),
        })
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

    /// All values, image after image.
    pub fn values(&self) -> &[f32] {
        &self.values
    }

    /// All values, to change in place.
    pub fn values_mut(&mut self) -> &mut [f32] {
        &mut self.values
    }

    /// The values of one image.
    pub fn image(&self, index: usize) -> &[f32] {
        let len = self.height * self.width * self.channels;
        &self.values[index * len..(index + 1) * len]
    }

    /// Gives up the extents and returns the values, so that a loader can fill the memory again.
    pub fn into_values(self) -> Vec<f32> {
        self.values
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
}
