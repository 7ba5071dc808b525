//! Where a convolution's result goes, and what is gathered on the way while it is still in cache.

use crate::Workers;
use crate::activation::{Curve, with_curve};
use crate::gemm::{Place, Store};
use crate::join::{Gradient, JoinGradient, JoinPass, SharedJoin};
use crate::lanes::{Lanes, Task, load, store};
use crate::shared::Shared;
use crate::source::NormTables;
use crate::totals::{PARTIAL_ROWS, Totals};
use flipcast_graph::Activation;

/// Pixels summed before they join a longer sum: rounding errors grow with the length of a sum, not with its parts.
pub(crate) const SHORT_SUM: usize = 16;

/// Outputs larger than this bypass the caches: they would be evicted before anybody reads them again.
pub(crate) const STREAM_FROM: usize = 6 << 20;

/// The result of a convolution.
#[derive(Debug)]
pub struct Sink<'a> {
    /// The tensor.
    pub out: &'a mut [f32],
    /// Add to what is there instead of overwriting it.
    pub accumulate: bool,
    /// Added per channel.
    pub bias: Option<&'a [f32]>,
    /// What is gathered from the result.
    pub gather: Gather<'a>,
}

/// What is gathered from a tensor while it is written.
#[derive(Debug)]
pub enum Gather<'a> {
    /// Nothing.
    Nothing,
    /// Mean and biased variance per channel.
    Statistics {
        /// Receives the means.
        mean: &'a mut [f64],
        /// Receives the variances.
        variance: &'a mut [f64],
    },
    /// The result is the gradient of `activation(norm(values))`. The tensor receives `dz`, the gradient below the activation,
    /// whose slope is thus computed once; gathered are sums of `dz` and of `dz * (value - centre)` per channel.
    Sums {
        /// The stored value below the norm.
        values: &'a [f32],
        /// Its norm, with one row of tables.
        norm: NormTables<'a>,
        /// On top of it.
        activation: Activation,
        /// Subtracted from the value: its mean.
        centre: &'a [f32],
        /// Receives the sums of `dz`.
        sum: &'a mut [f32],
        /// Receives the sums of `dz * (value - centre)`.
        product: &'a mut [f32],
    },
    /// The tensor is the complete gradient of a join.
    Join(JoinGradient<'a>),
}

/// A sink as the workers of a region see it.
#[derive(Clone, Copy)]
pub(crate) struct SharedSink<'a> {
    out: Shared<'a, f32>,
    accumulate: bool,
    stream: bool,
    bias: Option<&'a [f32]>,
    gather: SharedGather<'a>,
    partials: Shared<'a, f32>,
    channels: usize,
    chunks: usize,
}

#[derive(Clone, Copy)]
enum SharedGather<'a> {
    Nothing,
    Statistics,
    Sums {
        values: &'a [f32],
        norm: NormTables<'a>,
        activation: Activation,
        centre: &'a [f32],
    },
    Join(SharedJoin<'a>),
}

/// What a sink needs to know of the tensor it receives.
pub(crate) struct Region<'a> {
    /// Pixels of the whole batch, and channels of each.
    pub pixels: usize,
    pub channels: usize,
    /// Chunks the pixels come in.
    pub chunks: usize,
    /// Room for every chunk's partial sums.
    pub partials: &'a mut [f32],
}

/// A run of finished pixels.
#[derive(Clone, Copy)]
pub(crate) struct OutRun {
    /// Number of the chunk, whose partial sums these pixels join.
    pub chunk: usize,
    /// Whether these are the chunk's first pixels.
    pub opens: bool,
    /// First pixel in the whole batch, step between pixels, and their number.
    pub first: usize,
    pub step: usize,
    pub count: usize,
    /// Floats between pixels of the finished values.
    pub stride: usize,
    /// First channel of the finished values, and their number.
    pub channel: usize,
    pub width: usize,
}

impl Sink<'_> {
    /// Receives a tensor chunk by chunk: runs `work(sink, chunk, worker)` for every chunk, then merges what was gathered.
    /// `pixels_of` tells how many pixels a chunk has.
    ///
    /// # Panics
    /// If a slice is too short for the region.
    pub(crate) fn receive(
        self,
        workers: &mut Workers,
        region: Region,
        work: impl Fn(&SharedSink, usize, usize) + Sync,
        pixels_of: impl Fn(usize) -> usize + Sync,
    ) {
        let Region {
            pixels,
            channels,
            chunks,
            partials,
        } = region;
        let len = pixels * channels;
        assert!(self.out.len() >= len, "sink of {} < {len}", self.out.len());
        assert!(
            self.bias.is_none_or(|bias| bias.len() >= channels),
            "bias too short"
        );
        let (gather, totals) = match self.gather {
            Gather::Nothing => (SharedGather::Nothing, [Totals::Nothing, Totals::Nothing]),
            Gather::Statistics { mean, variance } => {
                assert!(
                    mean.len() >= channels && variance.len() >= channels,
                    "statistics too short"
                );
                (
                    SharedGather::Statistics,
                    [Totals::Statistics { mean, variance }, Totals::Nothing],
                )
            }
            Gather::Sums {
                values,
                norm,
                activation,
                centre,
                sum,
                product,
            } => {
                assert!(
                    !norm.per_image,
                    "sums are gathered for norms with one row of tables"
                );
                assert!(values.len() >= len, "values of {} < {len}", values.len());
                let tables = [norm.scale, norm.shift, centre, &*sum, &*product];
                assert!(
                    tables.iter().all(|table| table.len() >= channels),
                    "norm tables too short"
                );
                let shared = SharedGather::Sums {
                    values,
                    norm,
                    activation,
                    centre,
                };
                (shared, [Totals::Sums { sum, product }, Totals::Nothing])
            }
            Gather::Join(join) => {
                let (join, totals) = join.share(pixels, channels);
                (SharedGather::Join(join), totals)
            }
        };
        let gathered = match gather {
            SharedGather::Nothing => 0,
            SharedGather::Join(join) => join.count,
            _ => 1,
        };
        let rows = chunks * PARTIAL_ROWS * channels;
        let needed = gathered * rows;
        assert!(
            partials.len() >= needed,
            "partial sums of {} < {needed}",
            partials.len()
        );
        let stream = !self.accumulate && len > STREAM_FROM && channels.is_multiple_of(16);
        let sink = SharedSink {
            stream: stream && self.out.as_ptr().align_offset(64) == 0,
            out: Shared::new(self.out),
            accumulate: self.accumulate,
            bias: self.bias,
            gather,
            partials: Shared::new(&mut partials[..needed]),
            channels,
            chunks,
        };
        workers.each(chunks, |chunk, worker| work(&sink, chunk, worker));
        for (n, totals) in totals.into_iter().enumerate().take(gathered) {
            totals.merge(
                workers,
                &partials[n * rows..(n + 1) * rows],
                channels,
                &pixels_of,
            );
        }
    }
}

impl SharedSink<'_> {
    /// Whether whole vectors of results may go straight to the tensor, because nothing is gathered from them; and how.
    pub fn direct<L: Lanes>(&self) -> Option<Store> {
        let gathers = match self.gather {
            SharedGather::Nothing => false,
            SharedGather::Join(join) => join.count > 0 || join.mask.is_some(),
            _ => true,
        };
        (!gathers && self.channels.is_multiple_of(L::N)).then(|| Store {
            accumulate: self.accumulate,
            bias: self.bias.map(<[f32]>::as_ptr),
            place: if self.stream { Place::Past } else { Place::Far },
        })
    }

    /// The tensor from pixel `first` to pixel `last`.
    ///
    /// # Safety
    /// No other worker handles pixels in between.
    pub unsafe fn pixels(&self, first: usize, last: usize) -> *mut f32 {
        let channels = self.channels;
        // SAFETY: handed on.
        let part = unsafe {
            self.out
                .part(first * channels, (last + 1 - first) * channels)
        };
        part.as_mut_ptr()
    }

    /// Sends finished pixels on their way.
    ///
    /// # Safety
    /// `from` holds the run; no other worker handles its pixels or its chunk.
    #[inline(always)]
    pub unsafe fn finish<L: Lanes>(&self, from: *const f32, run: OutRun) {
        if run.count > 0 {
            // SAFETY: handed on.
            unsafe {
                L::vectorize(Finish {
                    sink: self,
                    from,
                    run,
                })
            };
        }
    }
}

/// A run of pixels on its way. A function of its own for each instruction set: callers stay small.
struct Finish<'a> {
    sink: &'a SharedSink<'a>,
    from: *const f32,
    run: OutRun,
}

impl Task for Finish<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<L: Lanes>(self) {
        let Self { sink, run, .. } = self;
        let channels = sink.channels;
        // SAFETY: pixels and chunks belong to one worker; slice lengths were checked by `receive`.
        unsafe {
            let span = (run.count - 1) * run.step * channels + run.width;
            let out = sink
                .out
                .part(run.first * channels + run.channel, span)
                .as_mut_ptr();
            match sink.gather {
                SharedGather::Nothing => self.store::<L>(out),
                SharedGather::Statistics => self.store_statistics::<L>(out, self.partial(0)),
                SharedGather::Sums {
                    values,
                    norm,
                    activation,
                    centre,
                } => {
                    let values = values[run.first * channels + run.channel..][..span].as_ptr();
                    let tables =
                        [norm.scale, norm.shift, centre].map(|table| table[run.channel..].as_ptr());
                    with_curve!(activation, curve => {
                        self.store_sums::<L, _>(out, self.partial(0), values, tables, curve);
                    });
                }
                SharedGather::Join(join) => {
                    let mut partials = [std::ptr::null_mut(); 2];
                    for (n, partial) in partials.iter_mut().enumerate().take(join.count) {
                        *partial = self.partial(n);
                    }
                    let pass = JoinPass {
                        join,
                        first: run.first,
                        step: run.step,
                        count: run.count,
                        channels: run.channel..run.channel + run.width,
                        row: channels,
                        opens: run.opens,
                        partials,
                    };
                    let through = Through {
                        finish: &self,
                        out: out.sub(run.channel),
                    };
                    match join.count {
                        0 => pass.run::<L, _, 0>(through),
                        1 => pass.run::<L, _, 1>(through),
                        _ => pass.run::<L, _, 2>(through),
                    }
                }
            }
            if sink.stream {
                L::fence();
            }
        }
    }
}

/// A finished gradient on its way to the tensor, with a join in between.
#[derive(Clone, Copy)]
struct Through<'a> {
    finish: &'a Finish<'a>,
    /// The tensor at the run's first pixel and channel zero.
    out: *mut f32,
}

impl Gradient for Through<'_> {
    #[inline(always)]
    unsafe fn prefetch<L: Lanes>(self, next: usize, c: usize, channels: &std::ops::Range<usize>) {
        let Finish { sink, run, .. } = *self.finish;
        if sink.accumulate {
            let out = self.out.wrapping_add(channels.start);
            // SAFETY: a prefetch may name any address.
            unsafe {
                prefetch_pixels::<L>(
                    out,
                    next * run.step,
                    sink.channels,
                    c - channels.start,
                    channels.len(),
                );
            }
        }
    }
    #[inline(always)]
    unsafe fn get<L: Lanes>(self, i: usize, c: usize, part: usize) -> L::V {
        let Finish { sink, from, run } = *self.finish;
        // SAFETY: handed on.
        unsafe {
            let mut v = load::<L>(from.add(i * run.stride + c - run.channel), part);
            if sink.accumulate {
                v = L::add(
                    v,
                    load::<L>(self.out.add(i * run.step * sink.channels + c), part),
                );
            }
            v
        }
    }
    #[inline(always)]
    unsafe fn put<L: Lanes>(self, i: usize, c: usize, part: usize, v: L::V) {
        let Finish { sink, run, .. } = *self.finish;
        // SAFETY: handed on; streamed rows are aligned because channels and the tensor are.
        unsafe {
            let to = self.out.add(i * run.step * sink.channels + c);
            if sink.stream {
                L::stream(to, v)
            } else {
                store::<L>(to, part, v)
            }
        }
    }
}

impl Finish<'_> {
    /// The chunk's partial sums of the `n`-th thing gathered, from the run's first channel on.
    unsafe fn partial(&self, n: usize) -> *mut f32 {
        let (sink, row) = (self.sink, PARTIAL_ROWS * self.sink.channels);
        // SAFETY: a chunk belongs to one worker.
        let rows = unsafe {
            sink.partials
                .part((n * sink.chunks + self.run.chunk) * row, row)
        };
        rows[self.run.channel..].as_mut_ptr()
    }

    /// One finished vector: plus bias, plus what is there.
    #[inline(always)]
    unsafe fn get<L: Lanes>(&self, from: *const f32, out: *mut f32, c: usize, part: usize) -> L::V {
        // SAFETY: `part` lanes are inside the row.
        unsafe {
            let mut v = load::<L>(from, part);
            if let Some(bias) = self.sink.bias {
                v = L::add(v, load::<L>(bias.as_ptr().add(self.run.channel + c), part));
            }
            if self.sink.accumulate {
                v = L::add(v, load::<L>(out, part));
            }
            v
        }
    }

    /// Writes a vector to the tensor.
    #[inline(always)]
    unsafe fn put<L: Lanes>(&self, out: *mut f32, part: usize, v: L::V) {
        // SAFETY: `part` lanes are inside the row; streamed rows are aligned because channels and the tensor are.
        unsafe {
            if self.sink.stream {
                L::stream(out, v);
            } else {
                store::<L>(out, part, v);
            }
        }
    }

    #[inline(always)]
    unsafe fn store<L: Lanes>(&self, out: *mut f32) {
        let (run, row, channels) = (self.run, self.sink.channels, self.run.width);
        // SAFETY: see `run`.
        unsafe {
            for i in 0..run.count {
                let (from, out) = (self.from.add(i * run.stride), out.add(i * run.step * row));
                let mut c = 0;
                while c < channels {
                    let part = L::N.min(channels - c);
                    let v = self.get::<L>(from.add(c), out.add(c), c, part);
                    self.put::<L>(out.add(c), part, v);
                    c += L::N;
                }
            }
        }
    }

    /// A few pixels at a time, so that memory is walked in order, and vector by vector, so that sums stay in registers.
    #[inline(always)]
    unsafe fn store_statistics<L: Lanes>(&self, out: *mut f32, partial: *mut f32) {
        let (run, row, channels) = (self.run, self.sink.channels, self.run.width);
        // SAFETY: see `run`; `partial` holds three rows.
        unsafe {
            let [p_pivot, p_sum, p_square] = [0, 1, 2].map(|n| partial.add(n * row));
            for start in (0..run.count).step_by(SHORT_SUM) {
                let end = run.count.min(start + SHORT_SUM);
                let opens = run.opens && start == 0;
                let mut c = 0;
                while c < channels {
                    let part = L::N.min(channels - c);
                    let mut pivot = L::splat(0.0);
                    if !opens {
                        pivot = load::<L>(p_pivot.add(c), part);
                    }
                    let (mut sum, mut square) = (L::splat(0.0), L::splat(0.0));
                    for i in start..end {
                        let out = out.add(i * run.step * row + c);
                        let v = self.get::<L>(self.from.add(i * run.stride + c), out, c, part);
                        self.put::<L>(out, part, v);
                        if opens && i == 0 {
                            pivot = v;
                        }
                        let d = L::sub(v, pivot);
                        sum = L::add(sum, d);
                        square = L::fma(d, d, square);
                    }
                    if opens {
                        store::<L>(p_pivot.add(c), part, pivot);
                    } else {
                        sum = L::add(sum, load::<L>(p_sum.add(c), part));
                        square = L::add(square, load::<L>(p_square.add(c), part));
                    }
                    store::<L>(p_sum.add(c), part, sum);
                    store::<L>(p_square.add(c), part, square);
                    c += L::N;
                }
            }
        }
    }

    #[inline(always)]
    unsafe fn store_sums<L: Lanes, C: Curve>(
        &self,
        out: *mut f32,
        partial: *mut f32,
        values: *const f32,
        [scale, shift, centre]: [*const f32; 3],
        curve: C,
    ) {
        let (run, row, channels) = (self.run, self.sink.channels, self.run.width);
        // SAFETY: see `run`; `values` covers the same pixels as `out`.
        unsafe {
            let (p_sum, p_product) = (partial, partial.add(row));
            for start in (0..run.count).step_by(SHORT_SUM) {
                let end = run.count.min(start + SHORT_SUM);
                let opens = run.opens && start == 0;
                let mut c = 0;
                while c < channels {
                    let part = L::N.min(channels - c);
                    let (scale, shift) =
                        (load::<L>(scale.add(c), part), load::<L>(shift.add(c), part));
                    let centre = load::<L>(centre.add(c), part);
                    prefetch_pixels::<L>(values, end * run.step, row, c, channels);
                    let (mut sum, mut product) = (L::splat(0.0), L::splat(0.0));
                    for i in start..end {
                        let (from, at) = (i * run.stride + c, i * run.step * row + c);
                        let v = self.get::<L>(self.from.add(from), out.add(at), c, part);
                        let y = load::<L>(values.add(at), part);
                        let dz = curve.backward::<L>(L::fma(y, scale, shift), v);
                        self.put::<L>(out.add(at), part, dz);
                        sum = L::add(sum, dz);
                        product = L::fma(dz, L::sub(y, centre), product);
                    }
                    if !opens {
                        sum = L::add(sum, load::<L>(p_sum.add(c), part));
                        product = L::add(product, load::<L>(p_product.add(c), part));
                    }
                    store::<L>(p_sum.add(c), part, sum);
                    store::<L>(p_product.add(c), part, product);
                    c += L::N;
                }
            }
        }
    }
}

/// Asks ahead for the next few pixels of a tensor that is read vector by vector: such reads jump from pixel to pixel, which
/// the machine does not foresee. Called once per vector of the current pixels, it covers the next ones in memory order.
#[inline(always)]
pub(crate) unsafe fn prefetch_pixels<L: Lanes>(
    tensor: *const f32,
    next: usize,
    row: usize,
    c: usize,
    width: usize,
) {
    const LINE: usize = 16;
    let lines = width.div_ceil(LINE);
    let per_vector = (SHORT_SUM * L::N).div_ceil(LINE);
    let first = c / L::N * per_vector;
    for line in first..(first + per_vector).min(SHORT_SUM * lines) {
        // SAFETY: a prefetch may name any address.
        unsafe {
            L::prefetch(tensor.wrapping_add((next + line / lines) * row + line % lines * LINE))
        };
    }
}
