//! Resampling as the Pillow versions did that made the published sets.

use flipcast_images::Image;
use flipcast_images::preprocess::{self, Interpolation, PassOrder, Size};

/// `image` at `size`, each side at least 1.
pub fn resize(image: &Image, size: Size, interpolation: Interpolation) -> Image {
    preprocess::resize(image, size, interpolation, PassOrder::RowsFirst)
        .expect("images that are corrupted have pixels, and sides far below the resampler's limit")
}
