//! Sums over a whole tensor, merged from the partial sums of its chunks.

use crate::extent::{Extent, pixel_chunks};
use crate::shared::Shared;
use crate::source::PixelRun;
use crate::{Team, Workers};

/// Floats of partial sums per chunk and channel: pivot, sum, sum of squares about it.
pub(crate) const PARTIAL_ROWS: usize = 3;

/// Where finished sums go after the region.
pub(crate) enum Totals<'a> {
    Nothing,
    Statistics { mean: &'a mut [f64], variance: &'a mut [f64] },
    Sums { sum: &'a mut [f32], product: &'a mut [f32] },
}

/// Partial sums of the chunks of a region, for one or two totals at once.
#[derive(Clone, Copy)]
pub(crate) struct Partials<'a> {
    sums: Shared<'a, f32>,
    chunks: usize,
    channels: usize,
}

impl<'a> Partials<'a> {
    /// Those of `chunks` chunks for `count` totals, in `sums`.
    ///
    /// # Panics
    /// If `sums` is too short.
    pub fn new(sums: &'a mut [f32], chunks: usize, channels: usize, count: usize) -> Self {
        let needed = count * chunks * PARTIAL_ROWS * channels;
        assert!(sums.len() >= needed, "partial sums of {} < {needed}", sums.len());
        Self { sums: Shared::new(&mut sums[..needed]), chunks, channels }
    }

    /// The rows of `chunk` for total number `n`.
    ///
    /// # Safety
    /// No other thread works on the chunk.
    pub unsafe fn rows(&self, n: usize, chunk: usize) -> &'a mut [f32] {
        let len = PARTIAL_ROWS * self.channels;
        // SAFETY: chunks do not overlap, and the caller keeps threads to their own.
        unsafe { self.sums.part((n * self.chunks + chunk) * len, len) }
    }
}

/// Runs `work(run, rows)` for every chunk of `extent` and merges the chunks' rows into `totals`; there are rows for every
/// total that is not [`Totals::Nothing`].
///
/// # Panics
/// If the scratch is too short.
pub(crate) fn reduce(
    team: &mut Team,
    extent: Extent,
    totals: [Totals; 2],
    work: impl Fn(PixelRun, [&mut [f32]; 2]) + Sync,
) {
    let (chunks, chunk) = pixel_chunks(extent);
    let (mut crew, sums) = team.split();
    let wanted = totals.each_ref().map(|totals| !matches!(totals, Totals::Nothing));
    let partials = Partials::new(sums, chunks, extent.channels, wanted.iter().filter(|wanted| **wanted).count());
    crew.each(chunks, |index, _| {
        // SAFETY: a chunk is worked on once.
        let rows = [0, 1].map(|n| if wanted[n] { unsafe { partials.rows(n, index) } } else { &mut [] });
        work(chunk(index), rows);
    });
    merge(totals, crew.workers, sums, (chunks, extent.channels), &|index| chunk(index).count);
}

/// Merges the partial sums of `chunks` chunks, of which `pixels(chunk)` tells the size, into `totals`.
pub(crate) fn merge(
    totals: [Totals; 2],
    workers: &mut Workers,
    sums: &[f32],
    (chunks, channels): (usize, usize),
    pixels: &(impl Fn(usize) -> usize + Sync),
) {
    let len = chunks * PARTIAL_ROWS * channels;
    for (n, totals) in totals.into_iter().enumerate() {
        if !matches!(totals, Totals::Nothing) {
            totals.merge(workers, &sums[n * len..(n + 1) * len], channels, pixels);
        }
    }
}

/// Channels merged at once.
const MERGE: usize = 64;

impl Totals<'_> {
    /// Merges the chunks' partial sums in chunk order, in double precision.
    fn merge(
        self,
        workers: &mut Workers,
        partials: &[f32],
        channels: usize,
        pixels_of: &(impl Fn(usize) -> usize + Sync),
    ) {
        match self {
            Self::Nothing => {}
            Self::Statistics { mean, variance } => {
                each_block(workers, partials, channels, (mean, variance), |chunks, rows| {
                    let (mut mean, mut squares) = ([0.0f64; MERGE], [0.0f64; MERGE]);
                    let mut count = 0.0;
                    for (index, chunk) in chunks.enumerate() {
                        let more = pixels_of(index) as f64;
                        let (pivot, sum, square) = (rows(chunk, 0), rows(chunk, 1), rows(chunk, 2));
                        let share = more / (count + more);
                        for c in 0..MERGE {
                            let delta = pivot[c] + sum[c] / more - mean[c];
                            squares[c] += square[c] - sum[c] * sum[c] / more + delta * delta * count * share;
                            mean[c] += delta * share;
                        }
                        count += more;
                    }
                    squares.iter_mut().for_each(|squares| *squares = (*squares / count).max(0.0));
                    (mean, squares)
                });
            }
            Self::Sums { sum, product } => {
                each_block(workers, partials, channels, (sum, product), |chunks, rows| {
                    let (mut sums, mut products) = ([0.0f64; MERGE], [0.0f64; MERGE]);
                    for chunk in chunks {
                        let (sum, product) = (rows(chunk, 0), rows(chunk, 1));
                        for c in 0..MERGE {
                            sums[c] += sum[c];
                            products[c] += product[c];
                        }
                    }
                    (sums.map(|x| x as f32), products.map(|x| x as f32))
                });
            }
        }
    }
}

/// Rows of partial sums of one chunk, widened: `rows(chunk, r)`.
type Rows<'a> = &'a dyn Fn(&[f32], usize) -> [f64; MERGE];

/// Calls `merge(chunks, rows)` for every block of channels and stores what it gives.
fn each_block<T: Copy + Send>(
    workers: &mut Workers,
    partials: &[f32],
    channels: usize,
    (first, second): (&mut [T], &mut [T]),
    merge: impl Fn(std::slice::ChunksExact<f32>, Rows) -> ([T; MERGE], [T; MERGE]) + Sync,
) {
    let (first, second) = (Shared::new(first), Shared::new(second));
    workers.each(channels.div_ceil(MERGE), |block, _| {
        let start = block * MERGE;
        let width = MERGE.min(channels - start);
        let rows = |chunk: &[f32], r: usize| -> [f64; MERGE] {
            let row = &chunk[r * channels + start..][..width];
            std::array::from_fn(|c| row.get(c).copied().map_or(0.0, f64::from))
        };
        let (a, b) = merge(partials.chunks_exact(PARTIAL_ROWS * channels), &rows);
        // SAFETY: blocks of channels do not overlap.
        let (first, second) = unsafe { (first.part(start, width), second.part(start, width)) };
        first.copy_from_slice(&a[..width]);
        second.copy_from_slice(&b[..width]);
    });
}
