//! The padded copy of the input rows a chunk needs, where norms and activations are folded in.

use super::chunks::{Chunk, Chunking};
use super::pass::Pass;
use crate::Source;
use crate::lanes::Lanes;
use crate::source::PixelRun;

/// Which source rows and columns the targets of a chunk reach.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    min_dy: isize,
    max_dy: isize,
    min_dx: isize,
    /// Columns of the padded rows.
    pub width: usize,
    channels: usize,
}

impl Window {
    /// The window of `pass`, for target rows of `target_width` pixels.
    pub fn new(pass: &Pass, target_width: usize) -> Self {
        let taps = || pass.classes.iter().flat_map(|class| &class.taps);
        let min = |f: fn(&super::pass::Tap) -> isize| taps().map(f).min().unwrap_or(0);
        let max = |f: fn(&super::pass::Tap) -> isize| taps().map(f).max().unwrap_or(0);
        let (min_dx, max_dx) = (min(|tap| tap.dx), max(|tap| tap.dx));
        let steps = target_width.div_ceil(pass.target_step).max(1) - 1;
        Self {
            min_dy: min(|tap| tap.dy),
            max_dy: max(|tap| tap.dy),
            min_dx,
            width: steps * pass.source_step + (max_dx - min_dx) as usize + 1,
            channels: pass.source.channels,
        }
    }

    /// Source rows that `rows` target rows reach.
    pub fn rows(&self, pass: &Pass, rows: usize) -> usize {
        let steps = rows.div_ceil(pass.target_step).max(1) - 1;
        steps * pass.source_step + (self.max_dy - self.min_dy) as usize + 1
    }

    /// Chunks whose window and whose output, of `out_row` floats per row, each stay within `floats`: at least `least` rows.
    pub fn chunking(&self, pass: &Pass, out_row: usize, floats: usize, least: usize) -> Chunking {
        let step = pass.target_step;
        let per_row = (self.row_len() * pass.source_step / step).max(out_row).max(1);
        Chunking::new(pass.target.height, (floats / per_row).max(least), step)
    }

    /// Floats of the windows of a chunk's images, to whole cache lines.
    pub fn floats(&self, pass: &Pass, chunking: &Chunking) -> usize {
        (chunking.images() * self.rows(pass, chunking.rows()) * self.row_len()).next_multiple_of(16)
    }

    /// Floats per padded row.
    pub fn row_len(&self) -> usize {
        self.width * self.channels
    }

    /// Offset of the source pixel that tap (`dy`, `dx`) reads for the first target of a chunk.
    pub fn tap_offset(&self, dy: isize, dx: isize) -> usize {
        (dy - self.min_dy) as usize * self.row_len() + (dx - self.min_dx) as usize * self.channels
    }

    /// Copies the rows the chunk reaches to `to`, image after image, zeros where the image ends.
    ///
    /// # Safety
    /// `source` was checked for the batch, and `to` is valid for `rows` rows per image of the chunk.
    #[inline(always)]
    pub unsafe fn fill<L: Lanes>(&self, pass: &Pass, source: &Source, chunk: Chunk, rows: usize, to: *mut f32) {
        let side = pass.source;
        let first = (chunk.row / pass.target_step * pass.source_step) as isize + self.min_dy;
        let left = (-self.min_dx).max(0) as usize;
        // Columns that exist: from `skip` on, as many as the padded row holds.
        let skip = self.min_dx.max(0) as usize;
        let left = left.min(self.width);
        let count = side.width.saturating_sub(skip).min(self.width - left);
        let right = self.width - left - count;
        // SAFETY: rows and columns are clamped to the image, and `to` is long enough by the caller's promise.
        unsafe {
            let mut to = to;
            for image in chunk.image..chunk.image + chunk.images {
                for row in first..first + rows as isize {
                    if row < 0 || row >= side.height as isize {
                        std::ptr::write_bytes(to, 0, self.row_len());
                    } else {
                        let first = (image * side.height + row as usize) * side.width + skip;
                        let run = PixelRun::whole(image, first, count, self.channels);
                        std::ptr::write_bytes(to, 0, left * self.channels);
                        source.fill::<L>(run, to.add(left * self.channels), self.channels);
                        std::ptr::write_bytes(to.add((left + count) * self.channels), 0, right * self.channels);
                    }
                    to = to.add(self.row_len());
                }
            }
        }
    }
}
