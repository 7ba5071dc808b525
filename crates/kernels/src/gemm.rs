//! Matrix products with one operand packed once (weights) and the other read where it lies (pixels).
//!
//! Rows are pixels, columns are output channels. A row is named by an offset; the products of a row run over one or more
//! contiguous runs of floats behind it, so a convolution needs no rearranged copy of its input.

use crate::Buffer;
use crate::conv::Exactness;
use crate::lanes::{Lanes, Task};
use crate::walk::Soon;
use std::ops::Range;

/// Longest stretch of the summed axis worked on at once, so that a panel of weights stays near the core.
const BLOCK: usize = 320;

/// `len` consecutive floats, `offset` floats behind the start of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub offset: u32,
    pub len: u32,
}

impl Run {
    /// The first `len` floats of a row.
    pub fn first(len: usize) -> Self {
        Self { offset: 0, len: len as u32 }
    }
}

/// The rows of a product: offsets behind a base, for the factors and for the results.
#[derive(Clone, Copy)]
pub(crate) struct Rows<'a> {
    pub from: *const f32,
    pub from_rows: &'a [u32],
    pub to: *mut f32,
    pub to_rows: &'a [u32],
}

/// What happens to a finished tile.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Store {
    /// Add to what is there.
    pub accumulate: bool,
    /// Added per column, from the first column of the product on.
    pub bias: Option<*const f32>,
    pub place: Place,
}

/// Where the rows of a product lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// In scratch memory, which is in cache.
    Scratch,
    /// In a tensor: its cache lines are prefetched.
    Tensor,
    /// In a tensor that is written past the caches; its rows are aligned.
    Streamed,
}

impl Store {
    /// To scratch memory, adding to what is there or not.
    pub fn to_scratch(accumulate: bool) -> Self {
        Self { accumulate, bias: None, place: Place::Scratch }
    }
}

/// Part of the summed axis: the runs it covers and where its panels start in the packed data.
#[derive(Debug)]
struct Block {
    runs: Vec<Run>,
    len: usize,
    start: usize,
}

/// Weights in the order the tile kernel reads them: block, panel of two vectors of columns, summed axis, column.
#[derive(Debug)]
pub(crate) struct Packed {
    data: Buffer,
    blocks: Vec<Block>,
    columns: usize,
    exactness: Exactness,
}

impl Packed {
    /// Widest panel of any instruction set: column ranges start at multiples of it.
    pub const PANELS: usize = 32;

    /// Packs `weight(k, column)`, `k` counting along `runs`, for vectors of `lanes` floats.
    pub fn new(
        runs: &[Run],
        columns: usize,
        lanes: usize,
        exactness: Exactness,
        weight: impl Fn(usize, usize) -> f32,
    ) -> Self {
        let mut packed = Self::zeroed(runs, columns, lanes, exactness);
        packed.fill(0..columns, lanes, weight);
        packed
    }

    /// Room for `columns`, to be filled.
    pub fn zeroed(runs: &[Run], columns: usize, lanes: usize, exactness: Exactness) -> Self {
        let total: usize = runs.iter().map(|run| run.len as usize).sum();
        let padded = columns.next_multiple_of(lanes);
        let mut start = 0;
        let block = |runs: Vec<Run>| {
            let len = runs.iter().map(|run| run.len as usize).sum();
            let block = Block { runs, len, start };
            start += len * padded;
            block
        };
        let blocks = split_runs(runs, total).into_iter().map(block).collect();
        Self { data: Buffer::zeroed(total * padded), blocks, columns: padded, exactness }
    }

    /// Fills in `weight(k, column)` for `columns`, which start at a multiple of [`Self::PANELS`] and end at one or with the last.
    pub fn fill(&mut self, columns: Range<usize>, lanes: usize, weight: impl Fn(usize, usize) -> f32) {
        let mut k0 = 0;
        for block in &self.blocks {
            for (first, width) in panels(columns.start..columns.end.next_multiple_of(lanes), lanes) {
                let panel = &mut self.data[block.start + block.len * first..][..block.len * width];
                let filled = width.min(columns.end - first);
                for (k, row) in panel.chunks_exact_mut(width).enumerate() {
                    for (j, value) in row[..filled].iter_mut().enumerate() {
                        *value = weight(k0 + k, first + j);
                    }
                }
            }
            k0 += block.len;
        }
    }

    /// Columns including the padding to whole vectors: the least distance between rows of the product.
    pub fn padded_columns(&self) -> usize {
        self.columns
    }

    /// Bytes it takes.
    pub fn bytes(&self) -> usize {
        4 * self.data.len()
    }

    /// Number of blocks of the summed axis.
    pub fn blocks(&self) -> usize {
        self.blocks.len()
    }

    /// Extent of a block of the summed axis.
    pub fn block_len(&self, block: usize) -> usize {
        self.blocks[block].len
    }

    /// `to[row] = from[row] * weights` for all rows.
    ///
    /// # Safety
    /// Every run behind every row of `from` is readable, and `padded_columns` floats behind every row of `to` are writable.
    #[inline(always)]
    pub unsafe fn multiply<L: Lanes>(&self, rows: Rows) {
        for block in 0..self.blocks.len() {
            // SAFETY: the caller's promise.
            unsafe { self.panels(block, 0..self.columns).multiply::<L>(rows, Store::to_scratch(block > 0)) };
        }
    }

    /// The panels of one block, for `columns` only, which start at a multiple of [`Self::PANELS`] and of which the first
    /// goes to the start of a row of the product.
    #[inline(always)]
    pub fn panels(&self, block: usize, columns: Range<usize>) -> Panels<'_> {
        let block = &self.blocks[block];
        Panels {
            data: self.data[block.start + block.len * columns.start..].as_ptr(),
            runs: &block.runs,
            len: block.len,
            columns: columns.len(),
            step: 1,
            exactness: self.exactness,
        }
    }
}

/// A matrix in panels of two vectors of columns, wherever it lies.
#[derive(Clone, Copy)]
pub(crate) struct Panels<'a> {
    pub data: *const f32,
    /// What it is multiplied with, behind the start of a row.
    pub runs: &'a [Run],
    /// Extent of the summed axis: that of all runs.
    pub len: usize,
    /// Columns, whole vectors.
    pub columns: usize,
    /// Floats between consecutive factors of a run: one, or the distance of rows where the other matrix lies transposed.
    pub step: usize,
    pub exactness: Exactness,
}

impl Panels<'_> {
    /// `to[row] = from[row] * panels` for all rows.
    ///
    /// # Safety
    /// `data` holds `len * columns` floats, a bias `columns`, every run behind every row of `from` is readable, and `columns`
    /// floats behind every row of `to` are writable.
    #[inline(always)]
    pub unsafe fn multiply<L: Lanes>(&self, rows: Rows, store: Store) {
        // SAFETY: the caller's promise.
        unsafe { self.multiply_fetching::<L>(rows, store, Soon::NOTHING) }
    }

    /// As `multiply`, and fetches what is read soon.
    ///
    /// # Safety
    /// As for `multiply`.
    #[inline(always)]
    pub unsafe fn multiply_fetching<L: Lanes>(&self, rows: Rows, store: Store, soon: Soon) {
        let Rows { from: a, from_rows: a_rows, to: c, to_rows: c_rows } = rows;
        let count = a_rows.len().min(c_rows.len());
        if count == 0 {
            return;
        }
        // SAFETY: the caller's promise.
        unsafe {
            if self.exactness == Exactness::Double {
                return self.multiply_double(L::N, rows, store);
            }
            let mut panel = self.data;
            let all = self.columns.div_ceil(2 * L::N);
            for (number, (first, width)) in panels(0..self.columns, L::N).enumerate() {
                let two = width > L::N;
                // Tiles of nearly equal height: a tile of one row would wait for its own additions. One vector of
                // columns leaves registers for twice the rows.
                let tiles = count.div_ceil(if two { L::TILE_ROWS } else { 2 * L::TILE_ROWS });
                let (height, taller) = (count / tiles, count % tiles);
                // Each tile prefetches its share of the next panel, which is not in cache.
                let next = panel.wrapping_add(self.len * width);
                let share = (width / tiles).max(1);
                let mut row = 0;
                for tile in 0..tiles {
                    let ahead = next.wrapping_add(tile * self.len * share);
                    let height = height + usize::from(tile < taller);
                    let (soon, pace) = soon.part(number * tiles + tile, all * tiles).pace(self.len, panel);
                    let tile = Tile {
                        a,
                        a_rows: a_rows.as_ptr().add(row),
                        runs: self.runs,
                        step: self.step,
                        b: panel,
                        c: c.add(first),
                        c_rows: c_rows.as_ptr().add(row),
                        store: Store { bias: store.bias.map(|bias| bias.add(first)), ..store },
                        ahead,
                        share,
                        soon,
                        pace,
                    };
                    tile.dispatch::<L>(height, two);
                    row += height;
                }
                panel = panel.add(self.len * width);
            }
        }
    }

    /// As `multiply`, every sum in double precision.
    ///
    /// # Safety
    /// As for `multiply`.
    unsafe fn multiply_double(&self, lanes: usize, rows: Rows, store: Store) {
        let mut panel = self.data;
        for (first, width) in panels(0..self.columns, lanes) {
            for (&from_row, &to_row) in rows.from_rows.iter().zip(rows.to_rows) {
                for j in 0..width {
                    // SAFETY: as for `multiply`.
                    unsafe {
                        let to = rows.to.add(to_row as usize + first + j);
                        let bias = store.bias.map_or(0.0, |bias| *bias.add(first + j));
                        let mut sum = f64::from(bias);
                        if store.accumulate {
                            sum += f64::from(*to);
                        }
                        let mut k = 0;
                        for run in self.runs {
                            let from = rows.from.add((from_row + run.offset) as usize);
                            for i in 0..run.len as usize {
                                let weight = *panel.add(k * width + j);
                                sum += f64::from(*from.add(i * self.step)) * f64::from(weight);
                                k += 1;
                            }
                        }
                        *to = sum as f32;
                    }
                }
            }
            // SAFETY: the next panel, or the end.
            panel = unsafe { panel.add(self.len * width) };
        }
    }
}

/// First column and width of every panel: two vectors, or one at the end.
pub(crate) fn panels(columns: Range<usize>, lanes: usize) -> impl Iterator<Item = (usize, usize)> {
    let end = columns.end;
    columns.step_by(2 * lanes).map(move |first| (first, (end - first).min(2 * lanes)))
}

/// Cuts the runs into blocks of nearly equal length, none longer than `BLOCK`.
fn split_runs(runs: &[Run], total: usize) -> Vec<Vec<Run>> {
    let target = total.div_ceil(total.div_ceil(BLOCK).max(1)).max(1);
    let mut blocks = Vec::new();
    let mut current: Vec<Run> = Vec::new();
    let mut left = target;
    for run in runs {
        let mut rest = *run;
        while rest.len > 0 {
            let take = rest.len.min(left as u32);
            current.push(Run { offset: rest.offset, len: take });
            rest = Run { offset: rest.offset + take, len: rest.len - take };
            left -= take as usize;
            if left == 0 {
                blocks.push(std::mem::take(&mut current));
                left = target;
            }
        }
    }
    if !current.is_empty() {
        blocks.push(current);
    }
    blocks
}

/// Up to `TILE_ROWS` rows against one panel.
#[derive(Clone, Copy)]
struct Tile<'a> {
    a: *const f32,
    a_rows: *const u32,
    runs: &'a [Run],
    step: usize,
    b: *const f32,
    c: *mut f32,
    c_rows: *const u32,
    store: Store,
    /// What will be read next, and how far to prefetch with every step of the summed axis; need not be valid.
    ahead: *const f32,
    share: usize,
    /// The same of what is read after this product.
    soon: [*const f32; 2],
    pace: usize,
}

/// A tile of exactly `ROWS` rows and `VECTORS` vectors of columns.
struct FixedTile<'a, const ROWS: usize, const VECTORS: usize>(Tile<'a>);

impl Tile<'_> {
    #[inline(always)]
    unsafe fn dispatch<L: Lanes>(self, rows: usize, two: bool) {
        macro_rules! heights {
            ($($n:literal)*; $($tall:literal)*) => {
                match (rows, two) {
                    $(
                        // SAFETY: the promise of `multiply`'s caller.
                        ($n, true) if $n <= L::TILE_ROWS => unsafe { L::vectorize(FixedTile::<$n, 2>(self)) },
                        // SAFETY: as above.
                        ($n, false) if $n <= 2 * L::TILE_ROWS => unsafe { L::vectorize(FixedTile::<$n, 1>(self)) },
                    )*
                    $(
                        // SAFETY: as above.
                        ($tall, false) if $tall <= 2 * L::TILE_ROWS => unsafe {
                            L::vectorize(FixedTile::<$tall, 1>(self))
                        },
                    )*
                    _ => unreachable!("tiles are at most TILE_ROWS high, or twice that with one vector"),
                }
            };
        }
        heights!(1 2 3 4 5 6 7 8 9 10 11 12 13 14; 15 16 17 18 19 20 21 22 23 24 25 26 27 28)
    }
}

impl<const ROWS: usize, const VECTORS: usize> Task for FixedTile<'_, ROWS, VECTORS> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<L: Lanes>(self) {
        let t = self.0;
        // SAFETY: `multiply`'s caller vouches for all rows, runs and the panel.
        unsafe {
            let mut acc = [[L::splat(0.0); VECTORS]; ROWS];
            let (mut b, mut ahead, mut soon) = (t.b, t.ahead, t.soon);
            if t.store.accumulate || t.store.place == Place::Tensor {
                for i in 0..ROWS {
                    let c = t.c.add(*t.c_rows.add(i) as usize);
                    for j in 0..VECTORS {
                        L::prefetch(c.add(j * L::N));
                    }
                }
            }
            for run in t.runs {
                let mut rows = [t.a; ROWS];
                for (i, row) in rows.iter_mut().enumerate() {
                    *row = t.a.add((*t.a_rows.add(i) + run.offset) as usize);
                }
                let mut at = 0;
                for _ in 0..run.len {
                    let mut weights = [L::splat(0.0); VECTORS];
                    for (j, w) in weights.iter_mut().enumerate() {
                        *w = L::load(b.add(j * L::N));
                    }
                    for i in 0..ROWS {
                        let x = L::splat(*rows[i].add(at));
                        for j in 0..VECTORS {
                            acc[i][j] = L::fma(x, weights[j], acc[i][j]);
                        }
                    }
                    L::prefetch(ahead);
                    ahead = ahead.wrapping_add(t.share);
                    for at in &mut soon {
                        L::prefetch_far(*at);
                        *at = at.wrapping_add(t.pace);
                    }
                    at += t.step;
                    b = b.add(VECTORS * L::N);
                }
            }
            if let Some(bias) = t.store.bias {
                for j in 0..VECTORS {
                    let bias = L::load(bias.add(j * L::N));
                    for row in &mut acc {
                        row[j] = L::add(row[j], bias);
                    }
                }
            }
            let to = |i: usize, j: usize| t.c.add(*t.c_rows.add(i) as usize + j * L::N);
            if t.store.accumulate {
                for i in 0..ROWS {
                    for j in 0..VECTORS {
                        acc[i][j] = L::add(acc[i][j], L::load(to(i, j)));
                    }
                }
            }
            let streamed = t.store.place == Place::Streamed;
            for i in 0..ROWS {
                for j in 0..VECTORS {
                    if streamed {
                        L::stream(to(i, j), acc[i][j]);
                    } else {
                        L::store(to(i, j), acc[i][j]);
                    }
                }
            }
        }
    }
}
