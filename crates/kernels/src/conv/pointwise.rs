//! 1x1 convolutions: one matrix product over pixels.

use super::Exactness;
use super::call::Call;
use super::pass::Pass;
use crate::Source;
use crate::gemm::{Packed, Place, Run, Store};
use crate::isa::Isa;
use crate::lanes::{Lanes, Task};
use crate::scratch::SharedScratch;
use crate::sink::{OutRun, Region, SharedSink};
use crate::source::PixelRun;

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
        Self {
            weights,
            grid: [along(pass.source.height, pass.target.height), along(pass.source.width, pass.target.width)],
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
    fn chunk_pixels(&self, images: usize) -> usize {
        let fair = self.pixels(images).div_ceil(CHUNKS).next_multiple_of(self.tile_rows);
        fair.clamp(self.tile_rows, self.most_pixels())
    }

    fn most_pixels(&self) -> usize {
        PIXELS.next_multiple_of(self.tile_rows)
    }

    pub fn chunks(&self, images: usize) -> usize {
        self.pixels(images).div_ceil(self.chunk_pixels(images))
    }

    pub fn scratch_floats(&self) -> usize {
        self.most_pixels() * (self.input_stride + self.group())
    }

    pub fn scratch_offsets(&self) -> usize {
        2 * self.most_pixels()
    }

    pub fn weight_bytes(&self) -> usize {
        self.weights.bytes()
    }

    pub fn run(&self, call: Call) {
        let Call { isa, pass, workers, scratch, images, source, mut sink } = call;
        let everywhere = self.grid == [pass.target.height, pass.target.width];
        let target_pixels = images * pass.target.pixels();
        if !everywhere && !sink.accumulate {
            // Pixels between the strides receive nothing; the others add to the zero.
            sink.out[..target_pixels * pass.target.channels].fill(0.0);
            sink.accumulate = true;
        }
        let (pixels, size, chunks) = (self.pixels(images), self.chunk_pixels(images), self.chunks(images));
        let (scratch, partials) = scratch.split();
        let region = Region { pixels: target_pixels, channels: pass.target.channels, chunks, partials };
        sink.receive(
            workers,
            region,
            |sink, chunk, worker| {
                let first = chunk * size;
                let count = size.min(pixels - first);
                isa.run(Step { pointwise: self, pass, scratch, worker, chunk, first, count, source, sink });
            },
            |chunk| size.min(pixels - chunk * size),
        );
    }

    /// Columns worked on at once. With the whole summed axis at hand, few enough that their results stay near the core;
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

/// One chunk.
struct Step<'a> {
    pointwise: &'a Pointwise,
    pass: &'a Pass,
    scratch: SharedScratch<'a>,
    worker: usize,
    chunk: usize,
    first: usize,
    count: usize,
    source: Source<'a>,
    sink: &'a SharedSink<'a>,
}

impl Task for Step<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<L: Lanes>(self) {
        let Self { pointwise, count, .. } = self;
        let weights = &pointwise.weights;
        let group = pointwise.group();
        // SAFETY: `of`: a worker runs one chunk at a time. The scratch has the lengths asked for (checked by slicing),
        // and every run lies inside the batch the source and the sink were checked for.
        unsafe {
            let scratch = self.scratch.of(self.worker);
            let (input, out) = scratch.floats.split_at_mut(pointwise.most_pixels() * pointwise.input_stride);
            let out = &mut out[..count * group];
            let (a_rows, c_rows) = scratch.offsets.split_at_mut(pointwise.most_pixels());
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
                    weights.multiply_block::<L>(
                        block,
                        0..group,
                        base,
                        a_rows,
                        out.as_mut_ptr(),
                        c_rows,
                        Store::near(block > 0),
                    );
                    channel += width;
                }
                self.finish::<L>(out, 0..self.pass.target.channels);
                return;
            }
            self.fill::<L>(input, 0, self.pass.source.channels);
            if let Some(store) = self.sink.direct::<L>() {
                self.multiply_direct::<L>(input, a_rows, c_rows, store);
                return;
            }
            let mut column = 0;
            while column < weights.padded_columns() {
                let end = weights.padded_columns().min(column + group);
                weights.multiply_block::<L>(
                    0,
                    column..end,
                    input.as_ptr(),
                    a_rows,
                    out.as_mut_ptr(),
                    c_rows,
                    Store::near(false),
                );
                self.finish::<L>(out, column..end.min(self.pass.target.channels));
                column = end;
            }
        }
    }
}

impl Step<'_> {
    /// Products that go straight to the tensor, from the whole summed axis at hand.
    #[inline(always)]
    unsafe fn multiply_direct<L: Lanes>(&self, input: &[f32], a_rows: &[u32], c_rows: &mut [u32], store: Store) {
        let Self { pointwise, pass, .. } = self;
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
            let out = self.sink.pixels(first, last);
            let columns = 0..weights.padded_columns();
            weights.multiply_block::<L>(0, columns, input.as_ptr(), a_rows, out, c_rows, store);
            if store.place == Place::Past {
                L::fence();
            }
        }
    }

    /// Copies `width` channels from `channel` on of every pixel of the chunk.
    #[inline(always)]
    unsafe fn fill<L: Lanes>(&self, input: &mut [f32], channel: usize, width: usize) {
        let Self { pointwise, pass, .. } = self;
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
            unsafe { self.source.fill::<L>(run, to, pointwise.input_stride) };
        }
    }

    /// Sends the finished `columns` of every pixel of the chunk on their way.
    #[inline(always)]
    unsafe fn finish<L: Lanes>(&self, out: &[f32], columns: std::ops::Range<usize>) {
        let Self { pointwise, pass, .. } = self;
        for line in pointwise.lines(pass, self.first, self.count) {
            let run = OutRun {
                chunk: self.chunk,
                opens: line.start == 0,
                first: line.target,
                step: pointwise.target_step,
                count: line.count,
                stride: pointwise.group(),
                channel: columns.start,
                width: columns.len(),
            };
            // SAFETY: see `run`.
            unsafe { self.sink.finish::<L>(out[line.start * pointwise.group()..].as_ptr(), run) };
        }
    }
}
