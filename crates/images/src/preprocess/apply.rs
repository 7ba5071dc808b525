use super::crop::{Span, pad};
use super::float_bilinear::resize_normalised;
use super::resample::resize_part;
use super::{Preprocess, PreprocessError, Resize, Size};
use crate::Image;

impl Preprocess {
    /// Resize and crop only: the bytes the network would see, before normalisation. Corruptions that the published
    /// sets apply after the crop are applied to this.
    pub fn crop_bytes(&self, image: &Image) -> Result<Image, PreprocessError> {
        let (width, height) = (image.width(), image.height());
        let resized = self.resized(width, height);
        let (columns, rows) = match self.crop {
            Some(crop) => (
                Span::centre(resized.width, crop.width),
                Span::centre(resized.height, crop.height),
            ),
            None => (Span::whole(resized.width), Span::whole(resized.height)),
        };
        let part = resize_part(image, resized, columns, rows, self.interpolation)?;
        let size = self.output_size(width, height);
        Ok(pad(part, size, columns.pad, rows.pad))
    }

    /// Writes one image into `out`, `[y][x][channel]`; gives the size written.
    pub fn apply(&self, image: &Image, out: &mut [f32]) -> Result<Size, PreprocessError> {
        let size = self.output_size(image.width(), image.height());
        if image.rgb().is_empty() {
            return Err(PreprocessError::NoPixels {
                width: image.width(),
                height: image.height(),
            });
        }
        let expected = 3 * size.width * size.height;
        if out.len() != expected {
            return Err(PreprocessError::BufferSize {
                found: out.len(),
                expected,
                height: size.height,
                width: size.width,
            });
        }
        if let Resize::ExactFloat(size) = self.resize {
            resize_normalised(image, size, &self.normalise, out);
            return Ok(size);
        }
        let table = self.normalise.table();
        let write = |bytes: &[u8], out: &mut [f32]| {
            for (pixel, value) in bytes.chunks_exact(3).zip(out.chunks_exact_mut(3)) {
                for c in 0..3 {
                    value[c] = table[c][usize::from(pixel[c])];
                }
            }
        };
        if size
            == (Size {
                width: image.width(),
                height: image.height(),
            })
            && self.resize == Resize::None
        {
            write(image.rgb(), out);
        } else {
            write(self.crop_bytes(image)?.rgb(), out);
        }
        Ok(size)
    }

    /// One image as a vector of its own.
    pub fn apply_to_vec(&self, image: &Image) -> Result<(Size, Vec<f32>), PreprocessError> {
        let size = self.output_size(image.width(), image.height());
        let mut out = vec![0.0; 3 * size.width * size.height];
        self.apply(image, &mut out)?;
        Ok((size, out))
    }
}
