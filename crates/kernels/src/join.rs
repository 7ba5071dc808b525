//! Residual joins: the sum of two values under an activation, and its gradient.

use crate::Scratch;
use crate::Workers;
use crate::activation::{Curve, with_curve};
use crate::isa::Isa;
use crate::lanes::{Lanes, Task, load, store};
use crate::norm::{Extent, pixel_chunks};
use crate::shared::Shared;
use crate::sink::{SHORT_SUM, STREAM_FROM, prefetch_pixels};
use crate::source::{PixelRun, Source};
use crate::totals::{PARTIAL_ROWS, Totals};
use flipcast_graph::Activation;

/// Bytes of the mask of an extent: a bit per value, every pixel from a byte of its own on.
pub fn mask_len(extent: Extent) -> usize {
    extent.images * extent.pixels * extent.channels.div_ceil(8)
}

/// `out = activation(sum of terms)` for one or two terms of `extent`. `mask` receives where the activation's slope is
/// one; elsewhere it is zero.
///
/// # Panics
/// If there is no term or more than two, a slice is too short, or a mask is asked for an activation without one.
#[expect(
    clippy::too_many_arguments,
    reason = "a pass and the tensors it touches"
)]
pub fn join(
    isa: Isa,
    workers: &mut Workers,
    scratch: &mut Scratch,
    extent: Extent,
    terms: &[Source],
    activation: Activation,
    out: &mut [f32],
    mask: Option<&mut [u8]>,
) {
    let len = extent.len();
    assert!(matches!(terms.len(), 1 | 2), "a join has one or two terms");
    assert!(out.len() >= len, "join of {} < {len}", out.len());
    assert!(
        mask.is_none() || activation.derivative_from_output(),
        "{activation:?} has no mask"
    );
    assert!(
        mask.as_ref()
            .is_none_or(|mask| mask.len() >= mask_len(extent)),
        "mask too short"
    );
    for term in terms {
        term.check(extent.images, extent.pixels, extent.channels);
    }
    let stream = len > STREAM_FROM
        && extent.channels.is_multiple_of(16)
        && out.as_ptr().align_offset(64) == 0;
    let (out, mask) = (Shared::new(&mut out[..len]), mask.map(Shared::new));
    let (chunks, chunk) = pixel_chunks(extent);
    let (scratch, _) = scratch.split();
    let row = extent.channels.div_ceil(8);
    workers.each(chunks, |index, worker| {
        let run = chunk(index);
        // SAFETY: chunks do not overlap, and a worker runs one at a time.
        let (out, mask, scratch) = unsafe {
            (
                out.part(run.first * extent.channels, run.count * extent.channels),
                mask.map(|mask| mask.part(run.first * row, run.count * row)),
                scratch.of(worker),
            )
        };
        isa.run(Join {
            terms,
            activation,
            run,
            out,
            mask,
            stream,
            spare: scratch.floats,
        });
    });
}

struct Join<'a> {
    terms: &'a [Source<'a>],
    activation: Activation,
    run: PixelRun,
    out: &'a mut [f32],
    mask: Option<&'a mut [u8]>,
    stream: bool,
    spare: &'a mut [f32],
}

/// A term of a sum, vector by vector.
trait Term: Copy {
    unsafe fn at<L: Lanes>(self, offset: usize, c: usize, part: usize) -> L::V;
}

#[derive(Clone, Copy)]
struct Raw(*const f32);

#[derive(Clone, Copy)]
struct Scaled {
    values: *const f32,
    scale: *const f32,
    shift: *const f32,
}

impl Term for Raw {
    #[inline(always)]
    unsafe fn at<L: Lanes>(self, offset: usize, c: usize, part: usize) -> L::V {
        // SAFETY: handed on.
        unsafe { load::<L>(self.0.add(offset + c), part) }
    }
}

impl Term for Scaled {
    #[inline(always)]
    unsafe fn at<L: Lanes>(self, offset: usize, c: usize, part: usize) -> L::V {
        // SAFETY: handed on.
        unsafe {
            let v = load::<L>(self.values.add(offset + c), part);
            L::fma(
                v,
                load::<L>(self.scale.add(c), part),
                load::<L>(self.shift.add(c), part),
            )
        }
    }
}

/// The scaled form of a norm with nothing on top.
fn scaled(source: &Source, run: &PixelRun) -> Option<Scaled> {
    match source {
        Source::Normed {
            values,
            norm,
            activation: Activation::Identity,
        } => {
            let row = if norm.per_image {
                run.image * run.channels
            } else {
                0
            };
            Some(Scaled {
                values: values.as_ptr(),
                scale: norm.scale[row..].as_ptr(),
                shift: norm.shift[row..].as_ptr(),
            })
        }
        _ => None,
    }
}

impl Task for Join<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<L: Lanes>(mut self) {
        let run = self.run;
        // SAFETY: `join` checked all slices for the extent the run lies in.
        unsafe {
            match self.terms {
                [a, b] => match (scaled(a, &run), scaled(b, &run), a, b) {
                    (Some(a), Some(b), ..) => self.sum::<L, _, _>(a, b),
                    (Some(a), None, _, Source::Plain(b)) => self.sum::<L, _, _>(a, Raw(b.as_ptr())),
                    (None, Some(b), Source::Plain(a), _) => self.sum::<L, _, _>(Raw(a.as_ptr()), b),
                    (None, None, Source::Plain(a), Source::Plain(b)) => {
                        self.sum::<L, _, _>(Raw(a.as_ptr()), Raw(b.as_ptr()));
                    }
                    _ => {
                        // Rare: activations below the sum. One pass per term.
                        a.fill::<L>(run, self.out.as_mut_ptr(), run.channels);
                        let other = &mut self.spare[..self.out.len()];
                        b.fill::<L>(run, other.as_mut_ptr(), run.channels);
                        for (x, y) in self.out.iter_mut().zip(&*other) {
                            *x += y;
                        }
                        self.apply::<L>();
                    }
                },
                [a] => {
                    a.fill::<L>(run, self.out.as_mut_ptr(), run.channels);
                    self.apply::<L>();
                }
                _ => unreachable!("checked by `join`"),
            }
        }
    }
}

impl Join<'_> {
    #[inline(always)]
    unsafe fn sum<L: Lanes, A: Term, B: Term>(mut self, a: A, b: B) {
        let (run, out) = (self.run, self.out.as_mut_ptr());
        // SAFETY: see `run`.
        with_curve!(self.activation, curve => unsafe {
            for pixel in 0..run.count {
                let offset = (run.first + pixel) * run.channels;
                let mut c = 0;
                while c < run.channels {
                    let part = L::N.min(run.channels - c);
                    let z = L::add(a.at::<L>(offset, c, part), b.at::<L>(offset, c, part));
                    let v = curve.value::<L>(z);
                    let to = out.add(pixel * run.channels + c);
                    if self.stream {
                        L::stream(to, v);
                    } else {
                        store::<L>(to, part, v);
                    }
                    if let Some(mask) = self.mask.as_deref_mut() {
                        note_slope::<L, _>(curve, v, mask, pixel, c, run.channels);
                    }
                    c += L::N;
                }
            }
            if self.stream {
                L::fence();
            }
        });
    }

    /// The activation on what lies in `out`.
    #[inline(always)]
    unsafe fn apply<L: Lanes>(&mut self) {
        if self.activation == Activation::Identity && self.mask.is_none() {
            return;
        }
        let (channels, out) = (self.run.channels, self.out.as_mut_ptr());
        // SAFETY: vectors stay inside a pixel's channels.
        with_curve!(self.activation, curve => unsafe {
            for pixel in 0..self.run.count {
                let mut c = 0;
                while c < channels {
                    let part = L::N.min(channels - c);
                    let to = out.add(pixel * channels + c);
                    let v = curve.value::<L>(load::<L>(to, part));
                    store::<L>(to, part, v);
                    if let Some(mask) = self.mask.as_deref_mut() {
                        note_slope::<L, _>(curve, v, mask, pixel, c, channels);
                    }
                    c += L::N;
                }
            }
        });
    }
}

/// Notes in `mask` where the slope of `curve` is one, for the vector at channel `c` whose result is `v`.
#[inline(always)]
unsafe fn note_slope<L: Lanes, C: Curve>(
    curve: C,
    v: L::V,
    mask: &mut [u8],
    pixel: usize,
    c: usize,
    channels: usize,
) {
    // SAFETY: arithmetic only. The slope of these activations is the same at their output as at their input.
    let bits = unsafe { L::bits_gt(curve.backward::<L>(v, L::splat(1.0)), L::splat(0.5)) };
    let row = channels.div_ceil(8);
    let at = pixel * row + c / 8;
    let bytes = (L::N / 8).min(row - c / 8);
    mask[at..at + bytes].copy_from_slice(&bits.to_le_bytes()[..bytes]);
}

/// The bits of the vector at channel `c`.
#[inline(always)]
pub(crate) fn slope_bits<L: Lanes>(mask: &[u8], pixel: usize, c: usize, channels: usize) -> u32 {
    let row = channels.div_ceil(8);
    let at = pixel * row + c / 8;
    if L::N > 8 && row - c / 8 > 1 {
        u32::from(u16::from_le_bytes([mask[at], mask[at + 1]]))
    } else {
        u32::from(mask[at])
    }
}

/// A batch norm directly below a join: what its sums need, and where they go.
#[derive(Debug)]
pub struct JoinedNorm<'a> {
    /// The stored value below the norm.
    pub values: &'a [f32],
    /// Its mean.
    pub centre: &'a [f32],
    /// Receives the sums of the gradient.
    pub sum: &'a mut [f32],
    /// Receives the sums of gradient times centred value.
    pub product: &'a mut [f32],
}

/// What happens to the gradient of a join once it is complete: it passes the activation, given as a mask, and the sums of
/// up to two batch norms below the join are gathered.
#[derive(Debug, Default)]
pub struct JoinGradient<'a> {
    /// Where the activation's slope is one; `None` means everywhere.
    pub mask: Option<&'a [u8]>,
    /// The norms.
    pub norms: [Option<JoinedNorm<'a>>; 2],
}

/// What the workers of a region see of a [`JoinGradient`].
#[derive(Clone, Copy, Default)]
pub(crate) struct SharedJoin<'a> {
    pub mask: Option<&'a [u8]>,
    /// Stored value and its mean.
    pub norms: [(&'a [f32], &'a [f32]); 2],
    pub count: usize,
}

impl<'a> JoinGradient<'a> {
    /// Splits into what the workers share and where the sums go.
    ///
    /// # Panics
    /// If a slice is too short for `pixels` pixels of `channels`.
    pub(crate) fn share(self, pixels: usize, channels: usize) -> (SharedJoin<'a>, [Totals<'a>; 2]) {
        let extent = Extent {
            images: 1,
            pixels,
            channels,
        };
        assert!(
            self.mask.is_none_or(|mask| mask.len() >= mask_len(extent)),
            "mask too short"
        );
        let mut shared = SharedJoin {
            mask: self.mask,
            ..SharedJoin::default()
        };
        let mut totals = [Totals::Nothing, Totals::Nothing];
        for norm in self.norms.into_iter().flatten() {
            let enough = [norm.centre.len(), norm.sum.len(), norm.product.len()]
                .iter()
                .all(|len| *len >= channels);
            assert!(
                enough && norm.values.len() >= extent.len(),
                "norm too short"
            );
            shared.norms[shared.count] = (norm.values, norm.centre);
            totals[shared.count] = Totals::Sums {
                sum: norm.sum,
                product: norm.product,
            };
            shared.count += 1;
        }
        (shared, totals)
    }
}

/// Passes the complete gradient of a join on, in place.
///
/// # Panics
/// If a slice or the scratch is too short.
pub fn join_backward(
    isa: Isa,
    workers: &mut Workers,
    scratch: &mut Scratch,
    extent: Extent,
    gradient: &mut [f32],
    join: JoinGradient,
) {
    let (len, channels) = (extent.len(), extent.channels);
    assert!(gradient.len() >= len, "join of less than {len}");
    let (chunks, chunk) = pixel_chunks(extent);
    let (_, partials) = scratch.split();
    let (join, totals) = join.share(extent.images * extent.pixels, channels);
    let row = PARTIAL_ROWS * channels;
    let partials = &mut partials[..join.count * chunks * row];
    let (gradient, shared) = (
        Shared::new(&mut gradient[..len]),
        Shared::new(&mut *partials),
    );
    workers.each(chunks, |index, _| {
        let run = chunk(index);
        // SAFETY: chunks overlap neither in pixels nor in their rows of partial sums.
        let (gradient, partials) = unsafe {
            let rows = |n: usize| shared.part((n * chunks + index) * row, row).as_mut_ptr();
            let partials = [0, 1].map(|n| {
                if n < join.count {
                    rows(n)
                } else {
                    std::ptr::null_mut()
                }
            });
            (
                gradient.part(run.first * channels, run.count * channels),
                partials,
            )
        };
        isa.run(Backward {
            run,
            gradient,
            join,
            partials,
        });
    });
    for (n, totals) in totals.into_iter().enumerate().take(join.count) {
        let partials = &partials[n * chunks * row..(n + 1) * chunks * row];
        totals.merge(workers, partials, channels, &|index| chunk(index).count);
    }
}

struct Backward<'a> {
    run: PixelRun,
    gradient: &'a mut [f32],
    join: SharedJoin<'a>,
    partials: [*mut f32; 2],
}

impl Task for Backward<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<L: Lanes>(self) {
        let run = self.run;
        let gradient = self.gradient.as_mut_ptr();
        let pass = JoinPass {
            join: self.join,
            first: run.first,
            step: 1,
            count: run.count,
            channels: 0..run.channels,
            row: run.channels,
            opens: true,
            partials: self.partials,
        };
        let in_place = InPlace {
            gradient,
            channels: run.channels,
        };
        // SAFETY: `join_backward` checked all slices for the extent the run lies in.
        unsafe {
            match self.join.count {
                0 => pass.run::<L, _, 0>(in_place),
                1 => pass.run::<L, _, 1>(in_place),
                _ => pass.run::<L, _, 2>(in_place),
            }
        }
    }
}

/// Where the complete gradient of a join comes from and where it goes, vector by vector.
pub(crate) trait Gradient: Copy {
    /// The gradient of pixel `i` of the run at channel `c`.
    unsafe fn get<L: Lanes>(self, i: usize, c: usize, part: usize) -> L::V;
    /// Asks ahead for the pixels from `next` on; called at every vector of `channels`.
    unsafe fn prefetch<L: Lanes>(self, next: usize, c: usize, channels: &std::ops::Range<usize>);
    /// Takes it back after the activation.
    unsafe fn put<L: Lanes>(self, i: usize, c: usize, part: usize, v: L::V);
}

#[derive(Clone, Copy)]
struct InPlace {
    gradient: *mut f32,
    channels: usize,
}

impl Gradient for InPlace {
    #[inline(always)]
    unsafe fn prefetch<L: Lanes>(self, next: usize, c: usize, channels: &std::ops::Range<usize>) {
        // SAFETY: a prefetch may name any address.
        unsafe { prefetch_pixels::<L>(self.gradient, next, self.channels, c, channels.len()) };
    }
    #[inline(always)]
    unsafe fn get<L: Lanes>(self, i: usize, c: usize, part: usize) -> L::V {
        // SAFETY: handed on.
        unsafe { load::<L>(self.gradient.add(i * self.channels + c), part) }
    }
    #[inline(always)]
    unsafe fn put<L: Lanes>(self, i: usize, c: usize, part: usize, v: L::V) {
        // SAFETY: handed on.
        unsafe { store::<L>(self.gradient.add(i * self.channels + c), part, v) }
    }
}

/// A run of pixels through a join, with the sums of `NORMS` norms.
pub(crate) struct JoinPass<'a> {
    pub join: SharedJoin<'a>,
    /// First pixel in the whole batch, step between pixels, and their number.
    pub first: usize,
    pub step: usize,
    pub count: usize,
    /// Channels to work on, of `row` in all.
    pub channels: std::ops::Range<usize>,
    pub row: usize,
    /// Whether these are the chunk's first pixels.
    pub opens: bool,
    /// Per norm, this chunk's partial sums from the first of `channels` on.
    pub partials: [*mut f32; 2],
}

impl JoinPass<'_> {
    /// # Safety
    /// `gradient` covers the run, the join was shared for a batch that holds it, and the partial sums are this chunk's.
    #[inline(always)]
    pub unsafe fn run<L: Lanes, G: Gradient, const NORMS: usize>(self, gradient: G) {
        let Self {
            join,
            channels,
            row,
            ..
        } = self;
        // SAFETY: see above.
        unsafe {
            for start in (0..self.count).step_by(SHORT_SUM) {
                let end = self.count.min(start + SHORT_SUM);
                let opens = self.opens && start == 0;
                let mut c = channels.start;
                while c < channels.end {
                    let part = L::N.min(channels.end - c);
                    let mut sums = [[L::splat(0.0); 2]; NORMS];
                    let mut centres = [L::splat(0.0); NORMS];
                    for n in 0..NORMS {
                        centres[n] = load::<L>(join.norms[n].1.as_ptr().add(c), part);
                        let values = join.norms[n].0.as_ptr().add(channels.start);
                        let next = self.first + end * self.step;
                        prefetch_pixels::<L>(values, next, row, c - channels.start, channels.len());
                    }
                    gradient.prefetch::<L>(end, c, &channels);
                    for i in start..end {
                        let pixel = self.first + i * self.step;
                        let mut dz = gradient.get::<L>(i, c, part);
                        if let Some(mask) = join.mask {
                            dz = L::keep(slope_bits::<L>(mask, pixel, c, row), dz);
                        }
                        gradient.put::<L>(i, c, part, dz);
                        for n in 0..NORMS {
                            let y = load::<L>(join.norms[n].0.as_ptr().add(pixel * row + c), part);
                            sums[n][0] = L::add(sums[n][0], dz);
                            sums[n][1] = L::fma(dz, L::sub(y, centres[n]), sums[n][1]);
                        }
                    }
                    for n in 0..NORMS {
                        for r in 0..2 {
                            let to = self.partials[n].add(r * row + c - channels.start);
                            let sum = if opens {
                                sums[n][r]
                            } else {
                                L::add(load::<L>(to, part), sums[n][r])
                            };
                            store::<L>(to, part, sum);
                        }
                    }
                    c += L::N;
                }
            }
        }
    }
}
