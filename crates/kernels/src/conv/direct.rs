//! Any convolution, as a matrix product over windows read where they lie.

use super::Exactness;
use super::call::{Call, Step};
use super::chunks::Chunking;
use super::pass::{Class, Pass};
use super::window::Window;
use crate::gemm::{Packed, Run};
use crate::isa::Isa;
use crate::lanes::{Lanes, Task};
use crate::sink::OutRun;

/// Floats of window and of output per chunk: together they stay in a core's own cache.
const CHUNK_FLOATS: usize = 48 << 10;
/// Widest group that several narrow ones are merged into, with zeros between them.
const MERGED: usize = 32;

#[derive(Debug)]
pub(crate) struct Direct {
    window: Window,
    chunking: Chunking,
    /// Per class, then per merged group.
    weights: Vec<Vec<Packed>>,
    /// Groups after merging.
    groups: usize,
    window_rows: usize,
    stride: usize,
    pixels: usize,
}

impl Direct {
    pub fn new(isa: Isa, pass: &Pass, weights: &[f32], exactness: Exactness) -> Self {
        let window = Window::new(pass, pass.target.width);
        let merge = merge_factor(pass);
        let groups = pass.groups / merge;
        let packed: Vec<Vec<Packed>> = pass
            .classes
            .iter()
            .map(|class| (0..groups).map(|g| pack(isa, exactness, pass, &window, class, (g, merge), weights)).collect())
            .collect();
        let padded = packed.iter().flatten().map(Packed::padded_columns).max().unwrap_or(0);
        // Whole vectors of the last group may reach beyond the channels.
        let stride = (pass.target.channels - pass.target.channels / groups + padded)
            .max(pass.target.channels.next_multiple_of(isa.lanes()));
        let step = pass.target_step;
        let input_per_row = window.row_len() * pass.source_step / step;
        let per_row = input_per_row.max(stride * pass.target.width).max(1);
        let chunking = Chunking::new(pass.target.height, (CHUNK_FLOATS / per_row).max(step), step);
        let window_rows = window.rows(pass, chunking.rows());
        let pixels = chunking.images() * chunking.rows() * pass.target.width;
        Self { window, chunking, weights: packed, groups, window_rows, stride, pixels }
    }

    pub fn chunks(&self, images: usize) -> usize {
        self.chunking.count(images)
    }

    fn window_floats(&self) -> usize {
        (self.chunking.images() * self.window_rows * self.window.row_len()).next_multiple_of(16)
    }

    pub fn scratch_floats(&self) -> usize {
        self.window_floats() + self.pixels * self.stride
    }

    pub fn scratch_offsets(&self) -> usize {
        2 * self.pixels
    }

    pub fn weight_bytes(&self) -> usize {
        self.weights.iter().flatten().map(Packed::bytes).sum()
    }

    pub fn run(&self, call: Call) {
        call.run_chunks(self, self.chunking);
    }
}

/// How many groups share a matrix product: as many as keep it narrow.
fn merge_factor(pass: &Pass) -> usize {
    let widest = pass.source.channels.max(pass.target.channels) / pass.groups;
    let divisors = (1..=pass.groups).filter(|merge| pass.groups.is_multiple_of(*merge));
    divisors.filter(|merge| merge * widest <= MERGED).max().unwrap_or(1)
}

fn pack(
    isa: Isa,
    exactness: Exactness,
    pass: &Pass,
    window: &Window,
    class: &Class,
    (group, merge): (usize, usize),
    weights: &[f32],
) -> Packed {
    let sources = pass.source.channels / pass.groups;
    let targets = pass.target.channels / pass.groups;
    let merged = sources * merge;
    let mut runs: Vec<Run> = Vec::new();
    for tap in &class.taps {
        let offset = (window.tap_offset(tap.dy, tap.dx) + group * merged) as u32;
        match runs.last_mut() {
            // Neighbouring taps of a filter row read one stretch of memory.
            Some(run) if run.offset + run.len == offset => run.len += merged as u32,
            _ => runs.push(Run { offset, len: merged as u32 }),
        }
    }
    Packed::new(&runs, targets * merge, isa.lanes(), exactness, |k, column| {
        let (tap, source) = (&class.taps[k / merged], k % merged);
        if source / sources != column / targets {
            return 0.0;
        }
        pass.weight(weights, group * merge + source / sources, source % sources, column % targets, tap)
    })
}

impl Task for Step<'_, Direct> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<L: Lanes>(self) {
        let Self { algorithm: direct, pass, chunk, .. } = self;
        let window_rows = direct.window.rows(pass, chunk.rows);
        let target = pass.target;
        // SAFETY: `of`: a worker runs one chunk at a time. The scratch lengths are those `scratch_floats` and
        // `scratch_offsets` ask for (checked by slicing), and offsets stay inside the window by construction.
        unsafe {
            let scratch = self.scratch.of(self.worker);
            let (window, out) = scratch.floats.split_at_mut(direct.window_floats());
            let out = &mut out[..direct.pixels * direct.stride];
            let (a_rows, c_rows) = scratch.offsets.split_at_mut(direct.pixels);
            direct.window.fill::<L>(pass, &self.source, chunk, window_rows, window.as_mut_ptr());
            for (class, packed) in pass.classes.iter().zip(&direct.weights) {
                let (rows, columns) = (pass.class_len(class, 0, chunk.rows), pass.class_len(class, 1, target.width));
                let mut count = 0;
                for image in 0..chunk.images {
                    for y in 0..rows {
                        let from = (image * window_rows + y * pass.source_step) * direct.window.row_len();
                        let to = (image * chunk.rows + class.start[0] + y * pass.target_step) * target.width
                            + class.start[1];
                        for x in 0..columns {
                            a_rows[count] = (from + x * pass.source_step * pass.source.channels) as u32;
                            c_rows[count] = ((to + x * pass.target_step) * direct.stride) as u32;
                            count += 1;
                        }
                    }
                }
                if class.taps.is_empty() {
                    for &row in &c_rows[..count] {
                        out[row as usize..][..target.channels].fill(0.0);
                    }
                    continue;
                }
                for (group, packed) in packed.iter().enumerate() {
                    let column = group * (target.channels / direct.groups);
                    packed.multiply::<L>(
                        window.as_ptr(),
                        &a_rows[..count],
                        out.as_mut_ptr().add(column),
                        &c_rows[..count],
                    );
                }
            }
            let run = OutRun {
                chunk: self.index,
                opens: true,
                first: (chunk.image * target.height + chunk.row) * target.width,
                step: 1,
                count: chunk.images * chunk.rows * target.width,
                stride: direct.stride,
                channel: 0,
                width: target.channels,
            };
            self.sink.finish::<L>(out.as_ptr(), run);
        }
    }
}
