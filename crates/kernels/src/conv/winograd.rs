//! Winograd's F(4x4, 3x3): a 3x3 convolution with stride 1 at a quarter of the multiplications.
//!
//! A tile of 4x4 outputs depends on 6x6 inputs. Both are transformed to products at 36 points; over all channels each
//! point is one matrix product. Interpolation points are 0, +-3/4, +-3/2 and infinity, whose rounding errors are a third
//! of those of the usual 0, +-1, +-2. Only one chunk's transforms exist at a time, so they stay near the core.
//!
//! Reference: Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", CVPR 2016.

use super::Exactness;
use super::algorithm::{Algorithm, Step};
use super::chunks::{Chunk, Chunking};
use super::pass::Pass;
use super::window::Window;
use crate::ScratchSize;
use crate::gemm::{Packed, Rows, Run};
use crate::isa::Isa;
use crate::lanes::{Lanes, Task};
use crate::team::cut;
use std::ops::Range;

/// Outputs and inputs of a tile along one axis.
const OUT: usize = 4;
const IN: usize = 6;
const POINTS: usize = IN * IN;
/// The points besides zero and infinity, with their signs.
const A: f32 = 0.75;
const B: f32 = 1.5;
/// Channels must come in whole vectors of the widest instruction set, so that the choice is the same on all.
const CHANNELS: usize = 16;
/// Floats between rows, and between the matrices of two points, beyond their length: a power of two would crowd cache sets.
const SKEW: usize = 16;
/// Tiles per chunk to aim for.
const TILES: usize = 32;

#[derive(Debug)]
pub(crate) struct Winograd {
    window: Window,
    chunking: Chunking,
    weights: Vec<Packed>,
    /// Tiles across, and rows of tiles per chunk and image.
    across: usize,
    down: usize,
    source_stride: usize,
    target_stride: usize,
    channels: usize,
    width: usize,
}

impl Winograd {
    /// Whether the pass is a 3x3 convolution with stride 1 over enough channels.
    pub fn fits(pass: &Pass) -> bool {
        let [class] = pass.classes.as_slice() else {
            return false;
        };
        let (Some(first), Some(last)) = (class.taps.first(), class.taps.last()) else {
            return false;
        };
        pass.groups == 1
            && pass.source_step == 1
            && pass.target_step == 1
            && class.taps.len() == 9
            && last.dy - first.dy == 2
            && last.dx - first.dx == 2
            && pass.source.channels.is_multiple_of(CHANNELS)
            && pass.target.channels.is_multiple_of(CHANNELS)
    }

    pub fn new(isa: Isa, pass: &Pass, weights: &[f32]) -> Self {
        let target = pass.target;
        let across = target.width.div_ceil(OUT);
        let down = target.height.div_ceil(OUT);
        let tile_rows = (TILES / across).max(1);
        let rows = if tile_rows >= down { tile_rows / down * target.height } else { tile_rows * OUT };
        let chunking = Chunking::new(target.height, rows, OUT);
        // The window must reach the ends of the last tiles, beyond the image.
        let window = Window::new(pass, across * OUT);
        let (sources, targets) = (pass.source.channels, target.channels);
        let run = [Run { offset: 0, len: sources as u32 }];
        let room = || Packed::zeroed(&run, targets, isa.lanes(), Exactness::Fast);
        let mut packed: Vec<Packed> = std::iter::repeat_with(room).take(POINTS).collect();
        // Some target channels at a time, so that transformed filters stay in cache on their way.
        let mut filters = vec![0.0; POINTS * sources * Packed::PANELS.min(targets)];
        for start in (0..targets).step_by(Packed::PANELS) {
            let columns = start..targets.min(start + Packed::PANELS);
            let filters = &mut filters[..POINTS * sources * columns.len()];
            isa.run(Filters { pass, weights, targets: columns.clone(), to: &mut *filters });
            for (packed, filter) in packed.iter_mut().zip(filters.chunks_exact(sources * columns.len())) {
                packed.fill(columns.clone(), isa.lanes(), |k, out| filter[(out - start) * sources + k]);
            }
        }
        Self {
            window,
            across,
            down: chunking.rows().div_ceil(OUT),
            chunking,
            weights: packed,
            source_stride: stride(pass.source.channels),
            target_stride: stride(target.channels),
            channels: target.channels,
            width: target.width,
        }
    }

    fn tiles(&self) -> usize {
        self.chunking.images() * self.down * self.across
    }

    /// Lengths of the parts of a worker's scratch: window, transformed inputs, products, outputs.
    fn parts(&self) -> [usize; 4] {
        let window_rows = self.chunking.images() * (self.down * OUT + 2);
        let parts = [
            window_rows * self.window.row_len(),
            POINTS * self.source_matrix(),
            POINTS * self.target_matrix(),
            self.chunking.images() * self.chunking.rows() * self.width * self.channels,
        ];
        parts.map(|len| len.next_multiple_of(16))
    }

    fn source_matrix(&self) -> usize {
        self.tiles() * self.source_stride + SKEW
    }

    fn target_matrix(&self) -> usize {
        self.tiles() * self.target_stride + SKEW
    }
}

impl Algorithm for Winograd {
    fn name(&self) -> &'static str {
        "winograd"
    }

    fn scratch(&self) -> ScratchSize {
        ScratchSize { floats: self.parts().iter().sum(), offsets: 2 * self.tiles(), partials: 0 }
    }

    fn weight_bytes(&self) -> usize {
        self.weights.iter().map(Packed::bytes).sum()
    }

    fn chunks(&self, images: usize) -> usize {
        self.chunking.count(images)
    }

    fn chunk_pixels(&self, index: usize, images: usize) -> usize {
        self.chunking.get(index, images).all_rows() * self.width
    }

    fn run(&self, isa: Isa, step: Step) {
        isa.run(WinogradStep { winograd: self, step });
    }
}

/// Floats between rows of a matrix. Long rows are padded, since rows at a distance of a power of two share cache sets.
fn stride(channels: usize) -> usize {
    if channels < 256 { channels } else { channels + SKEW }
}

/// The filter transform of some target channels: `[point][target channel][source channel]`.
struct Filters<'a> {
    pass: &'a Pass,
    weights: &'a [f32],
    targets: Range<usize>,
    to: &'a mut [f32],
}

impl Task for Filters<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<L: Lanes>(self) {
        let Self { pass, weights, targets, to } = self;
        let sources = pass.source.channels;
        let taps = &pass.classes[0].taps;
        let matrix = filter_matrix();
        let factors: [[f64; POINTS]; 9] = std::array::from_fn(|tap| {
            std::array::from_fn(|point| matrix[point / IN][tap / 3] * matrix[point % IN][tap % 3])
        });
        let pairs = sources * targets.len();
        for pair in 0..pairs {
            let (target, source) = (targets.start + pair / sources, pair % sources);
            let mut sums = [0.0; POINTS];
            for (factors, tap) in factors.iter().zip(taps) {
                let weight = f64::from(pass.weight(weights, 0, source, target, tap));
                for (sum, factor) in sums.iter_mut().zip(factors) {
                    *sum += factor * weight;
                }
            }
            for (point, sum) in sums.into_iter().enumerate() {
                to[point * pairs + pair] = sum as f32;
            }
        }
    }
}

/// Filter transform: a row per point, a column per tap.
fn filter_matrix() -> [[f64; 3]; IN] {
    let (a, b) = (f64::from(A), f64::from(B));
    let row = |point: f64, norm: f64| [1.0 / norm, point / norm, point * point / norm];
    let norm_a = 2.0 * a * a * (a * a - b * b);
    let norm_b = 2.0 * b * b * (b * b - a * a);
    [row(0.0, a * a * b * b), row(a, norm_a), row(-a, norm_a), row(b, norm_b), row(-b, norm_b), [0.0, 0.0, 1.0]]
}

struct WinogradStep<'a> {
    winograd: &'a Winograd,
    step: Step<'a>,
}

impl Task for WinogradStep<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<L: Lanes>(self) {
        let Self { winograd, step } = self;
        let pass = step.pass;
        let chunk = winograd.chunking.get(step.index, step.images);
        let run = step.out_run(chunk, pass.target.channels);
        let down = chunk.rows.div_ceil(OUT);
        let tiles = chunk.images * down * winograd.across;
        let [window, inputs, products, out] = cut(step.scratch.floats, winograd.parts());
        let (a_rows, c_rows) = step.scratch.offsets[..2 * winograd.tiles()].split_at_mut(winograd.tiles());
        for tile in 0..tiles {
            a_rows[tile] = (tile * winograd.source_stride) as u32;
            c_rows[tile] = (tile * winograd.target_stride) as u32;
        }
        // SAFETY: the parts have the lengths computed for the largest chunk (checked by cutting), and tiles of this one fill at
        // most that.
        unsafe {
            winograd.window.fill::<L>(pass, &step.source, chunk, down * OUT + 2, window.as_mut_ptr());
            L::vectorize(Inputs { winograd, pass, chunk, window: window.as_ptr(), to: inputs.as_mut_ptr() });
            for (point, weights) in winograd.weights.iter().enumerate() {
                weights.multiply::<L>(Rows {
                    from: inputs.as_ptr().add(point * winograd.source_matrix()),
                    from_rows: &a_rows[..tiles],
                    to: products.as_mut_ptr().add(point * winograd.target_matrix()),
                    to_rows: &c_rows[..tiles],
                });
            }
            L::vectorize(Outputs { winograd, pass, chunk, from: products.as_ptr(), to: out.as_mut_ptr() });
            step.sink.finish::<L>(out.as_ptr(), run);
        }
    }
}

/// The input transform of a chunk.
struct Inputs<'a> {
    winograd: &'a Winograd,
    pass: &'a Pass,
    chunk: Chunk,
    window: *const f32,
    to: *mut f32,
}

impl Task for Inputs<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<L: Lanes>(self) {
        let Self { winograd, pass, chunk, .. } = self;
        let channels = pass.source.channels;
        let row_len = winograd.window.row_len();
        let down = chunk.rows.div_ceil(OUT);
        let matrix = winograd.source_matrix();
        let mut tile = 0;
        for image in 0..chunk.images {
            for ty in 0..down {
                for tx in 0..winograd.across {
                    let row = image * (down * OUT + 2) + ty * OUT;
                    for c in (0..channels).step_by(L::N) {
                        // SAFETY: the window holds `down * 4 + 2` rows per image and `across * 4 + 2` columns.
                        unsafe {
                            let from = self.window.add(row * row_len + tx * OUT * channels + c);
                            let mut columns = [[L::splat(0.0); IN]; IN];
                            for x in 0..IN {
                                let mut d = [L::splat(0.0); IN];
                                for (y, v) in d.iter_mut().enumerate() {
                                    *v = L::load(from.add(y * row_len + x * channels));
                                }
                                let t = transform_input::<L>(d);
                                for y in 0..IN {
                                    columns[y][x] = t[y];
                                }
                            }
                            let to = self.to.add(tile * winograd.source_stride + c);
                            for (y, row) in columns.into_iter().enumerate() {
                                for (x, v) in transform_input::<L>(row).into_iter().enumerate() {
                                    L::store(to.add((y * IN + x) * matrix), v);
                                }
                            }
                        }
                    }
                    tile += 1;
                }
            }
        }
    }
}

/// The output transform of a chunk.
struct Outputs<'a> {
    winograd: &'a Winograd,
    pass: &'a Pass,
    chunk: Chunk,
    from: *const f32,
    to: *mut f32,
}

impl Task for Outputs<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<L: Lanes>(self) {
        let Self { winograd, pass, chunk, .. } = self;
        let channels = pass.target.channels;
        let width = pass.target.width;
        let down = chunk.rows.div_ceil(OUT);
        let matrix = winograd.target_matrix();
        let mut tile = 0;
        for image in 0..chunk.images {
            for ty in 0..down {
                let rows = OUT.min(chunk.rows - ty * OUT);
                for tx in 0..winograd.across {
                    let columns = OUT.min(width - tx * OUT);
                    let pixel = (image * chunk.rows + ty * OUT) * width + tx * OUT;
                    for c in (0..channels).step_by(L::N) {
                        // SAFETY: products exist for every tile; rows and columns beyond the image are not written.
                        unsafe {
                            let from = self.from.add(tile * winograd.target_stride + c);
                            let mut half = [[L::splat(0.0); IN]; OUT];
                            for x in 0..IN {
                                let mut m = [L::splat(0.0); IN];
                                for (y, v) in m.iter_mut().enumerate() {
                                    *v = L::load(from.add((y * IN + x) * matrix));
                                }
                                let t = transform_output::<L>(m);
                                for y in 0..OUT {
                                    half[y][x] = t[y];
                                }
                            }
                            let to = self.to.add(pixel * channels + c);
                            for (y, row) in half.into_iter().enumerate().take(rows) {
                                let t = transform_output::<L>(row);
                                for (x, v) in t.into_iter().enumerate().take(columns) {
                                    L::store(to.add((y * width + x) * channels), v);
                                }
                            }
                        }
                    }
                    tile += 1;
                }
            }
        }
    }
}

/// The values of a polynomial with coefficients `d` times the nodal polynomials of the points, along one axis.
#[inline(always)]
unsafe fn transform_input<L: Lanes>(d: [L::V; IN]) -> [L::V; IN] {
    const AA: f32 = A * A;
    const BB: f32 = B * B;
    // SAFETY: the caller vouches for the instruction set.
    unsafe {
        let scaled = |c: f32, x: L::V, y: L::V| L::fma(L::splat(c), x, y);
        // Even and odd parts at +-a and +-b.
        let even_a = scaled(-BB, d[2], d[4]);
        let odd_a = L::mul(L::splat(A), scaled(-BB, d[1], d[3]));
        let even_b = scaled(-AA, d[2], d[4]);
        let odd_b = L::mul(L::splat(B), scaled(-AA, d[1], d[3]));
        [
            scaled(AA * BB, d[0], scaled(-(AA + BB), d[2], d[4])),
            L::add(even_a, odd_a),
            L::sub(even_a, odd_a),
            L::add(even_b, odd_b),
            L::sub(even_b, odd_b),
            scaled(AA * BB, d[1], scaled(-(AA + BB), d[3], d[5])),
        ]
    }
}

/// Outputs from products at the points, along one axis.
#[inline(always)]
unsafe fn transform_output<L: Lanes>(m: [L::V; IN]) -> [L::V; OUT] {
    // SAFETY: the caller vouches for the instruction set.
    unsafe {
        let (even_a, odd_a) = (L::add(m[1], m[2]), L::sub(m[1], m[2]));
        let (even_b, odd_b) = (L::add(m[3], m[4]), L::sub(m[3], m[4]));
        let scaled = |c: f32, x: L::V, y: L::V| L::fma(L::splat(c), x, y);
        [
            L::add(m[0], L::add(even_a, even_b)),
            scaled(B, odd_b, L::mul(L::splat(A), odd_a)),
            scaled(B * B, even_b, L::mul(L::splat(A * A), even_a)),
            scaled(B * B * B, odd_b, scaled(A * A * A, odd_a, m[5])),
        ]
    }
}
