//! The chunks that passes over a tensor work in.

use crate::ScratchSize;
use crate::source::PixelRun;
use crate::totals::PARTIAL_ROWS;
pub(crate) use flipcast_graph::Extent;

/// Floats per chunk of an element-wise pass.
const CHUNK_FLOATS: usize = 32 << 10;

/// Scratch that a pass over `extent` needs, with three rows of partial sums per chunk for each of two norms.
pub fn extent_scratch(extent: Extent) -> ScratchSize {
    ScratchSize {
        floats: CHUNK_FLOATS.max(PARTIAL_ROWS * extent.channels),
        offsets: 0,
        partials: 2 * pixel_chunks(extent).0 * PARTIAL_ROWS * extent.channels,
    }
}

/// Cuts an extent into runs of pixels that stay inside an image: their number, and the run of each.
pub(crate) fn pixel_chunks(extent: Extent) -> (usize, impl Fn(usize) -> PixelRun + Copy) {
    let Extent { images, pixels, channels } = extent;
    let size = (CHUNK_FLOATS / channels.max(1)).clamp(1, pixels.max(1));
    let per_image = pixels.div_ceil(size);
    let run = move |index: usize| {
        let (image, start) = (index / per_image, index % per_image * size);
        PixelRun::whole(image, image * pixels + start, size.min(pixels - start), channels)
    };
    (images * per_image, run)
}
