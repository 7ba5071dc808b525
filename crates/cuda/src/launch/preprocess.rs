//! Batches as the first layer reads them.

use super::{Call, Queue, wide};
use crate::device::DeviceSlice;
use crate::error::CudaError;
use flipcast_graph::Dims;

/// 32-bit words that say where a batch lies; the positions of its images follow.
pub(crate) const SOURCE_WORDS: usize = 14;

/// Where a batch lies: floats, or bytes if there is a scale, 256 values per channel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BatchSource<'a> {
    pub pixels: DeviceSlice,
    pub scale: Option<DeviceSlice>,
    /// Where the images stand among those of `pixels`; `None` for the first ones.
    pub positions: Option<&'a [u32]>,
    /// Elements from one image, row, column and channel to the next.
    pub strides: [usize; 4],
}

/// Strides of images of `[height, width, channels]` that lie channels last, one after the other.
pub(crate) fn channels_last([height, width, channels]: [usize; 3]) -> [usize; 4] {
    [height * width * channels, width * channels, channels, 1]
}

impl BatchSource<'_> {
    /// Writes what [`spread_input`] reads from `place`; gives the words written. Memory here is of floats, in which these
    /// words only travel.
    pub fn write(&self, place: DeviceSlice, words: &mut [f32]) -> usize {
        let positions = self.positions.unwrap_or_default();
        let after = place.address + 4 * SOURCE_WORDS as u64;
        let addresses =
            [self.pixels.address, self.scale.map_or(0, |scale| scale.address), self.positions.map_or(0, |_| after)];
        let numbers = addresses.into_iter().chain(self.strides.map(|stride| stride as u64));
        let halves = numbers.flat_map(|number| [number as u32, (number >> 32) as u32]);
        let all = halves.chain(positions.iter().copied());
        for (to, word) in words.iter_mut().zip(all) {
            *to = f32::from_bits(word);
        }
        SOURCE_WORDS + positions.len()
    }
}

/// Images as the first layer reads them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InputLayout {
    /// Side of the blocks of pixels that become one.
    pub block: usize,
    /// Rows and columns of blocks, those of zeros included.
    pub extents: [usize; 2],
    /// Channels of a block, with zeros behind.
    pub channels: usize,
    /// Blocks of zeros above and left of the image.
    pub before: [usize; 2],
}

impl InputLayout {
    /// Pixels and channels as they are.
    pub fn as_given(dims: Dims) -> Self {
        Self { block: 1, extents: [dims.height, dims.width], channels: dims.channels, before: [0, 0] }
    }

    /// Elements of an image.
    pub fn len(&self) -> usize {
        self.extents[0] * self.extents[1] * self.channels
    }
}

/// Lays out `images` of `[height, width, channels]` that lie where the [`BatchSource`] at `from` says.
pub(crate) fn spread_input(
    queue: &dyn Queue,
    images: usize,
    dims: [usize; 3],
    layout: InputLayout,
    from: DeviceSlice,
    to: DeviceSlice,
) -> Result<(), CudaError> {
    let [height, width, channels] = dims;
    let ([rows, columns], [top, left]) = (layout.extents, layout.before);
    let wide = wide(queue.precision(), layout.channels, &[to]);
    // Threads take several pieces each, so that the scale is read by few blocks.
    let group = match wide {
        true => 16 / queue.precision().element().bytes(),
        false => 1,
    };
    let blocks = (layout.len() / group).div_ceil(4 * 256);
    let grid = [blocks as u32, images.min(1 << 15) as u32, 1];
    Call::new(queue, "spread_input")
        .slice("the batch's place", from, SOURCE_WORDS)
        .slice("the result", to, images * layout.len())
        .counts([images, height, width, channels, layout.block, rows, columns, layout.channels, top, left])
        .flag(wide)
        .launch(grid, [256, 1, 1], 1024 * channels)
}

/// Sets a word of `bad` to 1 for every image that holds a NaN or an infinity; the words are 0 before. Images are those of [`spread_input`], and floats.
pub(crate) fn find_non_finite(
    queue: &dyn Queue,
    images: usize,
    [height, width, channels]: [usize; 3],
    from: DeviceSlice,
    bad: DeviceSlice,
) -> Result<(), CudaError> {
    let blocks = (height * width * channels).div_ceil(16 * 256);
    Call::new(queue, "find_non_finite")
        .slice("the batch's place", from, SOURCE_WORDS)
        .slice("the result", bad, images)
        .counts([images, height, width, channels])
        .launch([blocks as u32, images.min(1 << 15) as u32, 1], [256, 1, 1], 0)
}
