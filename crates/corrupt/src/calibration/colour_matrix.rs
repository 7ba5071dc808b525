//! Colours as linear functions of the three channels.

use flipcast_images::Image;

use crate::blocks::pixels::{round_to_byte, with_size_of};

/// How much each channel counts for the brightness of a pixel (ITU-R BT.601).
pub(super) const LUMA: [f32; 3] = [0.299, 0.587, 0.114];

/// `matrix` times every pixel of `image`.
pub(super) fn mix_channels(image: &Image, matrix: [[f32; 3]; 3]) -> Image {
    let mut rgb = Vec::with_capacity(image.rgb().len());
    for pixel in image.rgb().as_chunks::<3>().0 {
        let [r, g, b] = pixel.map(f32::from);
        rgb.extend(matrix.map(|row| round_to_byte(row[0] * r + row[1] * g + row[2] * b)));
    }
    with_size_of(image, rgb)
}
