//! 1x1 convolutions: one matrix product over pixels.

use super::Exactness;
use super::algorithm::{Algorithm, Step};
use super::pass::Pass;
use crate::ScratchSize;
use crate::gemm::{Packed, Place, Rows, Run, Store};
use crate::isa::Isa;
use crate::lanes::{Lanes, Task};
use crate::sink::OutRun;
use crate::source::PixelRun;
use crate::walk::Soon;

/// Most pixels per chunk, and the number of chunks to aim for when there are few pixels.
const PIXELS: usize = 224;
const CHUNKS: usize = 16;
/// Columns per group: a chunk of them takes a quarter of a core's own cache.
const GROUP: usize = 8 * Packed::PANELS;
/// Floats between rows of the copied input beyond their length: rows a power of two apart would share cache sets.
const SKEW: usize = 16;

#[derive(Debug)]
pub(crate) struct Pointwise {
    weights: Packed,
    /// Rows and columns of pixels that take part, and the steps between them on either side.
    grid: [usize; 2],
    source_step: usize,
    target_step: usize,
    /// Whether every target pixel takes part.
    everywhere: bool,
    tile_rows: usize,
    input_stride: usize,
}

impl Pointwise {
    pub fn new(isa: Isa, pass: &Pass, weights: &[f32], exactness: Exactness) -> Self {
        let run = Run { offset: 0, len: pass.source.channels as u32 };
        let tap = pass.classes.iter().find_map(|class| class.taps.first()).expect("a pointwise pass has one tap");
        let weights = Packed::new(&[run], pass.target.channels, isa.lanes(), exactness, |k, column| {
            pass.weight(weights, 0, k, column, tap)
        });
        let along =
            |source: usize, target: usize| source.div_ceil(pass.source_step).min(target.div_ceil(pass.target_step));
        let longest = (0..weights.blocks()).map(|block| weights.block_len(block)).max().unwrap_or(0);
        let grid = [along(pass.source.height, pass.target.height), along(pass.source.width, pass.target.width)];
        Self {
            weights,
            grid,
            everywhere: grid == [pass.target.height, pass.target.width],
            source_step: pass.source_step,
            target_step: pass.target_step,
            tile_rows: isa.tile_rows(),
            input_stride: longest + SKEW,
        }
    }

    fn pixels(&self, images: usize) -> usize {
        images * self.grid[0] * self.grid[1]
    }

    /// Pixels per chunk: whole tiles, fewer when the batch is small.
    fn pixels_per_chunk(&self, images: usize) -> usize {
        let fair = self.pixels(images).div_ceil(CHUNKS).next_multiple_of(self.tile_rows);
        fair.clamp(self.tile_rows, self.most_pixels())
    }

    fn most_pixels(&self) -> usize {
        PIXELS.next_multiple_of(self.tile_rows)
    }

    /// Columns worked on at once. If the summed axis is one block, few enough that their results stay in cache;
    /// with several blocks of it, all, since each block adds to them.
    fn group(&self) -> usize {
        let columns = self.weights.padded_columns();
        if self.weights.blocks() > 1 { columns } else { columns.min(GROUP) }
    }

    /// Cuts the pixels `first..first + count` of the grid into lines with a constant step on both sides.
    fn lines(&self, pass: &Pass, first: usize, count: usize) -> impl Iterator<Item = Line> {
        let [rows, columns] = self.grid;
        let (source_step, target_step) = (self.source_step, self.target_step);
        let (source, target) = (pass.source, pass.target);
        let dense = source_step == 1 && target_step == 1;
        // Without strides an image is one line; with them each row is.
        let len = if dense { rows * columns } else { columns };
        let mut start = 0;
        std::iter::from_fn(move || {
            if start == count {
                return None;
            }
            let (line, at) = ((first + start) / len, (first + start) % len);
            let (image, row) = if dense { (line, 0) } else { (line / rows, line % rows) };
            let line = Line {
                image,
                source: (image * source.height + row * source_step) * source.width + at * source_step,
                target: (image * target.height + row * target_step) * target.width + at * target_step,
                start,
                count: (len - at).min(count - start),
            };
            start += line.count;
            Some(line)
        })
    }
}

impl Algorithm for Pointwise {
    fn name(&self) -> &'static str {
        "pointwise"
    }

    fn scratch(&self) -> ScratchSize {
        let pixels = self.most_pixels();
        ScratchSize { floats: pixels * (self.input_stride + self.group()), offsets: 2 * pixels, partials: 0 }
    }

    fn weight_bytes(&self) -> usize {
        self.weights.bytes()
    }

    fn chunks(&self, images: usize) -> usize {
        self.pixels(images).div_ceil(self.pixels_per_chunk(images))
    }

    fn chunk_pixels(&self, index: usize, images: usize) -> usize {
        let size = self.pixels_per_chunk(images);
        size.min(self.pixels(images) - index * size)
    }

    fn covers_target(&self) -> bool {
        self.everywhere
    }

    fn run(&self, isa: Isa, step: Step) {
        let first = step.index * self.pixels_per_chunk(step.images);
        let count = self.chunk_pixels(step.index, step.images);
        isa.run(PointwiseStep { pointwise: self, step, first, count });
    }
}

/// Pixels in a row, on both sides.
struct Line {
    image: usize,
    /// First pixel in the whole batch, on either side.
    source: usize,
    target: usize,
    /// First pixel in the chunk.
    start: usize,
    count: usize,
}

/// The pixels `first..first + count` of the grid.
struct PointwiseStep<'a> {
    pointwise: &'a Pointwise,
    step: Step<'a>,
    first: usize,
    count: usize,
}

impl Task for PointwiseStep<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<L: Lanes>(mut self) {
        let Self { pointwise, count, .. } = self;
        let weights = &pointwise.weights;
        let group = pointwise.group();
        let (floats, offsets) =
            (std::mem::take(&mut self.step.scratch.floats), std::mem::take(&mut self.step.scratch.offsets));
        // SAFETY: the scratch has the lengths asked for (checked by slicing), and every run lies inside the batch the source
        // and the sink were checked for.
        unsafe {
            let (input, out) = floats.split_at_mut(pointwise.most_pixels() * pointwise.input_stride);
            let out = &mut out[..count * group];
            let (a_rows, c_rows) = offsets.split_at_mut(pointwise.most_pixels());
            for i in 0..count {
                a_rows[i] = (i * pointwise.input_stride) as u32;
                c_rows[i] = (i * group) as u32;
            }
            let (a_rows, c_rows) = (&a_rows[..count], &mut c_rows[..count]);
            if weights.blocks() > 1 {
                let mut channel = 0;
                for block in 0..weights.blocks() {
                    let width = weights.block_len(block);
                    self.fill::<L>(input, channel, width);
                    // The runs of later blocks start at their own channel, the copied rows always at the first.
                    let base = input.as_ptr().wrapping_sub(channel);
                    let rows = Rows { from: base, from_rows: a_rows, to: out.as_mut_ptr(), to_rows: c_rows };
                    weights.panels(block, 0..group).multiply::<L>(rows, Store::to_scratch(block > 0));
                    channel += width;
                }
                self.finish::<L>(out, 0..self.step.pass.target.channels);
                return;
            }
            self.fill::<L>(input, 0, self.step.pass.source.channels);
            let soon = self.soon();
            if let Some(store) = self.step.sink.direct::<L>() {
                self.multiply_direct::<L>(input, a_rows, c_rows, store, soon);
                return;
            }
            let groups = weights.padded_columns().div_ceil(group);
            let mut column = 0;
            while column < weights.padded_columns() {
                let end = weights.padded_columns().min(column + group);
                let rows = Rows { from: input.as_ptr(), from_rows: a_rows, to: out.as_mut_ptr(), to_rows: c_rows };
                let soon = soon.part(column / group, groups);
                weights.panels(0, column..end).multiply_fetching::<L>(rows, Store::to_scratch(false), soon);
                self.finish::<L>(out, column..end.min(self.step.pass.target.channels));
                column = end;
            }
        }
    }
}

impl PointwiseStep<'_> {
    /// Writes the products straight to the tensor. The summed axis is one block.
    #[inline(always)]
    unsafe fn multiply_direct<L: Lanes>(
        &self,
        input: &[f32],
        a_rows: &[u32],
        c_rows: &mut [u32],
        store: Store,
        soon: Soon,
    ) {
        let (pointwise, pass) = (self.pointwise, self.step.pass);
        let weights = &pointwise.weights;
        let (mut base, mut last) = (None, 0);
        for line in pointwise.lines(pass, self.first, self.count) {
            let first = *base.get_or_insert(line.target);
            for (i, row) in c_rows[line.start..][..line.count].iter_mut().enumerate() {
                last = line.target + i * pointwise.target_step;
                *row = ((last - first) * pass.target.channels) as u32;
            }
        }
        let Some(first) = base else { return };
        // SAFETY: chunks are runs of pixels in order, so their spans do not overlap; `direct` made sure that rows are whole
        // vectors. The rest as in `run`.
        unsafe {
            let out = self.step.sink.pixels(first, last);
            let rows = Rows { from: input.as_ptr(), from_rows: a_rows, to: out, to_rows: c_rows };
            weights.panels(0, 0..weights.padded_columns()).multiply_fetching::<L>(rows, store, soon);
            if store.place == Place::Streamed {
                L::fence();
            }
        }
    }

    /// The pixels of the chunk after this one, which the same thread usually takes next; without strides they lie together.
    fn soon(&self) -> Soon {
        let (pointwise, pass, images) = (self.pointwise, self.step.pass, self.step.images);
        if pointwise.source_step != 1 || self.step.index + 1 == pointwise.chunks(images) {
            return Soon::NOTHING;
        }
        let first = self.first + pointwise.pixels_per_chunk(images);
        let count = pointwise.chunk_pixels(self.step.index + 1, images);
        self.step.source.soon(first * pass.source.channels..(first + count) * pass.source.channels)
    }

    /// Copies `width` channels from `channel` on of every pixel of the chunk.
    #[inline(always)]
    unsafe fn fill<L: Lanes>(&self, input: &mut [f32], channel: usize, width: usize) {
        let (pointwise, pass) = (self.pointwise, self.step.pass);
        for line in pointwise.lines(pass, self.first, self.count) {
            let run = PixelRun {
                first: line.source,
                step: pointwise.source_step,
                count: line.count,
                image: line.image,
                channel,
                width,
                channels: pass.source.channels,
            };
            let to = input[line.start * pointwise.input_stride..].as_mut_ptr();
            // SAFETY: see `run`.
            unsafe { self.step.source.fill::<L>(run, to, pointwise.input_stride) };
        }
    }

    /// Writes the finished `columns` of every pixel of the chunk to the sink.
    #[inline(always)]
    unsafe fn finish<L: Lanes>(&self, out: &[f32], columns: std::ops::Range<usize>) {
        let (pointwise, pass) = (self.pointwise, self.step.pass);
        for line in pointwise.lines(pass, self.first, self.count) {
            let run = OutRun {
                chunk: self.step.index,
                starts_chunk: line.start == 0,
                first: line.target,
                step: pointwise.target_step,
                count: line.count,
                stride: pointwise.group(),
                channel: columns.start,
                width: columns.len(),
            };
            // SAFETY: see `run`.
            unsafe { self.step.sink.finish::<L>(out[line.start * pointwise.group()..].as_ptr(), run) };
        }
    }
}
