//! Depthwise convolutions: one filter per channel, vectors run along the channels.

use super::algorithm::{Algorithm, Step};
use super::chunks::Chunking;
use super::pass::{Class, Pass};
use super::window::Window;
use crate::isa::Isa;
use crate::lanes::{Lanes, Task, load, store, vectors};
use crate::{Buffer, ScratchSize};

/// Floats of window and of output per chunk.
const CHUNK_FLOATS: usize = 48 << 10;
/// Target pixels worked on at once, so that neighbours share what they load.
const TILE: usize = 4;

#[derive(Debug)]
pub(crate) struct Depthwise {
    window: Window,
    window_floats: usize,
    chunking: Chunking,
    /// Per class: `[tap][channel]`.
    weights: Vec<Buffer>,
    /// Target pixels of a row, and channels of each.
    width: usize,
    channels: usize,
}

impl Depthwise {
    pub fn new(pass: &Pass, weights: &[f32]) -> Self {
        let window = Window::new(pass, pass.target.width);
        let (width, channels) = (pass.target.width, pass.target.channels);
        let weights = pass
            .classes
            .iter()
            .map(|class| {
                let mut packed = Buffer::zeroed(class.taps.len() * channels);
                for (t, tap) in class.taps.iter().enumerate() {
                    for c in 0..channels {
                        packed[t * channels + c] = pass.weight(weights, c, 0, 0, tap);
                    }
                }
                packed
            })
            .collect();
        let chunking = window.chunking(pass, width * channels, CHUNK_FLOATS, 2 * pass.target_step);
        Self { window_floats: window.floats(pass, &chunking), window, chunking, weights, width, channels }
    }
}

impl Algorithm for Depthwise {
    fn name(&self) -> &'static str {
        "depthwise"
    }

    fn scratch(&self) -> ScratchSize {
        let out = self.chunking.images() * self.chunking.rows() * self.width * self.channels;
        ScratchSize { floats: self.window_floats + out, ..ScratchSize::default() }
    }

    fn weight_bytes(&self) -> usize {
        4 * self.weights.iter().map(|buffer| buffer.len()).sum::<usize>()
    }

    fn chunks(&self, images: usize) -> usize {
        self.chunking.count(images)
    }

    fn chunk_pixels(&self, index: usize, images: usize) -> usize {
        self.chunking.get(index, images).all_rows() * self.width
    }

    fn run(&self, isa: Isa, step: Step) {
        isa.run(DepthwiseStep { depthwise: self, step });
    }
}

struct DepthwiseStep<'a> {
    depthwise: &'a Depthwise,
    step: Step<'a>,
}

impl Task for DepthwiseStep<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<L: Lanes>(self) {
        let Self { depthwise, step } = self;
        let (pass, target) = (step.pass, step.pass.target);
        let chunk = depthwise.chunking.get(step.index, step.images);
        let run = step.out_run(chunk, target.channels);
        let window_rows = depthwise.window.rows(pass, chunk.rows);
        // SAFETY: the scratch has the lengths asked for (checked by slicing).
        unsafe {
            let (window, out) = step.scratch.floats.split_at_mut(depthwise.window_floats);
            let out = &mut out[..chunk.images * chunk.rows * target.width * target.channels];
            depthwise.window.fill::<L>(pass, &step.source, chunk, window_rows, window.as_mut_ptr());
            for (class, weights) in pass.classes.iter().zip(&depthwise.weights) {
                let rows = pass.class_len(class, 0, chunk.rows);
                for image in 0..chunk.images {
                    for y in 0..rows {
                        let from = (image * window_rows + y * pass.source_step) * depthwise.window.row_len();
                        let row = image * chunk.rows + class.start[0] + y * pass.target_step;
                        let to = (row * target.width + class.start[1]) * target.channels;
                        let line = Line {
                            depthwise,
                            pass,
                            class,
                            weights: weights.as_ptr(),
                            from: window.as_ptr().add(from),
                            to: out.as_mut_ptr().add(to),
                        };
                        L::vectorize(line);
                    }
                }
            }
            step.sink.finish::<L>(out.as_ptr(), run);
        }
    }
}

/// One row of target pixels of a class.
struct Line<'a> {
    depthwise: &'a Depthwise,
    pass: &'a Pass,
    class: &'a Class,
    weights: *const f32,
    from: *const f32,
    to: *mut f32,
}

impl Task for Line<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<L: Lanes>(self) {
        let channels = self.pass.target.channels;
        let columns = self.pass.class_len(self.class, 1, self.pass.target.width);
        let mut x = 0;
        while x + TILE <= columns {
            // SAFETY: the window holds every pixel the taps of these targets read.
            unsafe { self.pixels::<L, TILE>(x, channels) };
            x += TILE;
        }
        while x < columns {
            // SAFETY: as above.
            unsafe { self.pixels::<L, 1>(x, channels) };
            x += 1;
        }
    }
}

impl Line<'_> {
    /// `COUNT` neighbouring targets from `x` on.
    #[inline(always)]
    unsafe fn pixels<L: Lanes, const COUNT: usize>(&self, x: usize, channels: usize) {
        let (source, target) = (self.pass.source_step * channels, self.pass.target_step * channels);
        // SAFETY: see `run`; vectors at the end of the channels are partial.
        unsafe {
            let (from, to) = (self.from.add(x * source), self.to.add(x * target));
            for (c, part) in vectors::<L>(channels) {
                let mut acc = [L::splat(0.0); COUNT];
                for (t, tap) in self.class.taps.iter().enumerate() {
                    let w = load::<L>(self.weights.add(t * channels + c), part);
                    let from = from.add(self.depthwise.window.tap_offset(tap.dy, tap.dx) + c);
                    for (i, sum) in acc.iter_mut().enumerate() {
                        *sum = L::fma(load::<L>(from.add(i * source), part), w, *sum);
                    }
                }
                for (i, sum) in acc.into_iter().enumerate() {
                    let to = to.add(i * target + c);
                    store::<L>(to, part, sum);
                }
            }
        }
    }
}
