//! Residual joins: the sum of two values under an activation.

use crate::Team;
use crate::activation::{Curve, with_curve};
use crate::extent::{Extent, pixel_chunks};
use crate::lanes::{Lanes, Task, load, store, vectors};
use crate::mask::{mask_len, note_slope};
use crate::shared::Shared;
use crate::source::{PixelRun, Source};
use crate::walk::STREAM_FROM;
use flipcast_graph::Activation;

/// `out = activation(sum of terms)` for one or two terms of `extent`. `mask` receives where the activation's slope is
/// one; elsewhere it is zero.
///
/// # Panics
/// If there is no term or more than two, a slice is too short, or a mask is asked for an activation without one.
pub fn join(
    team: &mut Team,
    extent: Extent,
    terms: &[Source],
    activation: Activation,
    out: &mut [f32],
    mask: Option<&mut [u8]>,
) {
    let len = extent.len();
    assert!(matches!(terms.len(), 1 | 2), "a join has one or two terms");
    assert!(out.len() >= len, "join of {} < {len}", out.len());
    assert!(mask.is_none() || activation.derivative_from_output(), "{activation:?} has no mask");
    assert!(mask.as_ref().is_none_or(|mask| mask.len() >= mask_len(extent)), "mask too short");
    for term in terms {
        term.check(extent.images, extent.pixels, extent.channels);
    }
    let stream = len > STREAM_FROM && extent.channels.is_multiple_of(16) && out.as_ptr().align_offset(64) == 0;
    let (out, mask) = (Shared::new(&mut out[..len]), mask.map(Shared::new));
    let (chunks, chunk) = pixel_chunks(extent);
    let isa = team.isa();
    let row = extent.channels.div_ceil(8);
    team.each(chunks, |index, scratch| {
        let run = chunk(index);
        // SAFETY: chunks do not overlap.
        let (out, mask) = unsafe {
            (
                out.part(run.first * extent.channels, run.count * extent.channels),
                mask.map(|mask| mask.part(run.first * row, run.count * row)),
            )
        };
        isa.run(Join { terms, activation, run, out, mask, stream, spare: scratch.floats });
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
        // SAFETY: the caller's promise.
        unsafe { load::<L>(self.0.add(offset + c), part) }
    }
}

impl Term for Scaled {
    #[inline(always)]
    unsafe fn at<L: Lanes>(self, offset: usize, c: usize, part: usize) -> L::V {
        // SAFETY: the caller's promise.
        unsafe {
            let v = load::<L>(self.values.add(offset + c), part);
            L::fma(v, load::<L>(self.scale.add(c), part), load::<L>(self.shift.add(c), part))
        }
    }
}

/// The scaled form of a norm with nothing on top.
fn scaled(source: &Source, run: &PixelRun) -> Option<Scaled> {
    match source {
        Source::Normed { values, norm, activation: Activation::Identity } => {
            let row = if norm.per_image { run.image * run.channels } else { 0 };
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
                for (c, part) in vectors::<L>(run.channels) {
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
                for (c, part) in vectors::<L>(channels) {
                    let to = out.add(pixel * channels + c);
                    let v = curve.value::<L>(load::<L>(to, part));
                    store::<L>(to, part, v);
                    if let Some(mask) = self.mask.as_deref_mut() {
                        note_slope::<L, _>(curve, v, mask, pixel, c, channels);
                    }
                }
            }
        });
    }
}
