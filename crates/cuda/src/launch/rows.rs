//! How kernels over rows of channels are spread over threads: see `rows.cuh`.

use super::Queue;
use crate::device::DeviceSlice;

/// Threads of a block.
const THREADS: usize = 256;
/// Channels a thread keeps when rows can be read 16 bytes at a time.
const PACK: usize = 8;
/// Rows that a thread takes at least, where every block leaves partial sums that somebody must add up.
const REDUCED_ROWS: usize = 4;

/// The grid of a kernel over `rows` of `channels`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RowGrid {
    /// Whether threads take packs of channels.
    pub wide: bool,
    /// Threads along channels and along rows.
    pub block: [u32; 3],
    /// Blocks along rows and along channels.
    pub grid: [u32; 3],
}

impl RowGrid {
    /// A grid of at most `waves` blocks per multiprocessor. Each of the `images` gets its own part of it.
    pub fn new(queue: &dyn Queue, extents: [usize; 3], waves: usize, slices: &[DeviceSlice]) -> Self {
        Self::of(queue, extents, waves, slices, 1)
    }

    /// The same for a reduction over rows.
    pub fn reducing(queue: &dyn Queue, extents: [usize; 3], waves: usize, slices: &[DeviceSlice]) -> Self {
        Self::of(queue, extents, waves, slices, REDUCED_ROWS)
    }

    fn of(
        queue: &dyn Queue,
        [images, rows, channels]: [usize; 3],
        waves: usize,
        slices: &[DeviceSlice],
        least: usize,
    ) -> Self {
        let wide = channels.is_multiple_of(PACK) && slices.iter().all(|slice| slice.address.is_multiple_of(16));
        let packs = channels / if wide { PACK } else { 1 };
        let along = packs.clamp(1, THREADS);
        let down = THREADS / along;
        let tiles = packs.div_ceil(along).max(1);
        let most = (waves * queue.multiprocessors()).div_ceil(tiles * images.max(1));
        let blocks = rows.div_ceil(down * least).min(most.max(1));
        Self { wide, block: [along as u32, down as u32, 1], grid: [blocks as u32, tiles as u32, images as u32] }
    }

    /// Blocks along the rows of one image: how many partial results a reduction leaves.
    pub fn parts(&self) -> usize {
        self.grid[0] as usize
    }

    /// Bytes of shared memory for `floats` per thread and channel.
    pub fn shared(&self, floats: usize) -> usize {
        let pack = if self.wide { PACK } else { 1 };
        4 * (self.block[0] * self.block[1]) as usize * pack * floats + 4 * self.block[1] as usize
    }
}
