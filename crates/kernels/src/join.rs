//! Residual joins: the sum of two values under an activation, and its gradient.

use crate::Scratch;
use crate::Workers;
use crate::activation::{Curve, with_curve};
use crate::isa::Isa;
use crate::lanes::{Lanes, Task, load, store};
use crate::norm::{Extent, pixel_chunks};
use crate::shared::Shared;
use crate::sink::{PARTIAL_ROWS, SHORT_SUM, STREAM_FROM, Totals};
use crate::source::{PixelRun, Source};
use flipcast_graph::Activation;

/// `out = activation(sum of terms)` for one or two terms of `extent`.
///
/// # Panics
/// If there is no term or more than two, or a slice is too short.
pub fn join(
    isa: Isa,
    workers: &mut Workers,
    scratch: &mut Scratch,
    extent: Extent,
    terms: &[Source],
    activation: Activation,
    out: &mut [f32],
) {
    let len = extent.len();
    assert!(matches!(terms.len(), 1 | 2), "a join has one or two terms");
    assert!(out.len() >= len, "join of {} < {len}", out.len());
    for term in terms {
        term.check(extent.images, extent.pixels, extent.channels);
    }
    let stream = len > STREAM_FROM
        && extent.channels.is_multiple_of(16)
        && out.as_ptr().align_offset(64) == 0;
    let out = Shared::new(&mut out[..len]);
    let (chunks, chunk) = pixel_chunks(extent);
    let (scratch, _) = scratch.split();
    workers.each(chunks, |index, worker| {
        let run = chunk(index);
        // SAFETY: chunks do not overlap, and a worker runs one at a time.
        let (out, scratch) = unsafe {
            (
                out.part(run.first * extent.channels, run.count * extent.channels),
                scratch.of(worker),
            )
        };
        isa.run(Join {
            terms,
            activation,
            run,
            out,
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
    unsafe fn run<L: Lanes>(self) {
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
                        apply::<L>(self.activation, self.out);
                    }
                },
                [a] => {
                    a.fill::<L>(run, self.out.as_mut_ptr(), run.channels);
                    apply::<L>(self.activation, self.out);
                }
                _ => unreachable!("checked by `join`"),
            }
        }
    }
}

impl Join<'_> {
    #[inline(always)]
    unsafe fn sum<L: Lanes, A: Term, B: Term>(self, a: A, b: B) {
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
                    c += L::N;
                }
            }
            if self.stream {
                L::fence();
            }
        });
    }
}

#[inline(always)]
unsafe fn apply<L: Lanes>(activation: Activation, values: &mut [f32]) {
    if activation == Activation::Identity {
        return;
    }
    let start = values.as_mut_ptr();
    // SAFETY: vectors stay inside the slice.
    with_curve!(activation, curve => unsafe {
        let mut i = 0;
        while i < values.len() {
            let part = L::N.min(values.len() - i);
            let v = curve.value::<L>(load::<L>(start.add(i), part));
            L::store_part(start.add(i), part, v);
            i += L::N;
        }
    });
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

/// Multiplies `gradient` by the derivative of `activation`, read off its output `joined`, and gathers the sums of up to
/// two batch norms below the join.
///
/// # Panics
/// If a slice is too short or the derivative cannot be read off the output.
#[expect(
    clippy::too_many_arguments,
    reason = "a pass and the tensors it touches"
)]
pub fn join_backward(
    isa: Isa,
    workers: &mut Workers,
    scratch: &mut Scratch,
    extent: Extent,
    joined: &[f32],
    activation: Activation,
    gradient: &mut [f32],
    norms: [Option<JoinedNorm>; 2],
) {
    let (len, channels) = (extent.len(), extent.channels);
    assert!(
        activation.derivative_from_output(),
        "{activation:?} needs its input"
    );
    assert!(
        joined.len() >= len && gradient.len() >= len,
        "join of less than {len}"
    );
    let (chunks, chunk) = pixel_chunks(extent);
    let (_, partials) = scratch.split();
    let row = PARTIAL_ROWS * channels;
    let count = norms.iter().flatten().count();
    assert!(
        partials.len() >= count * chunks * row,
        "partial sums too short"
    );
    let mut inputs: [(&[f32], &[f32]); 2] = [(&[], &[]); 2];
    let mut totals = [Totals::Nothing, Totals::Nothing];
    for (n, norm) in norms.into_iter().flatten().enumerate() {
        assert!(
            norm.values.len() >= len && norm.centre.len() >= channels,
            "norm too short"
        );
        inputs[n] = (norm.values, norm.centre);
        totals[n] = Totals::Sums {
            sum: norm.sum,
            product: norm.product,
        };
    }
    let shared = Shared::new(&mut gradient[..len]);
    let partial = Shared::new(&mut *partials);
    workers.each(chunks, |index, _| {
        let run = chunk(index);
        // SAFETY: chunks overlap neither in pixels nor in their rows of partial sums.
        let (gradient, partials) = unsafe {
            let rows = [0, 1].map(|n| {
                if n < count {
                    partial.part((n * chunks + index) * row, row).as_mut_ptr()
                } else {
                    std::ptr::null_mut()
                }
            });
            (
                shared.part(run.first * channels, run.count * channels),
                rows,
            )
        };
        let task = Backward {
            run,
            joined,
            activation,
            gradient,
            norms: inputs,
            partials,
        };
        match count {
            0 => isa.run(Sized::<0>(task)),
            1 => isa.run(Sized::<1>(task)),
            _ => isa.run(Sized::<2>(task)),
        }
    });
    for (n, totals) in totals.into_iter().enumerate().take(count) {
        let partials = &partials[n * chunks * row..(n + 1) * chunks * row];
        totals.merge(workers, partials, channels, &|index| chunk(index).count);
    }
}

struct Backward<'a> {
    run: PixelRun,
    joined: &'a [f32],
    activation: Activation,
    gradient: &'a mut [f32],
    norms: [(&'a [f32], &'a [f32]); 2],
    partials: [*mut f32; 2],
}

/// A backward join with a known number of norms.
struct Sized<'a, const NORMS: usize>(Backward<'a>);

impl<const NORMS: usize> Task for Sized<'_, NORMS> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<L: Lanes>(self) {
        let t = self.0;
        let (run, channels) = (t.run, t.run.channels);
        let joined = t.joined[run.first * channels..].as_ptr();
        let gradient = t.gradient.as_mut_ptr();
        // SAFETY: `join_backward` checked all slices for the extent the run lies in.
        with_curve!(t.activation, curve => unsafe {
            for n in 0..NORMS {
                std::ptr::write_bytes(t.partials[n], 0, 2 * channels);
            }
            for start in (0..run.count).step_by(SHORT_SUM) {
                let end = run.count.min(start + SHORT_SUM);
                let mut c = 0;
                while c < channels {
                    let part = L::N.min(channels - c);
                    let mut sums = [[L::splat(0.0); 2]; NORMS];
                    let mut centres = [L::splat(0.0); NORMS];
                    let mut values = [std::ptr::null::<f32>(); NORMS];
                    for n in 0..NORMS {
                        centres[n] = load::<L>(t.norms[n].1.as_ptr().add(c), part);
                        values[n] = t.norms[n].0.as_ptr().add(run.first * channels);
                    }
                    for pixel in start..end {
                        let at = pixel * channels + c;
                        let g = load::<L>(gradient.add(at), part);
                        // The derivative of these activations is the same at their output as at their input.
                        let dz = curve.backward::<L>(load::<L>(joined.add(at), part), g);
                        store::<L>(gradient.add(at), part, dz);
                        for n in 0..NORMS {
                            let y = load::<L>(values[n].add(at), part);
                            sums[n][0] = L::add(sums[n][0], dz);
                            sums[n][1] = L::fma(dz, L::sub(y, centres[n]), sums[n][1]);
                        }
                    }
                    for n in 0..NORMS {
                        for r in 0..2 {
                            let to = t.partials[n].add(r * channels + c);
                            store::<L>(to, part, L::add(load::<L>(to, part), sums[n][r]));
                        }
                    }
                    c += L::N;
                }
            }
        });
    }
}
