//! The chunks that passes over a tensor work in.

use crate::source::PixelRun;
use crate::totals::PARTIAL_ROWS;
pub(crate) use flipcast_graph::Extent;

/// Floats per chunk of an element-wise pass.
const CHUNK_FLOATS: usize = 32 << 10;

/// Floats of scratch per worker that passes over `extent` need.
pub fn extent_scratch_floats(extent: Extent) -> usize {
    CHUNK_FLOATS.max(PARTIAL_ROWS * extent.channels)
}

/// Partial sums that a pass over `extent` needs per norm: three rows for each of its chunks.
pub fn extent_partials(extent: Extent) -> usize {
    pixel_chunks(extent).0 * PARTIAL_ROWS * extent.channels
}

/// Cuts an extent into runs of pixels that stay inside an image: their number, and the run of each.
pub(crate) fn pixel_chunks(extent: Extent) -> (usize, impl Fn(usize) -> PixelRun + Copy) {
    let Extent { images, pixels, channels } = extent;
    let size = (CHUNK_FLOATS / channels.max(1)).clamp(1, pixels.max(1));
    let per_image = pixels.div_ceil(size);
    let run = move |index: usize| {
        let (image, start) = (index / per_image, index % per_image * size);
        PixelRun {
            first: image * pixels + start,
            step: 1,
            count: size.min(pixels - start),
            image,
            channel: 0,
            width: channels,
            channels,
        }
    };
    (images * per_image, run)
}
