use super::crop::{Span, pad};
use super::float_bilinear::resize_normalised;
use super::resample::{PassOrder, resize_part};
use super::{Preprocess, PreprocessError, Resize, Size};
use crate::Image;
use flipcast_tensor::{Batch, ByteScale};
use std::sync::Arc;

impl Preprocess {
    /// Resize and crop only: the bytes the network would see, before normalisation. Corruptions that the published
    /// sets apply after the crop are applied to this.
    pub fn crop_bytes(&self, image: &Image) -> Result<Image, PreprocessError> {
        let (width, height) = (image.width(), image.height());
        let resized = self.resized(width, height);
        let (columns, rows) = match self.crop {
            Some(crop) => (Span::centre(resized.width, crop.width), Span::centre(resized.height, crop.height)),
            None => (Span::whole(resized.width), Span::whole(resized.height)),
        };
        let part = resize_part(image, resized, columns, rows, self.interpolation, PassOrder::Pillow13)?;
        let size = self.output_size(width, height);
        Ok(pad(part, size, columns.pad, rows.pad))
    }

    /// The bytes that become values: resized and cropped, except where the resize is one on float pixels and comes later.
    pub fn size_bytes(&self, image: Image) -> Result<Image, PreprocessError> {
        match self.keeps_bytes(&image)? {
            true => Ok(image),
            false => self.crop_bytes(&image),
        }
    }

    /// What the bytes of [`Preprocess::size_bytes`] stand for; `None` where a resize on float pixels is still to come.
    pub fn byte_scale(&self) -> Option<ByteScale> {
        match self.resize {
            Resize::ExactFloat(_) => None,
            _ => Some(self.normalise.scale()),
        }
    }

    /// What the bytes of an image of this size stand for, where they become values as they are.
    pub fn scale_of_bytes_as_they_are(&self, width: usize, height: usize) -> Option<ByteScale> {
        let same = self.output_size(width, height) == Size { width, height };
        (self.resize == Resize::None && same).then(|| self.normalise.scale())
    }

    /// Whether the bytes that become values are those of the image.
    fn keeps_bytes(&self, image: &Image) -> Result<bool, PreprocessError> {
        let (width, height) = (image.width(), image.height());
        if image.rgb().is_empty() {
            return Err(PreprocessError::NoPixels { width, height });
        }
        let same = self.output_size(width, height) == Size { width, height };
        Ok(match self.resize {
            Resize::ExactFloat(_) => true,
            Resize::None => same,
            _ => false,
        })
    }

    /// Writes one image into `out`, `[y][x][channel]`; gives the size written.
    pub fn apply(&self, image: &Image, out: &mut [f32]) -> Result<Size, PreprocessError> {
        let size = self.output_size(image.width(), image.height());
        let keeps_bytes = self.keeps_bytes(image)?;
        let expected = 3 * size.width * size.height;
        if out.len() != expected {
            return Err(PreprocessError::BufferSize {
                found: out.len(),
                expected,
                height: size.height,
                width: size.width,
            });
        }
        let Some(scale) = self.byte_scale() else {
            resize_normalised(image, size, &self.normalise, out);
            return Ok(size);
        };
        if keeps_bytes {
            scale.write(image.rgb(), out);
        } else {
            scale.write(self.crop_bytes(image)?.rgb(), out);
        }
        Ok(size)
    }

    /// Images at hand as one batch, the same that a loader makes of them.
    ///
    /// # Errors
    /// When there is none, or one comes out in another size than the first.
    pub fn batch(&self, images: impl IntoIterator<Item = Image>) -> Result<Batch, PreprocessError> {
        let scale = self.byte_scale().map(Arc::new);
        let (mut bytes, mut values) = (Vec::new(), Vec::new());
        let (mut count, mut size) = (0, None);
        for image in images {
            let found = self.output_size(image.width(), image.height());
            let expected = *size.get_or_insert(found);
            if found != expected {
                return Err(PreprocessError::OtherSize { found, expected });
            }
            match &scale {
                Some(_) => bytes.extend_from_slice(self.size_bytes(image)?.rgb()),
                None => values.extend(self.apply_to_vec(&image)?.1),
            }
            count += 1;
        }
        let size = size.ok_or(PreprocessError::NoImages)?;
        let extents = [count, size.height, size.width, 3];
        let made = match &scale {
            Some(scale) => Batch::from_bytes(extents, bytes, scale, Vec::new()),
            None => Batch::new(extents, values),
        };
        Ok(made.expect("every image has the size of the first"))
    }

    /// One image as a vector of its own.
    pub fn apply_to_vec(&self, image: &Image) -> Result<(Size, Vec<f32>), PreprocessError> {
        let size = self.output_size(image.width(), image.height());
        let mut out = vec![0.0; 3 * size.width * size.height];
        self.apply(image, &mut out)?;
        Ok((size, out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::preprocess::Normalise;

    fn image(width: usize, level: u8) -> Image {
        Image::new(width, 4, (0..12 * width).map(|i| level.wrapping_add(i as u8)).collect()).unwrap()
    }

    #[test]
    fn a_batch_holds_what_each_image_becomes() {
        for preprocess in [Preprocess::normalise_only(Normalise::imagenet()), Preprocess::tiny_imagenet_128()] {
            let images = [image(4, 3), image(4, 90)];
            let batch = preprocess.batch(images.clone()).unwrap();
            let expected: Vec<f32> =
                images.iter().flat_map(|image| preprocess.apply_to_vec(image).unwrap().1).collect();
            assert_eq!((batch.images(), batch.values()), (2, expected.as_slice()));
        }
    }

    #[test]
    fn a_batch_has_images_of_one_size() {
        let preprocess = Preprocess::normalise_only(Normalise::imagenet());
        assert_eq!(preprocess.batch([]).unwrap_err(), PreprocessError::NoImages);
        let refused = preprocess.batch([image(4, 1), image(5, 1)]).unwrap_err();
        assert_eq!(refused.to_string(), "an image of a batch comes out as 5x4 pixels, but the first one as 4x4");
    }
}
