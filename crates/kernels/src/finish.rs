//! Writes finished pixels of a convolution to a sink: adds the bias and what is there already, and gathers statistics or sums.

use crate::activation::{Curve, with_curve};
use crate::join_backward::{Gradient, JoinPass};
use crate::lanes::{Lanes, Task, load, store, vectors};
use crate::sink::{OutRun, SharedGather, SharedSink};
use crate::walk::{SHORT_SUM, prefetch_pixels};

/// A run of pixels to write. Compiled as a function of its own for each instruction set, so that callers stay small.
pub(crate) struct Finish<'a> {
    pub sink: &'a SharedSink<'a>,
    pub from: *const f32,
    pub run: OutRun,
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
            let out = sink.out.part(run.first * channels + run.channel, span).as_mut_ptr();
            match sink.gather {
                SharedGather::Nothing => self.store::<L>(out),
                SharedGather::Statistics => self.store_statistics::<L>(out, self.partial(0)),
                SharedGather::Sums { values, norm, activation, centre } => {
                    let values = values[run.first * channels + run.channel..][..span].as_ptr();
                    let tables = [norm.scale, norm.shift, centre].map(|table| table[run.channel..].as_ptr());
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
                        starts_chunk: run.starts_chunk,
                        partials,
                    };
                    let through = Through { finish: &self, out: out.sub(run.channel) };
                    pass.run::<L, _>(through);
                }
            }
            if sink.stream {
                L::fence();
            }
        }
    }
}

/// Reads and writes the finished gradient of a join.
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
                prefetch_pixels::<L>(out, next * run.step, sink.channels, c - channels.start, channels.len());
            }
        }
    }
    #[inline(always)]
    unsafe fn get<L: Lanes>(self, i: usize, c: usize, part: usize) -> L::V {
        let Finish { sink, from, run } = *self.finish;
        // SAFETY: the caller's promise.
        unsafe {
            let c = c - run.channel;
            let out = self.out.add(run.channel + i * run.step * sink.channels + c);
            self.finish.get::<L>(from.add(i * run.stride + c), out, c, part)
        }
    }
    #[inline(always)]
    unsafe fn put<L: Lanes>(self, i: usize, c: usize, part: usize, v: L::V) {
        let Finish { sink, run, .. } = *self.finish;
        // SAFETY: the caller's promise.
        unsafe { self.finish.put::<L>(self.out.add(i * run.step * sink.channels + c), part, v) }
    }
}

impl Finish<'_> {
    /// The chunk's partial sums of the `n`-th thing gathered, from the run's first channel on.
    unsafe fn partial(&self, n: usize) -> *mut f32 {
        // SAFETY: a chunk belongs to one worker.
        let rows = unsafe { self.sink.partials.rows(n, self.run.chunk) };
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
                for (c, part) in vectors::<L>(channels) {
                    let v = self.get::<L>(from.add(c), out.add(c), c, part);
                    self.put::<L>(out.add(c), part, v);
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
                let starts_chunk = run.starts_chunk && start == 0;
                for (c, part) in vectors::<L>(channels) {
                    let mut pivot = L::splat(0.0);
                    if !starts_chunk {
                        pivot = load::<L>(p_pivot.add(c), part);
                    }
                    let (mut sum, mut square) = (L::splat(0.0), L::splat(0.0));
                    for i in start..end {
                        let out = out.add(i * run.step * row + c);
                        let v = self.get::<L>(self.from.add(i * run.stride + c), out, c, part);
                        self.put::<L>(out, part, v);
                        if starts_chunk && i == 0 {
                            pivot = v;
                        }
                        let d = L::sub(v, pivot);
                        sum = L::add(sum, d);
                        square = L::fma(d, d, square);
                    }
                    if starts_chunk {
                        store::<L>(p_pivot.add(c), part, pivot);
                    } else {
                        sum = L::add(sum, load::<L>(p_sum.add(c), part));
                        square = L::add(square, load::<L>(p_square.add(c), part));
                    }
                    store::<L>(p_sum.add(c), part, sum);
                    store::<L>(p_square.add(c), part, square);
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
                let starts_chunk = run.starts_chunk && start == 0;
                for (c, part) in vectors::<L>(channels) {
                    let (scale, shift) = (load::<L>(scale.add(c), part), load::<L>(shift.add(c), part));
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
                    if !starts_chunk {
                        sum = L::add(sum, load::<L>(p_sum.add(c), part));
                        product = L::add(product, load::<L>(p_product.add(c), part));
                    }
                    store::<L>(p_sum.add(c), part, sum);
                    store::<L>(p_product.add(c), part, product);
                }
            }
        }
    }
}
