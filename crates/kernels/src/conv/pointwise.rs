//! 1x1 convolutions: one matrix product over pixels.

use super::Exactness;
use super::pass::Pass;
use crate::gemm::{Packed, Run};
use crate::isa::Isa;
use crate::lanes::{Lanes, Task};
use crate::scratch::SharedScratch;
use crate::sink::{OutRun, Region, SharedSink};
use crate::source::PixelRun;
use crate::{Scratch, Sink, Source, Workers};

/// Most pixels per chunk, and the number of chunks to aim for when there are few pixels.
const PIXELS: usize = 224;
const CHUNKS: usize = 16;
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
        let run = Run {
            offset: 0,
            len: pass.source.channels as u32,
        };
        let tap = pass
            .classes
            .iter()
            .find_map(|class| class.taps.first())
            .expect("a pointwise pass has one tap");
        let weights = Packed::new(
            &[run],
            pass.target.channels,
            isa.lanes(),
            exactness,
            |k, column| pass.weight(weights, 0, k, column, tap),
        );
        let along = |source: usize, target: usize| {
            source
                .div_ceil(pass.source_step)
                .min(target.div_ceil(pass.target_step))
        };
        let longest = (0..weights.blocks())
            .map(|block| weights.block_len(block))
            .max()
            .unwrap_or(0);
        Self {
            weights,
            grid: [
                along(pass.source.height, pass.target.height),
                along(pass.source.width, pass.target.width),
            ],
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
        let fair = self
            .pixels(images)
            .div_ceil(CHUNKS)
            .next_multiple_of(self.tile_rows);
        fair.clamp(self.tile_rows, self.most_pixels())
    }

    fn most_pixels(&self) -> usize {
        PIXELS.next_multiple_of(self.tile_rows)
    }

    pub fn chunks(&self, images: usize) -> usize {
        self.pixels(images).div_ceil(self.chunk_pixels(images))
    }

    pub fn scratch_floats(&self) -> usize {
        self.most_pixels() * (self.input_stride + self.weights.padded_columns())
    }

    pub fn scratch_offsets(&self) -> usize {
        2 * self.most_pixels()
    }

    pub fn weight_bytes(&self) -> usize {
        self.weights.bytes()
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "the four algorithms share this signature"
    )]
    pub fn run(
        &self,
        isa: Isa,
        pass: &Pass,
        workers: &mut Workers,
        scratch: &mut Scratch,
        images: usize,
        source: Source,
        mut sink: Sink,
    ) {
        let everywhere = self.grid == [pass.target.height, pass.target.width];
        let target_pixels = images * pass.target.pixels();
        if !everywhere && !sink.accumulate {
            // Pixels between the strides receive nothing; the others add to the zero.
            sink.out[..target_pixels * pass.target.channels].fill(0.0);
            sink.accumulate = true;
        }
        let (pixels, size, chunks) = (
            self.pixels(images),
            self.chunk_pixels(images),
            self.chunks(images),
        );
        let (scratch, partials) = scratch.split();
        let region = Region {
            pixels: target_pixels,
            channels: pass.target.channels,
            chunks,
            partials,
        };
        sink.receive(
            workers,
            region,
            |sink, chunk, worker| {
                let first = chunk * size;
                let count = size.min(pixels - first);
                isa.run(Step {
                    pointwise: self,
                    pass,
                    scratch,
                    worker,
                    chunk,
                    first,
                    count,
                    source,
                    sink,
                });
            },
            |chunk| size.min(pixels - chunk * size),
        );
    }

    /// Cuts the pixels `first..first + count` of the grid into runs with a constant step on both sides, and calls
    /// `f(image, source pixel, target pixel, start in the chunk, length)` for each.
    #[inline(always)]
    fn each_run(
        &self,
        pass: &Pass,
        first: usize,
        count: usize,
        mut f: impl FnMut(usize, usize, usize, usize, usize),
    ) {
        let [rows, columns] = self.grid;
        let dense = self.source_step == 1 && self.target_step == 1;
        // Without strides an image is one run; with them each row is.
        let len = if dense { rows * columns } else { columns };
        let mut done = 0;
        while done < count {
            let (line, start) = ((first + done) / len, (first + done) % len);
            let take = (len - start).min(count - done);
            let (image, row) = if dense {
                (line, 0)
            } else {
                (line / rows, line % rows)
            };
            let source = (image * pass.source.height + row * self.source_step) * pass.source.width
                + start * self.source_step;
            let target = (image * pass.target.height + row * self.target_step) * pass.target.width
                + start * self.target_step;
            f(image, source, target, done, take);
            done += take;
        }
    }
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
        let Self {
            pointwise,
            pass,
            first,
            count,
            ..
        } = self;
        let stride = pointwise.weights.padded_columns();
        // SAFETY: `of`: a worker runs one chunk at a time. The scratch has the lengths asked for (checked by slicing),
        // and every run lies inside the batch the source and the sink were checked for.
        unsafe {
            let scratch = self.scratch.of(self.worker);
            let (input, out) = scratch
                .floats
                .split_at_mut(pointwise.most_pixels() * pointwise.input_stride);
            let out = &mut out[..count * stride];
            let (a_rows, c_rows) = scratch.offsets.split_at_mut(pointwise.most_pixels());
            for i in 0..count {
                a_rows[i] = (i * pointwise.input_stride) as u32;
                c_rows[i] = (i * stride) as u32;
            }
            let mut channel = 0;
            for block in 0..pointwise.weights.blocks() {
                let width = pointwise.weights.block_len(block);
                pointwise.each_run(pass, first, count, |image, source, _, start, len| {
                    let run = PixelRun {
                        first: source,
                        step: pointwise.source_step,
                        count: len,
                        image,
                        channel,
                        width,
                        channels: pass.source.channels,
                    };
                    let to = input.as_mut_ptr().add(start * pointwise.input_stride);
                    self.source.fill::<L>(run, to, pointwise.input_stride);
                });
                // The runs of later blocks start at their own channel, the copied rows always at the first.
                let base = input.as_ptr().wrapping_sub(channel);
                pointwise.weights.multiply_block::<L>(
                    block,
                    base,
                    &a_rows[..count],
                    out.as_mut_ptr(),
                    &c_rows[..count],
                    block > 0,
                );
                channel += width;
            }
            let mut opens = true;
            pointwise.each_run(pass, first, count, |_, _, target, start, len| {
                let run = OutRun {
                    chunk: self.chunk,
                    opens,
                    first: target,
                    step: pointwise.target_step,
                    count: len,
                    stride,
                };
                self.sink.finish::<L>(out.as_ptr().add(start * stride), run);
                opens = false;
            });
        }
    }
}
