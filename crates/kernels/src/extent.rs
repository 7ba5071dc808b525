//! Extents of a tensor in a batch, and the chunks that passes over it work in.

use crate::source::PixelRun;
use crate::totals::PARTIAL_ROWS;

/// Floats per chunk of an element-wise pass.
const CHUNK_FLOATS: usize = 32 << 10;

/// Extents of a tensor in a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Images.
    pub images: usize,
    /// Pixels per image.
    pub pixels: usize,
    /// Channels per pixel.
    pub channels: usize,
}

impl Extent {
    /// Values in the whole batch.
    pub fn len(self) -> usize {
        self.images * self.pixels * self.channels
    }

    /// Whether there are none.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// Chunks an element-wise pass works in; each needs three rows of partial sums per norm.
    pub fn chunks(self) -> usize {
        pixel_chunks(self).0
    }

    /// Floats of scratch per worker that passes over this extent need.
    pub fn scratch_floats(self) -> usize {
        CHUNK_FLOATS.max(PARTIAL_ROWS * self.channels)
    }

    /// Partial sums a pass over this extent needs per norm.
    pub fn partials(self) -> usize {
        self.chunks() * PARTIAL_ROWS * self.channels
    }
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
