//! Layer norm: every pixel by its own channels.

use crate::extent::{Extent, pixel_chunks};
use crate::isa::Isa;
use crate::lanes::{Lanes, Task};
use crate::shared::Shared;
use crate::totals::{PARTIAL_ROWS, Totals};
use crate::{Scratch, Workers};

/// `out = scale * (value - mean) / sqrt(variance + eps) + shift`, mean and variance over a pixel's channels.
///
/// # Panics
/// If a slice is too short.
pub fn layer_norm(
    isa: Isa,
    workers: &mut Workers,
    extent: Extent,
    values: &[f32],
    (scale, shift, eps): (&[f32], &[f32], f32),
    out: &mut [f32],
) {
    let channels = extent.channels;
    assert!(values.len() >= extent.len() && out.len() >= extent.len(), "layer norm too short");
    assert!(scale.len() >= channels && shift.len() >= channels, "norm tables too short");
    let out = Shared::new(out);
    let (chunks, chunk) = pixel_chunks(extent);
    workers.each(chunks, |index, _| {
        let run = chunk(index);
        // SAFETY: chunks do not overlap.
        let out = unsafe { out.part(run.first * channels, run.count * channels) };
        let values = &values[run.first * channels..][..run.count * channels];
        isa.run(Forward { values, scale, shift, eps, out, channels });
    });
}

/// Gradients of scale and shift, and of the value if `target` is given (with a flag to add to what is there).
///
/// # Panics
/// If a slice or the scratch is too short.
#[expect(clippy::too_many_arguments, reason = "a pass and the tensors it touches")]
pub fn layer_norm_backward(
    isa: Isa,
    workers: &mut Workers,
    scratch: &mut Scratch,
    extent: Extent,
    (values, gradient): (&[f32], &[f32]),
    (scale, eps): (&[f32], f32),
    (scale_gradient, shift_gradient): (&mut [f32], &mut [f32]),
    target: Option<(&mut [f32], bool)>,
) {
    let channels = extent.channels;
    assert!(values.len() >= extent.len() && gradient.len() >= extent.len(), "layer norm too short");
    assert!(scale.len() >= channels, "norm tables too short");
    let (chunks, chunk) = pixel_chunks(extent);
    let (_, partials) = scratch.split();
    let row = PARTIAL_ROWS * channels;
    let partials = &mut partials[..chunks * row];
    let shared = Shared::new(&mut *partials);
    let (target, add) = match target {
        Some((target, add)) => {
            assert!(target.len() >= extent.len(), "target too short");
            (Some(Shared::new(target)), add)
        }
        None => (None, false),
    };
    workers.each(chunks, |index, _| {
        let run = chunk(index);
        let (start, len) = (run.first * channels, run.count * channels);
        // SAFETY: chunks overlap neither in pixels nor in rows of partial sums.
        let (partial, target) =
            unsafe { (shared.part(index * row, row), target.as_ref().map(|target| target.part(start, len))) };
        isa.run(Backward {
            values: &values[start..start + len],
            gradient: &gradient[start..start + len],
            scale,
            eps,
            partial,
            target,
            add,
            channels,
        });
    });
    let totals = Totals::Sums { sum: shift_gradient, product: scale_gradient };
    totals.merge(workers, partials, channels, &|index| chunk(index).count);
}

/// Mean and reciprocal standard deviation of `channels` floats, in two passes.
#[inline(always)]
unsafe fn moments<L: Lanes>(from: *const f32, channels: usize, eps: f32) -> (f32, f32) {
    // SAFETY: the caller vouches for `channels` floats.
    unsafe {
        let (mut sum, mut c) = (L::splat(0.0), 0);
        while c < channels {
            sum = L::add(sum, L::load_part(from.add(c), L::N.min(channels - c)));
            c += L::N;
        }
        let mean = L::sum(sum) / channels as f32;
        let (mut square, mut c, mut rest) = (L::splat(0.0), 0, 0.0);
        while c < channels {
            if c + L::N <= channels {
                let d = L::sub(L::load(from.add(c)), L::splat(mean));
                square = L::fma(d, d, square);
            } else {
                for i in c..channels {
                    let d = *from.add(i) - mean;
                    rest += d * d;
                }
            }
            c += L::N;
        }
        let variance = (L::sum(square) + rest) / channels as f32;
        (mean, 1.0 / (variance + eps).sqrt())
    }
}

struct Forward<'a> {
    values: &'a [f32],
    scale: &'a [f32],
    shift: &'a [f32],
    eps: f32,
    out: &'a mut [f32],
    channels: usize,
}

impl Task for Forward<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<L: Lanes>(self) {
        let channels = self.channels;
        let pixels = self.values.chunks_exact(channels).zip(self.out.chunks_exact_mut(channels));
        for (values, out) in pixels {
            // SAFETY: both hold a pixel's channels; vectors at the end are partial.
            unsafe {
                let (mean, inverse) = moments::<L>(values.as_ptr(), channels, self.eps);
                let (mean, inverse) = (L::splat(mean), L::splat(inverse));
                let mut c = 0;
                while c < channels {
                    let part = L::N.min(channels - c);
                    let load = |slice: &[f32]| L::load_part(slice.as_ptr().add(c), part);
                    let x = L::mul(L::sub(load(values), mean), inverse);
                    L::store_part(out.as_mut_ptr().add(c), part, L::fma(x, load(self.scale), load(self.shift)));
                    c += L::N;
                }
            }
        }
    }
}

struct Backward<'a> {
    values: &'a [f32],
    gradient: &'a [f32],
    scale: &'a [f32],
    eps: f32,
    partial: &'a mut [f32],
    target: Option<&'a mut [f32]>,
    add: bool,
    channels: usize,
}

impl Task for Backward<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<L: Lanes>(mut self) {
        let channels = self.channels;
        self.partial.fill(0.0);
        let (sum, product) = self.partial[..2 * channels].split_at_mut(channels);
        let pixels = self.values.chunks_exact(channels).zip(self.gradient.chunks_exact(channels));
        for (pixel, (values, gradient)) in pixels.enumerate() {
            // SAFETY: all slices hold a pixel's channels; vectors at the end are partial.
            unsafe {
                let (mean, inverse) = moments::<L>(values.as_ptr(), channels, self.eps);
                let (mean, inverse) = (L::splat(mean), L::splat(inverse));
                let (mut total, mut along, mut c) = (L::splat(0.0), L::splat(0.0), 0);
                while c < channels {
                    let part = L::N.min(channels - c);
                    let load = |slice: &[f32]| L::load_part(slice.as_ptr().add(c), part);
                    let x = L::mul(L::sub(load(values), mean), inverse);
                    let g = load(gradient);
                    L::store_part(sum.as_mut_ptr().add(c), part, L::add(load(sum), g));
                    L::store_part(product.as_mut_ptr().add(c), part, L::fma(g, x, load(product)));
                    // Lanes beyond the end hold zero gradients.
                    let scaled = L::mul(g, load(self.scale));
                    total = L::add(total, scaled);
                    along = L::fma(scaled, x, along);
                    c += L::N;
                }
                let Some(target) = self.target.as_deref_mut() else {
                    continue;
                };
                let target = &mut target[pixel * channels..][..channels];
                let total = L::splat(-L::sum(total) / channels as f32);
                let along = L::splat(-L::sum(along) / channels as f32);
                let mut c = 0;
                while c < channels {
                    let part = L::N.min(channels - c);
                    let load = |slice: &[f32]| L::load_part(slice.as_ptr().add(c), part);
                    let x = L::mul(L::sub(load(values), mean), inverse);
                    let scaled = L::mul(load(gradient), load(self.scale));
                    let mut d = L::mul(inverse, L::add(L::fma(along, x, total), scaled));
                    if self.add {
                        d = L::add(d, load(target));
                    }
                    L::store_part(target.as_mut_ptr().add(c), part, d);
                    c += L::N;
                }
            }
        }
    }
}
