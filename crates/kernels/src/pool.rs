//! Pooling, forward and backward.

use crate::lanes::{Lanes, Task, vectors};
use crate::shared::Shared;
use crate::source::{PixelRun, Source};
use crate::{ScratchSize, Target, Team};
use flipcast_graph::{Extent, PoolShape};

/// Scratch that pooling needs.
pub fn pool_scratch(shape: &PoolShape) -> ScratchSize {
    ScratchSize { floats: shape.kernel * shape.input[1] * shape.channels, ..ScratchSize::default() }
}

/// A max pool if there are `choices`, which receive the number of the tap that won each window (the first, on a tie); without
/// them the mean of each window, padded zeros included.
///
/// # Panics
/// If a slice or the scratch is too short.
pub fn pool(
    team: &mut Team,
    images: usize,
    shape: PoolShape,
    source: Source,
    out: &mut [f32],
    choices: Option<&mut [u8]>,
) {
    assert!(choices.is_none() || shape.kernel <= 15, "the number of a tap fits a byte");
    source.check(images, shape.input[0] * shape.input[1], shape.channels);
    let len = images * shape.out_len();
    assert!(out.len() >= len, "pool of less than {len}");
    assert!(choices.as_ref().is_none_or(|choices| choices.len() >= len), "choices of less than {len}");
    let (isa, out, choices) = (team.isa(), Shared::new(out), choices.map(Shared::new));
    let row = shape.output[1] * shape.channels;
    team.each(images * shape.output[0], |index, scratch| {
        // SAFETY: output rows do not overlap.
        let (out, choices) =
            unsafe { (out.part(index * row, row), choices.map(|choices| choices.part(index * row, row))) };
        let window = &mut scratch.floats[..pool_scratch(&shape).floats];
        isa.run(PoolRow { shape, source, index, window, out, choices });
    });
}

struct PoolRow<'a> {
    shape: PoolShape,
    source: Source<'a>,
    index: usize,
    window: &'a mut [f32],
    out: &'a mut [f32],
    /// Where to note the taps; without it the row is averaged instead.
    choices: Option<&'a mut [u8]>,
}

impl Task for PoolRow<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<L: Lanes>(mut self) {
        let shape = self.shape;
        let (channels, width) = (shape.channels, shape.input[1]);
        let (image, y) = (self.index / shape.output[0], self.index % shape.output[0]);
        let (skip_y, first_y, rows) = shape.taps(y, 0);
        let run = PixelRun::whole(image, (image * shape.input[0] + first_y) * width, rows * width, channels);
        // SAFETY: the rows lie inside the image, and the window holds `kernel` of them.
        unsafe { self.source.fill::<L>(run, self.window.as_mut_ptr(), channels) };
        let share = 1.0 / (shape.kernel * shape.kernel) as f32;
        for x in 0..shape.output[1] {
            let (skip_x, first_x, columns) = shape.taps(x, 1);
            for (c, part) in vectors::<L>(channels) {
                // SAFETY: taps were clamped to the image; vectors at the end of the channels are partial.
                unsafe {
                    let at = |ky: usize, kx: usize| {
                        let pixel = ky * width + first_x + kx;
                        L::load_part(self.window.as_ptr().add(pixel * channels + c), part)
                    };
                    let to = self.out.as_mut_ptr().add(x * channels + c);
                    let Some(choices) = self.choices.as_deref_mut() else {
                        let mut sum = L::splat(0.0);
                        for ky in 0..rows {
                            for kx in 0..columns {
                                sum = L::add(sum, at(ky, kx));
                            }
                        }
                        L::store_part(to, part, L::mul(sum, L::splat(share)));
                        continue;
                    };
                    let mut best = L::splat(f32::NEG_INFINITY);
                    let mut choice = L::splat(0.0);
                    for ky in 0..rows {
                        for kx in 0..columns {
                            let v = at(ky, kx);
                            let tap = ((skip_y + ky) * shape.kernel + skip_x + kx) as f32;
                            choice = L::select_gt(v, best, L::splat(tap), choice);
                            // The new value second: it stays when it is NaN.
                            best = L::max(best, v);
                        }
                    }
                    L::store_part(to, part, best);
                    let mut taps = [0.0f32; 16];
                    L::store(taps.as_mut_ptr(), choice);
                    for (to, tap) in choices[x * channels + c..][..part].iter_mut().zip(taps) {
                        *to = tap as u8;
                    }
                }
            }
        }
    }
}

/// The gradient of `pool`: each output's goes to the tap that won it, or in equal shares to all without `choices`.
///
/// # Panics
/// If a slice is too short.
pub fn pool_backward(
    team: &mut Team,
    images: usize,
    shape: PoolShape,
    gradient: &[f32],
    choices: Option<&[u8]>,
    target: Target,
) {
    let (isa, in_len, out_len) = (team.isa(), shape.in_len(), shape.out_len());
    team.each_chunk_mut(&mut target.values[..images * in_len], in_len, |image, to| {
        if !target.accumulate {
            to.fill(0.0);
        }
        let part = image * out_len..(image + 1) * out_len;
        let choices = choices.map(|choices| &choices[part.clone()]);
        isa.run(Scatter { shape, gradient: &gradient[part], choices, target: to });
    });
}

struct Scatter<'a> {
    shape: PoolShape,
    gradient: &'a [f32],
    /// Which tap receives the gradient; without it all share it.
    choices: Option<&'a [u8]>,
    target: &'a mut [f32],
}

impl Task for Scatter<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<L: Lanes>(self) {
        let shape = self.shape;
        let channels = shape.channels;
        let share = 1.0 / (shape.kernel * shape.kernel) as f32;
        for y in 0..shape.output[0] {
            let (skip_y, first_y, rows) = shape.taps(y, 0);
            for x in 0..shape.output[1] {
                let (skip_x, first_x, columns) = shape.taps(x, 1);
                let from = (y * shape.output[1] + x) * channels;
                for (c, part) in vectors::<L>(channels) {
                    // SAFETY: taps were clamped to the image; vectors at the end of the channels are partial.
                    unsafe {
                        let g = L::load_part(self.gradient.as_ptr().add(from + c), part);
                        let choice = match self.choices {
                            None => L::splat(0.0),
                            Some(choices) if part == L::N => L::load_bytes(choices.as_ptr().add(from + c)),
                            Some(choices) => {
                                let mut bytes = [0u8; 16];
                                bytes[..part].copy_from_slice(&choices[from + c..][..part]);
                                L::load_bytes(bytes.as_ptr())
                            }
                        };
                        for ky in 0..rows {
                            for kx in 0..columns {
                                let pixel = (first_y + ky) * shape.input[1] + first_x + kx;
                                let to = self.target.as_mut_ptr().add(pixel * channels + c);
                                let more = if self.choices.is_some() {
                                    let tap = ((skip_y + ky) * shape.kernel + skip_x + kx) as f32;
                                    let zero = L::splat(0.0);
                                    let at_least = L::select_gt(choice, L::splat(tap - 0.5), g, zero);
                                    L::select_gt(L::splat(tap + 0.5), choice, at_least, zero)
                                } else {
                                    L::mul(g, L::splat(share))
                                };
                                L::store_part(to, part, L::add(L::load_part(to, part), more));
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Mean over all pixels of every image: `[image][channel]`.
///
/// # Panics
/// If a slice or the scratch is too short.
pub fn global_avg_pool(team: &mut Team, extent: Extent, source: Source, out: &mut [f32]) {
    let Extent { images, pixels, channels } = extent;
    source.check(images, pixels, channels);
    assert!(out.len() >= images * channels, "pool too short");
    let (isa, out) = (team.isa(), Shared::new(out));
    team.each(images, |image, scratch| {
        // SAFETY: images do not overlap.
        let out = unsafe { out.part(image * channels, channels) };
        isa.run(Mean { source, image, pixels, pixel: &mut scratch.floats[..channels], out });
    });
}

struct Mean<'a> {
    source: Source<'a>,
    image: usize,
    pixels: usize,
    pixel: &'a mut [f32],
    out: &'a mut [f32],
}

impl Task for Mean<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<L: Lanes>(self) {
        let channels = self.out.len();
        self.out.fill(0.0);
        for pixel in 0..self.pixels {
            let run = PixelRun::whole(self.image, self.image * self.pixels + pixel, 1, channels);
            // SAFETY: the pixel lies inside the batch `global_avg_pool` checked.
            unsafe { self.source.fill::<L>(run, self.pixel.as_mut_ptr(), channels) };
            self.out.iter_mut().zip(&*self.pixel).for_each(|(sum, x)| *sum += x);
        }
        let share = 1.0 / self.pixels as f32;
        self.out.iter_mut().for_each(|sum| *sum *= share);
    }
}

/// The gradient of `global_avg_pool`.
///
/// # Panics
/// If a slice is too short.
pub fn global_avg_pool_backward(team: &mut Team, extent: Extent, gradient: &[f32], target: Target) {
    let Extent { pixels, channels, .. } = extent;
    let share = 1.0 / pixels as f32;
    team.each_chunk_mut(&mut target.values[..extent.len()], pixels * channels, |image, to| {
        let gradient = &gradient[image * channels..][..channels];
        for pixel in to.chunks_exact_mut(channels) {
            for c in 0..channels {
                pixel[c] = gradient[c] * share + if target.accumulate { pixel[c] } else { 0.0 };
            }
        }
    });
}
