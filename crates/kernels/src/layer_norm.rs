//! Layer norm: every pixel by its own channels.

use crate::extent::{Extent, pixel_chunks};
use crate::lanes::{Lanes, Task, vectors};
use crate::shared::Shared;
use crate::totals::{Totals, reduce};
use crate::{Target, Team};

/// A layer norm and what it normalises.
#[derive(Clone, Copy, Debug)]
pub struct LayerNorm<'a> {
    /// The values.
    pub values: &'a [f32],
    /// Factor per channel.
    pub scale: &'a [f32],
    /// Term per channel.
    pub shift: &'a [f32],
    /// Added to the variance.
    pub eps: f32,
}

/// `out = scale * (value - mean) / sqrt(variance + eps) + shift`, mean and variance over a pixel's channels.
///
/// # Panics
/// If a slice is too short.
pub fn layer_norm(team: &mut Team, extent: Extent, norm: LayerNorm, out: &mut [f32]) {
    let LayerNorm { values, scale, shift, eps } = norm;
    let channels = extent.channels;
    assert!(values.len() >= extent.len() && out.len() >= extent.len(), "layer norm too short");
    assert!(scale.len() >= channels && shift.len() >= channels, "norm tables too short");
    let (isa, out) = (team.isa(), Shared::new(out));
    let (chunks, chunk) = pixel_chunks(extent);
    team.each(chunks, |index, _| {
        let run = chunk(index);
        // SAFETY: chunks do not overlap.
        let out = unsafe { out.part(run.first * channels, run.count * channels) };
        isa.run(Forward { values: &values[run.floats()], scale, shift, eps, out, channels });
    });
}

/// Where the gradients of a layer norm go.
#[derive(Debug)]
pub struct LayerNormGradients<'a> {
    /// Receives the gradient of the scale.
    pub scale: &'a mut [f32],
    /// Receives the gradient of the shift.
    pub shift: &'a mut [f32],
    /// Receives the gradient of the values, if wanted.
    pub values: Option<Target<'a>>,
}

/// The gradients of a layer norm from that of its result.
///
/// # Panics
/// If a slice or the scratch is too short.
pub fn layer_norm_backward(
    team: &mut Team,
    extent: Extent,
    norm: LayerNorm,
    gradient: &[f32],
    gradients: LayerNormGradients,
) {
    let LayerNorm { values, scale, eps, .. } = norm;
    let channels = extent.channels;
    assert!(values.len() >= extent.len() && gradient.len() >= extent.len(), "layer norm too short");
    assert!(scale.len() >= channels, "norm tables too short");
    let isa = team.isa();
    let target = gradients.values.map(|target| {
        assert!(target.values.len() >= extent.len(), "target too short");
        (Shared::new(target.values), target.accumulate)
    });
    let totals = Totals::Sums { sum: gradients.shift, product: gradients.scale };
    reduce(team, extent, [totals, Totals::Nothing], |run, [partial, _]| {
        let (start, len) = (run.first * channels, run.count * channels);
        let target = target.as_ref().map(|(values, accumulate)| {
            // SAFETY: chunks do not overlap.
            Target { values: unsafe { values.part(start, len) }, accumulate: *accumulate }
        });
        let (values, gradient) = (&values[run.floats()], &gradient[run.floats()]);
        isa.run(Backward { values, gradient, scale, eps, partial, target, channels });
    });
}

/// Mean and reciprocal standard deviation of `channels` floats, in two passes.
#[inline(always)]
unsafe fn moments<L: Lanes>(from: *const f32, channels: usize, eps: f32) -> (f32, f32) {
    // SAFETY: the caller vouches for `channels` floats.
    unsafe {
        let mut sum = L::splat(0.0);
        for (c, part) in vectors::<L>(channels) {
            sum = L::add(sum, L::load_part(from.add(c), part));
        }
        let mean = L::sum(sum) / channels as f32;
        let (mut square, mut rest) = (L::splat(0.0), 0.0);
        for (c, part) in vectors::<L>(channels) {
            if part == L::N {
                let d = L::sub(L::load(from.add(c)), L::splat(mean));
                square = L::fma(d, d, square);
            } else {
                for i in c..channels {
                    let d = *from.add(i) - mean;
                    rest += d * d;
                }
            }
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
                for (c, part) in vectors::<L>(channels) {
                    let load = |slice: &[f32]| L::load_part(slice.as_ptr().add(c), part);
                    let x = L::mul(L::sub(load(values), mean), inverse);
                    L::store_part(out.as_mut_ptr().add(c), part, L::fma(x, load(self.scale), load(self.shift)));
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
    target: Option<Target<'a>>,
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
                let (mut total, mut along) = (L::splat(0.0), L::splat(0.0));
                for (c, part) in vectors::<L>(channels) {
                    let load = |slice: &[f32]| L::load_part(slice.as_ptr().add(c), part);
                    let x = L::mul(L::sub(load(values), mean), inverse);
                    let g = load(gradient);
                    L::store_part(sum.as_mut_ptr().add(c), part, L::add(load(sum), g));
                    L::store_part(product.as_mut_ptr().add(c), part, L::fma(g, x, load(product)));
                    // Lanes beyond the end hold zero gradients.
                    let scaled = L::mul(g, load(self.scale));
                    total = L::add(total, scaled);
                    along = L::fma(scaled, x, along);
                }
                let Some(Target { values: target, accumulate }) = &mut self.target else {
                    continue;
                };
                let target = &mut target[pixel * channels..][..channels];
                let total = L::splat(-L::sum(total) / channels as f32);
                let along = L::splat(-L::sum(along) / channels as f32);
                for (c, part) in vectors::<L>(channels) {
                    let load = |slice: &[f32]| L::load_part(slice.as_ptr().add(c), part);
                    let x = L::mul(L::sub(load(values), mean), inverse);
                    let scaled = L::mul(load(gradient), load(self.scale));
                    let mut d = L::mul(inverse, L::add(L::fma(along, x, total), scaled));
                    if *accumulate {
                        d = L::add(d, load(target));
                    }
                    L::store_part(target.as_mut_ptr().add(c), part, d);
                }
            }
        }
    }
}
