//! Linear maps of the plane about the centre of an image.

use flipcast_images::Image;

use crate::blocks::affine_warp::{Affine, warp_affine};
use crate::blocks::pixels::{round_to_byte, with_size_of};

/// `image` with every point at `(x, y)` from its centre moved to `map (x, y)`, bilinear; what comes from outside is mirrored.
pub(super) fn warp_about_centre(image: &Image, map: [[f64; 2]; 2]) -> Image {
    let (width, height) = (image.width(), image.height());
    let (x, y) = ((width - 1) as f64 / 2.0, (height - 1) as f64 / 2.0);
    let [[a, b], [c, d]] = map;
    let forward = Affine([[a, b, x - a * x - b * y], [c, d, y - c * x - d * y]]);
    let pixels = image.rgb().as_chunks::<3>().0;
    let source: Vec<[f32; 4]> = pixels.iter().map(|&[r, g, b]| [r, g, b, 0].map(f32::from)).collect();
    let mut rgb = Vec::with_capacity(image.rgb().len());
    for [r, g, b, _] in warp_affine(&source, width, height, &forward) {
        rgb.extend([r, g, b].map(round_to_byte));
    }
    with_size_of(image, rgb)
}
