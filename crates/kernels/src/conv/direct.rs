//! Any convolution, as a matrix product over windows read where they lie.

use super::Exactness;
use super::algorithm::{Algorithm, Step};
use super::chunks::Chunking;
use super::pass::{Class, Pass};
use super::window::Window;
use crate::ScratchSize;
use crate::gemm::{Packed, Rows, Run};
use crate::isa::Isa;
use crate::lanes::{Lanes, Task};

/// Floats of window and of output per chunk: together they stay in a core's own cache.
const CHUNK_FLOATS: usize = 48 << 10;
/// Widest group that several narrow ones are merged into, with zeros between them.
const MERGED: usize = 32;

#[derive(Debug)]
pub(crate) struct Direct {
    window: Window,
    window_floats: usize,
    chunking: Chunking,
    /// Per class, then per merged group.
    weights: Vec<Vec<Packed>>,
    /// Groups after merging.
    groups: usize,
    stride: usize,
    /// Target pixels of a row, and most of a chunk.
    width: usize,
    pixels: usize,
}

impl Direct {
    pub fn new(isa: Isa, pass: &Pass, weights: &[f32], exactness: Exactness) -> Self {
        let window = Window::new(pass, pass.target.width);
        let merge = merge_factor(pass);
        let groups = pass.groups / merge;
        let packing = Packing { pass, window: &window, weights, merge };
        let pack = |class: &Class, group: usize| {
            let (runs, columns) = packing.layout(class, group);
            let weight = |k, column| packing.weight(class, group, k, column);
            Packed::new(&runs, columns, isa.lanes(), exactness, weight)
        };
        let weights: Vec<Vec<Packed>> =
            pass.classes.iter().map(|class| (0..groups).map(|group| pack(class, group)).collect()).collect();
        let padded = weights.iter().flatten().map(Packed::padded_columns).max().unwrap_or(0);
        // Whole vectors of the last group may reach beyond the channels.
        let stride = (pass.target.channels - pass.target.channels / groups + padded)
            .max(pass.target.channels.next_multiple_of(isa.lanes()));
        let chunking = window.chunking(pass, stride * pass.target.width, CHUNK_FLOATS, pass.target_step);
        let width = pass.target.width;
        let pixels = chunking.images() * chunking.rows() * width;
        Self { window_floats: window.floats(pass, &chunking), window, chunking, weights, groups, stride, width, pixels }
    }
}

/// How many groups share a matrix product: as many as keep it narrow.
fn merge_factor(pass: &Pass) -> usize {
    let widest = pass.source.channels.max(pass.target.channels) / pass.groups;
    let divisors = (1..=pass.groups).filter(|merge| pass.groups.is_multiple_of(*merge));
    divisors.filter(|merge| merge * widest <= MERGED).max().unwrap_or(1)
}

/// What the weights of a group are packed from.
struct Packing<'a> {
    pass: &'a Pass,
    window: &'a Window,
    weights: &'a [f32],
    /// Groups that share a matrix product.
    merge: usize,
}

impl Packing<'_> {
    /// Source and target channels of a group before merging.
    fn channels(&self) -> (usize, usize) {
        (self.pass.source.channels / self.pass.groups, self.pass.target.channels / self.pass.groups)
    }

    /// What a row of the product reads from the window, and its number of columns.
    fn layout(&self, class: &Class, group: usize) -> (Vec<Run>, usize) {
        let (sources, targets) = self.channels();
        let merged = sources * self.merge;
        let mut runs: Vec<Run> = Vec::new();
        for tap in &class.taps {
            let offset = (self.window.tap_offset(tap.dy, tap.dx) + group * merged) as u32;
            match runs.last_mut() {
                // Neighbouring taps of a filter row read one stretch of memory.
                Some(run) if run.offset + run.len == offset => run.len += merged as u32,
                _ => runs.push(Run { offset, len: merged as u32 }),
            }
        }
        (runs, targets * self.merge)
    }

    fn weight(&self, class: &Class, group: usize, k: usize, column: usize) -> f32 {
        let (sources, targets) = self.channels();
        let merged = sources * self.merge;
        let (tap, source) = (&class.taps[k / merged], k % merged);
        if source / sources != column / targets {
            return 0.0;
        }
        let group = group * self.merge + source / sources;
        self.pass.weight(self.weights, group, source % sources, column % targets, tap)
    }
}

impl Algorithm for Direct {
    fn name(&self) -> &'static str {
        "direct"
    }

    fn scratch(&self) -> ScratchSize {
        let floats = self.window_floats + self.pixels * self.stride;
        ScratchSize { floats, offsets: 2 * self.pixels, partials: 0 }
    }

    fn weight_bytes(&self) -> usize {
        self.weights.iter().flatten().map(Packed::bytes).sum()
    }

    fn chunks(&self, images: usize) -> usize {
        self.chunking.count(images)
    }

    fn chunk_pixels(&self, index: usize, images: usize) -> usize {
        self.chunking.get(index, images).all_rows() * self.width
    }

    fn run(&self, isa: Isa, step: Step) {
        isa.run(DirectStep { direct: self, step });
    }
}

struct DirectStep<'a> {
    direct: &'a Direct,
    step: Step<'a>,
}

impl Task for DirectStep<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<L: Lanes>(self) {
        let Self { direct, step } = self;
        let (pass, target) = (step.pass, step.pass.target);
        let chunk = direct.chunking.get(step.index, step.images);
        let run = step.out_run(chunk, direct.stride);
        let window_rows = direct.window.rows(pass, chunk.rows);
        // SAFETY: the scratch lengths are those `scratch` asks for (checked by slicing), and offsets stay inside the window by
        // construction.
        unsafe {
            let (window, out) = step.scratch.floats.split_at_mut(direct.window_floats);
            let out = &mut out[..direct.pixels * direct.stride];
            let (a_rows, c_rows) = step.scratch.offsets.split_at_mut(direct.pixels);
            direct.window.fill::<L>(pass, &step.source, chunk, window_rows, window.as_mut_ptr());
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
                    packed.multiply::<L>(Rows {
                        from: window.as_ptr(),
                        from_rows: &a_rows[..count],
                        to: out.as_mut_ptr().add(column),
                        to_rows: &c_rows[..count],
                    });
                }
            }
            step.sink.finish::<L>(out.as_ptr(), run);
        }
    }
}
