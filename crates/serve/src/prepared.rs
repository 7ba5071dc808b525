//! Images of requests on their way to the network.

use axum::body::Bytes;
use flipcast_ground::with_causes;
use flipcast_images::Image;
use flipcast_images::decode::{DecodeOptions, Format, Limits, decode_with};
use flipcast_images::preprocess::{Preprocess, Size};
use flipcast_tensor::{Batch, ByteScale};
use std::sync::Arc;
use std::time::Instant;

/// The order of a tensor's axes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Image, row, column, channel.
    ChannelsLast,
    /// Image, channel, row, column.
    ChannelsFirst,
}

/// Images as a request brings them.
#[derive(Clone, Debug)]
pub enum RawImages {
    /// Files.
    Encoded(Vec<Bytes>),
    /// Bytes of red, green and blue.
    Pixels(Tensor<Bytes>),
    /// What the network takes: resized, cropped and normalised by the sender.
    Values(Tensor<Vec<f32>>),
}

/// Images of one size.
#[derive(Clone, Debug)]
pub struct Tensor<T> {
    /// Number of images.
    pub images: usize,
    /// Rows and columns.
    pub size: Size,
    /// The order of the axes.
    pub layout: Layout,
    /// The samples.
    pub data: T,
}

impl Tensor<Bytes> {
    /// Each image; nothing where pixels do not fill one.
    pub fn each(&self) -> impl Iterator<Item = Option<Image>> + '_ {
        let Size { width, height } = self.size;
        self.data.chunks_exact((3 * width * height).max(1)).map(move |bytes| {
            let rgb = match self.layout {
                Layout::ChannelsLast => bytes.to_vec(),
                Layout::ChannelsFirst => channels_last(bytes),
            };
            Image::new(width, height, rgb)
        })
    }
}

impl RawImages {
    /// Number of images.
    pub fn len(&self) -> usize {
        match self {
            Self::Encoded(files) => files.len(),
            Self::Pixels(tensor) => tensor.images,
            Self::Values(tensor) => tensor.images,
        }
    }
}

/// An image as the network takes it.
#[derive(Clone, Debug)]
pub enum Prepared {
    /// Bytes on the scale of the network's preprocessing.
    Bytes(Vec<u8>),
    /// Values.
    Values(Vec<f32>),
}

impl Prepared {
    /// Bytes in memory.
    pub fn size(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::Values(values) => 4 * values.len(),
        }
    }
}

/// Why images are not ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unprepared {
    /// One of them cannot be used.
    Unusable(String),
    /// They took too long.
    TooLate,
}

/// A file that can be shown.
#[derive(Clone, Debug)]
pub struct KeptFile {
    /// Its type.
    pub media_type: &'static str,
    /// The file.
    pub bytes: Vec<u8>,
}

/// How images reach the network.
#[derive(Clone, Debug)]
pub struct Preparation {
    preprocess: Preprocess,
    size: Size,
    scale: Option<Arc<ByteScale>>,
    max_pixels: u64,
}

impl Preparation {
    /// As `preprocess` says, for a network that takes images of `size`.
    pub fn new(preprocess: Preprocess, size: Size, max_pixels: u64) -> Self {
        let scale = preprocess.byte_scale().map(Arc::new);
        Self { preprocess, size, scale, max_pixels }
    }

    /// The size that the network takes.
    pub fn size(&self) -> Size {
        self.size
    }

    /// Bytes that an image takes in memory before the network sees it, at most.
    pub fn image_bytes(&self) -> usize {
        12 * self.size.width * self.size.height
    }

    /// Makes an image file ready, or says why it cannot be used.
    pub fn prepare_file(&self, file: &[u8]) -> Result<Prepared, String> {
        let options = DecodeOptions { limits: Limits { max_pixels: self.max_pixels }, ..Default::default() };
        let image = decode_with(file, &options).map_err(|error| with_causes(&error))?;
        self.prepare_image(image)
    }

    /// Makes images ready, or says which one cannot be used and why. No image is begun after `until`.
    pub fn prepare(&self, raw: RawImages, until: Instant) -> Result<Vec<Prepared>, Unprepared> {
        let numbered = |(index, result): (usize, Result<Prepared, String>)| {
            let unusable =
                |reason| Unprepared::Unusable(format!("image {index} of the request cannot be used: {reason}"));
            let made = result.map_err(unusable)?;
            if Instant::now() > until { Err(Unprepared::TooLate) } else { Ok(made) }
        };
        match raw {
            RawImages::Encoded(files) => {
                files.iter().map(|file| self.prepare_file(file)).enumerate().map(numbered).collect()
            }
            RawImages::Pixels(tensor) => {
                let pixels = |image: Option<Image>| self.prepare_image(image.ok_or("its pixels do not fill it")?);
                tensor.each().map(pixels).enumerate().map(numbered).collect()
            }
            RawImages::Values(tensor) => {
                if tensor.size != self.size {
                    let (found, expected) = (text(tensor.size), text(self.size));
                    return Err(Unprepared::Unusable(format!("values are of {found} images, expected {expected}")));
                }
                let values = |values: &[f32]| {
                    if values.iter().any(|value| !value.is_finite()) {
                        return Err("it holds a value that is not finite".to_owned());
                    }
                    Ok(Prepared::Values(match tensor.layout {
                        Layout::ChannelsLast => values.to_vec(),
                        Layout::ChannelsFirst => channels_last(values),
                    }))
                };
                let each = 3 * self.size.width * self.size.height;
                tensor.data.chunks_exact(each.max(1)).map(values).enumerate().map(numbered).collect()
            }
        }
    }

    /// Makes an image ready, or says why it cannot be used.
    pub fn prepare_image(&self, image: Image) -> Result<Prepared, String> {
        let found = self.preprocess.output_size(image.width(), image.height());
        if found != self.size {
            return Err(format!("it comes out as {}, expected {}", text(found), text(self.size)));
        }
        Ok(match self.scale {
            Some(_) => {
                let sized = self.preprocess.size_bytes(image).map_err(|error| with_causes(&error))?;
                Prepared::Bytes(sized.into_rgb())
            }
            None => Prepared::Values(self.preprocess.apply_to_vec(&image).map_err(|error| with_causes(&error))?.1),
        })
    }

    /// A batch for the network; `spare` is memory for its values.
    pub fn batch<'a>(&self, images: impl ExactSizeIterator<Item = &'a Prepared>, mut spare: Vec<f32>) -> Batch {
        let extents = [images.len(), self.size.height, self.size.width, 3];
        spare.clear();
        for image in images {
            match (image, &self.scale) {
                (Prepared::Bytes(bytes), Some(scale)) => scale.append(bytes, &mut spare),
                (Prepared::Bytes(_), None) => unreachable!("bytes are only made where there is a scale"),
                (Prepared::Values(values), _) => spare.extend_from_slice(values),
            }
        }
        Batch::new(extents, spare).expect("every image has the network's size")
    }
}

/// The file as it can be shown, if browsers know its type.
pub fn shown_file(bytes: &[u8]) -> Option<KeptFile> {
    let media_type = match Format::sniff(bytes)? {
        Format::Jpeg => "image/jpeg",
        Format::Png => "image/png",
        Format::WebP => "image/webp",
        Format::Gif => "image/gif",
        Format::Bmp => "image/bmp",
        Format::Tiff => return None,
    };
    Some(KeptFile { media_type, bytes: bytes.to_vec() })
}

fn channels_last<T: Copy>(planes: &[T]) -> Vec<T> {
    let pixels = planes.len() / 3;
    (0..pixels).flat_map(|pixel| (0..3).map(move |channel| planes[channel * pixels + pixel])).collect()
}

fn text(size: Size) -> String {
    format!("{} x {}", size.width, size.height)
}

#[cfg(test)]
mod tests {
    use super::*;
    use flipcast_images::preprocess::Normalise;
    use std::time::Duration;

    #[test]
    fn no_image_is_begun_when_the_time_is_over() {
        let size = Size { width: 2, height: 1 };
        let preparation = Preparation::new(Preprocess::normalise_only(Normalise::half()), size, 100);
        let images = || {
            let (layout, data) = (Layout::ChannelsLast, Bytes::from_static(&[7; 12]));
            RawImages::Pixels(Tensor { images: 2, size, layout, data })
        };
        let later = Instant::now() + Duration::from_secs(600);
        assert_eq!(preparation.prepare(images(), later).unwrap().len(), 2);
        let past = Instant::now();
        std::thread::sleep(Duration::from_millis(2));
        assert_eq!(preparation.prepare(images(), past).unwrap_err(), Unprepared::TooLate);
    }
}
