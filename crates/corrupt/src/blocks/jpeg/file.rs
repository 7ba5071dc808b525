//! JPEG files as the published sets store them.

use flipcast_images::Image;
use jpeg_encoder::{Encoder, EncodingError, ImageBuffer, JpegColorType, SamplingFactor};

use super::colour::{Plane, split};

/// An image that cannot be stored as a JPEG.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EncodeJpegError {
    /// A side is longer than the format allows.
    #[error("image of {width} x {height} pixels does not fit a JPEG, whose sides are at most 65535")]
    TooLarge {
        /// Pixels across.
        width: usize,
        /// Pixels down.
        height: usize,
    },
    /// The encoder refused.
    #[error("cannot encode a JPEG")]
    Encoder {
        /// What the encoder said.
        #[source]
        source: EncodingError,
    },
}

/// The planes of the round trip as the encoder's input, so that files hold the same luma and halved chroma.
struct Planes {
    planes: [Plane; 3],
    width: u16,
    height: u16,
}

impl ImageBuffer for Planes {
    fn get_jpeg_color_type(&self) -> JpegColorType {
        JpegColorType::Ycbcr
    }

    fn width(&self) -> u16 {
        self.width
    }

    fn height(&self) -> u16 {
        self.height
    }

    fn fill_buffers(&self, y: u16, buffers: &mut [Vec<u8>; 4]) {
        let (y, width) = (usize::from(y), usize::from(self.width));
        let [luma, blue, red] = &self.planes;
        buffers[0].extend_from_slice(&luma.samples[y * luma.stride..][..width]);
        // Each chroma sample is repeated, which the encoder's own averaging undoes.
        for (buffer, plane) in buffers[1..].iter_mut().zip([blue, red]) {
            let row = &plane.samples[y / 2 * plane.stride..][..plane.width];
            buffer.extend(row.iter().flat_map(|&sample| [sample; 2]).take(width));
        }
    }
}

/// `image` as a JPEG file of `quality` with halved chroma and optimised Huffman tables.
pub fn encode(image: &Image, quality: u8) -> Result<Vec<u8>, EncodeJpegError> {
    let (width, height) = (image.width(), image.height());
    let (Ok(short_width), Ok(short_height)) = (u16::try_from(width), u16::try_from(height)) else {
        return Err(EncodeJpegError::TooLarge { width, height });
    };
    let mut file = Vec::new();
    let mut encoder = Encoder::new(&mut file, quality);
    encoder.set_sampling_factor(SamplingFactor::F_2_2);
    encoder.set_optimized_huffman_tables(true);
    encoder
        .encode_image(Planes { planes: split(image), width: short_width, height: short_height })
        .map_err(|source| EncodeJpegError::Encoder { source })?;
    Ok(file)
}
