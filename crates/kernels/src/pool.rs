//! Pooling, forward and backward.

use crate::isa::Isa;
use crate::lanes::{Lanes, Task};
use crate::shared::Shared;
use crate::source::{PixelRun, Source};
use crate::{Scratch, Workers};
use flipcast_graph::{Extent, PoolShape};

/// Floats of scratch per worker that pooling needs.
pub fn pool_scratch_floats(shape: &PoolShape) -> usize {
    shape.kernel * shape.input[1] * shape.channels
}

/// Largest value of each window, and which tap it was (the first, on a tie).
///
/// # Panics
/// If a slice or the scratch is too short.
pub fn max_pool(
    isa: Isa,
    workers: &mut Workers,
    scratch: &mut Scratch,
    images: usize,
    shape: PoolShape,
    source: Source,
    (out, choices): (&mut [f32], &mut [u8]),
) {
    assert!(shape.kernel <= 15, "windows up to 15 pixels");
    source.check(images, shape.input[0] * shape.input[1], shape.channels);
    let len = images * shape.out_len();
    assert!(out.len() >= len && choices.len() >= len, "pool of less than {len}");
    let (out, choices) = (Shared::new(out), Shared::new(choices));
    let (scratch, _) = scratch.split();
    let row = shape.output[1] * shape.channels;
    workers.each(images * shape.output[0], |index, worker| {
        // SAFETY: output rows do not overlap, and a worker runs one at a time.
        let (out, choices, scratch) =
            unsafe { (out.part(index * row, row), choices.part(index * row, row), scratch.of(worker)) };
        let window = &mut scratch.floats[..pool_scratch_floats(&shape)];
        isa.run(PoolRow { shape, source, index, window, out, choices: Some(choices) });
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
        let run = PixelRun {
            first: (image * shape.input[0] + first_y) * width,
            step: 1,
            count: rows * width,
            image,
            channel: 0,
            width: channels,
            channels,
        };
        // SAFETY: the rows lie inside the image, and the window holds `kernel` of them.
        unsafe { self.source.fill::<L>(run, self.window.as_mut_ptr(), channels) };
        let share = 1.0 / (shape.kernel * shape.kernel) as f32;
        for x in 0..shape.output[1] {
            let (skip_x, first_x, columns) = shape.taps(x, 1);
            let mut c = 0;
            while c < channels {
                let part = L::N.min(channels - c);
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
                        c += L::N;
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
                c += L::N;
            }
        }
    }
}

/// The gradient of `max_pool`: each output's goes to the tap that won. The flag says to add to what is there.
///
/// # Panics
/// If a slice is too short.
pub fn max_pool_backward(
    isa: Isa,
    workers: &mut Workers,
    images: usize,
    shape: PoolShape,
    (gradient, choices): (&[f32], &[u8]),
    (target, add): (&mut [f32], bool),
) {
    let (in_len, out_len) = (shape.in_len(), shape.out_len());
    assert!(gradient.len() >= images * out_len && choices.len() >= images * out_len, "pool too short");
    assert!(target.len() >= images * in_len, "target too short");
    let target = Shared::new(target);
    workers.each(images, |image, _| {
        // SAFETY: images do not overlap.
        let target = unsafe { target.part(image * in_len, in_len) };
        if !add {
            target.fill(0.0);
        }
        let part = image * out_len..(image + 1) * out_len;
        isa.run(Scatter { shape, gradient: &gradient[part.clone()], choices: Some(&choices[part]), target });
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
                let mut c = 0;
                while c < channels {
                    let part = L::N.min(channels - c);
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
                    c += L::N;
                }
            }
        }
    }
}

/// Mean of each window, padded zeros included.
///
/// # Panics
/// If a slice or the scratch is too short.
pub fn avg_pool(
    isa: Isa,
    workers: &mut Workers,
    scratch: &mut Scratch,
    images: usize,
    shape: PoolShape,
    source: Source,
    out: &mut [f32],
) {
    source.check(images, shape.input[0] * shape.input[1], shape.channels);
    assert!(out.len() >= images * shape.out_len(), "pool too short");
    let out = Shared::new(out);
    let (scratch, _) = scratch.split();
    let row = shape.output[1] * shape.channels;
    workers.each(images * shape.output[0], |index, worker| {
        // SAFETY: output rows do not overlap, and a worker runs one at a time.
        let (out, scratch) = unsafe { (out.part(index * row, row), scratch.of(worker)) };
        let window = &mut scratch.floats[..pool_scratch_floats(&shape)];
        isa.run(PoolRow { shape, source, index, window, out, choices: None });
    });
}

/// The gradient of `avg_pool`.
///
/// # Panics
/// If a slice is too short.
pub fn avg_pool_backward(
    isa: Isa,
    workers: &mut Workers,
    images: usize,
    shape: PoolShape,
    gradient: &[f32],
    (target, add): (&mut [f32], bool),
) {
    let (in_len, out_len) = (shape.in_len(), shape.out_len());
    assert!(gradient.len() >= images * out_len && target.len() >= images * in_len, "pool too short");
    let target = Shared::new(target);
    workers.each(images, |image, _| {
        // SAFETY: images do not overlap.
        let target = unsafe { target.part(image * in_len, in_len) };
        if !add {
            target.fill(0.0);
        }
        let gradient = &gradient[image * out_len..(image + 1) * out_len];
        isa.run(Scatter { shape, gradient, choices: None, target });
    });
}

/// Mean over all pixels of every image: `[image][channel]`.
///
/// # Panics
/// If a slice or the scratch is too short.
pub fn global_avg_pool(
    isa: Isa,
    workers: &mut Workers,
    scratch: &mut Scratch,
    extent: Extent,
    source: Source,
    out: &mut [f32],
) {
    let Extent { images, pixels, channels } = extent;
    source.check(images, pixels, channels);
    assert!(out.len() >= images * channels, "pool too short");
    let out = Shared::new(out);
    let (scratch, _) = scratch.split();
    workers.each(images, |image, worker| {
        // SAFETY: images do not overlap, and a worker runs one at a time.
        let (out, scratch) = unsafe { (out.part(image * channels, channels), scratch.of(worker)) };
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
            let run = PixelRun {
                first: self.image * self.pixels + pixel,
                step: 1,
                count: 1,
                image: self.image,
                channel: 0,
                width: channels,
                channels,
            };
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
pub fn global_avg_pool_backward(
    workers: &mut Workers,
    extent: Extent,
    gradient: &[f32],
    (target, add): (&mut [f32], bool),
) {
    let Extent { images, pixels, channels } = extent;
    assert!(gradient.len() >= images * channels && target.len() >= extent.len(), "pool too short");
    let target = Shared::new(target);
    let share = 1.0 / pixels as f32;
    workers.each(images, |image, _| {
        // SAFETY: images do not overlap.
        let target = unsafe { target.part(image * pixels * channels, pixels * channels) };
        let gradient = &gradient[image * channels..][..channels];
        for pixel in target.chunks_exact_mut(channels) {
            for c in 0..channels {
                pixel[c] = gradient[c] * share + if add { pixel[c] } else { 0.0 };
            }
        }
    });
}
