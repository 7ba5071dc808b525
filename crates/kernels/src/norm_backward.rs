//! Gradients at norms: their sums, and the gradient carried through.

use crate::activation::{Curve, with_curve};
use crate::extent::{Extent, pixel_chunks};
use crate::isa::Isa;
use crate::lanes::{Lanes, Task, load, store};
use crate::shared::Shared;
use crate::source::{NormTables, PixelRun, Source, ThroughTables};
use crate::totals::{PARTIAL_ROWS, Totals};
use crate::walk::{SHORT_SUM, prefetch_pixels};
use crate::{Scratch, Workers};
use flipcast_graph::Activation;

/// What the sums of a norm's gradient are made of: the gradient of `activation(norm(values))`.
#[derive(Clone, Copy, Debug)]
pub struct NormGradient<'a> {
    /// Gradient of the derived value.
    pub gradient: &'a [f32],
    /// The stored value below the norm.
    pub values: &'a [f32],
    /// Its norm.
    pub norm: NormTables<'a>,
    /// On top of it.
    pub activation: Activation,
    /// Subtracted from the value, in rows like those of the norm.
    pub centre: &'a [f32],
}

/// Sums of `dz` and of `dz * (value - centre)`: per channel, or per image and channel when the tables are.
///
/// # Panics
/// If a slice or the scratch is too short.
pub fn norm_sums(
    isa: Isa,
    workers: &mut Workers,
    scratch: &mut Scratch,
    extent: Extent,
    of: NormGradient,
    sum: &mut [f32],
    product: &mut [f32],
) {
    let Extent { images, pixels, channels } = extent;
    let rows = if of.norm.per_image { images } else { 1 } * channels;
    assert!(of.gradient.len() >= extent.len() && of.values.len() >= extent.len(), "gradient too short");
    let tables = [of.norm.scale, of.norm.shift, of.centre, &*sum, &*product];
    assert!(tables.iter().all(|table| table.len() >= rows), "norm tables too short");
    let part = |run: PixelRun| {
        let range = run.first * channels..(run.first + run.count) * channels;
        let row = if of.norm.per_image { run.image * channels } else { 0 };
        Sums {
            gradient: &of.gradient[range.clone()],
            values: &of.values[range],
            tables: [&of.norm.scale[row..], &of.norm.shift[row..], &of.centre[row..]],
            activation: of.activation,
            channels,
        }
    };
    if of.norm.per_image {
        let (sum, product) = (Shared::new(sum), Shared::new(product));
        workers.each(images, |image, _| {
            let whole = PixelRun {
                first: image * pixels,
                step: 1,
                count: pixels,
                image,
                channel: 0,
                width: channels,
                channels,
            };
            // SAFETY: every image has rows of its own.
            let to = unsafe { (sum.part(image * channels, channels), product.part(image * channels, channels)) };
            isa.run(SumsInto { sums: part(whole), sum: to.0, product: to.1 });
        });
        return;
    }
    let (chunks, chunk) = pixel_chunks(extent);
    let (_, partials) = scratch.split();
    let row = PARTIAL_ROWS * channels;
    let partials = &mut partials[..chunks * row];
    let shared = Shared::new(&mut *partials);
    workers.each(chunks, |index, _| {
        // SAFETY: every chunk has rows of its own.
        let partial = unsafe { shared.part(index * row, row) };
        let (sum, rest) = partial.split_at_mut(channels);
        isa.run(SumsInto { sums: part(chunk(index)), sum, product: &mut rest[..channels] });
    });
    Totals::Sums { sum, product }.merge(workers, partials, channels, &|index| chunk(index).count);
}

struct Sums<'a> {
    gradient: &'a [f32],
    values: &'a [f32],
    tables: [&'a [f32]; 3],
    activation: Activation,
    channels: usize,
}

struct SumsInto<'a> {
    sums: Sums<'a>,
    sum: &'a mut [f32],
    product: &'a mut [f32],
}

impl Task for SumsInto<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<L: Lanes>(self) {
        let Sums { gradient, values, tables, activation, channels } = self.sums;
        let count = gradient.len() / channels;
        let [scale, shift, centre] = tables;
        // SAFETY: slices were cut to `count` pixels, tables hold a row from their start on.
        with_curve!(activation, curve => unsafe {
            let (sums, products) = (self.sum.as_mut_ptr(), self.product.as_mut_ptr());
            std::ptr::write_bytes(sums, 0, channels);
            std::ptr::write_bytes(products, 0, channels);
            for start in (0..count).step_by(SHORT_SUM) {
                let end = count.min(start + SHORT_SUM);
                let mut c = 0;
                while c < channels {
                    let part = L::N.min(channels - c);
                    let scale = load::<L>(scale.as_ptr().add(c), part);
                    let shift = load::<L>(shift.as_ptr().add(c), part);
                    let centre = load::<L>(centre.as_ptr().add(c), part);
                    prefetch_pixels::<L>(values.as_ptr(), end, channels, c, channels);
                    prefetch_pixels::<L>(gradient.as_ptr(), end, channels, c, channels);
                    let (mut sum, mut product) = (L::splat(0.0), L::splat(0.0));
                    for pixel in start..end {
                        let offset = pixel * channels + c;
                        let y = load::<L>(values.as_ptr().add(offset), part);
                        let g = load::<L>(gradient.as_ptr().add(offset), part);
                        let dz = curve.backward::<L>(L::fma(y, scale, shift), g);
                        sum = L::add(sum, dz);
                        product = L::fma(dz, L::sub(y, centre), product);
                    }
                    store::<L>(sums.add(c), part, L::add(load::<L>(sums.add(c), part), sum));
                    store::<L>(products.add(c), part, L::add(load::<L>(products.add(c), part), product));
                    c += L::N;
                }
            }
        });
    }
}

/// Where a carried gradient goes.
#[derive(Debug)]
pub enum Carried<'a> {
    /// Over the gradient it came from.
    InPlace(&'a mut [f32]),
    /// From a gradient into another tensor.
    Into {
        /// Gradient of the derived value.
        gradient: &'a [f32],
        /// Receives the gradient of the stored value.
        target: &'a mut [f32],
        /// Add to what is there.
        accumulate: bool,
    },
}

/// A norm and activation as a gradient passes through them.
#[derive(Clone, Copy, Debug)]
pub struct Passage<'a> {
    /// The stored value below the norm.
    pub values: &'a [f32],
    /// Its norm.
    pub norm: NormTables<'a>,
    /// On top of it.
    pub activation: Activation,
    /// How the gradient passes the norm.
    pub through: ThroughTables<'a>,
}

impl<'a> Passage<'a> {
    /// The carried form of `gradient`.
    pub fn of(self, gradient: &'a [f32]) -> Source<'a> {
        let Self { values, norm, activation, through } = self;
        Source::Gradient { gradient, values, norm, activation, through }
    }
}

/// Carries a gradient through norm and activation.
///
/// # Panics
/// If a slice or the scratch is too short.
pub fn through_norm(
    isa: Isa,
    workers: &mut Workers,
    scratch: &mut Scratch,
    extent: Extent,
    passage: Passage,
    carried: Carried,
) {
    let Extent { images, pixels, channels } = extent;
    let (chunks, chunk) = pixel_chunks(extent);
    let (scratch, _) = scratch.split();
    let values_of = |run: PixelRun| Passage { values: &passage.values[run.first * channels..], ..passage };
    match carried {
        Carried::InPlace(gradient) => {
            passage.of(&*gradient).check(images, pixels, channels);
            let gradient = Shared::new(gradient);
            workers.each(chunks, |index, worker| {
                let run = chunk(index);
                // SAFETY: chunks do not overlap, and a worker runs one at a time.
                let (part, scratch) =
                    unsafe { (gradient.part(run.first * channels, run.count * channels), scratch.of(worker)) };
                let to = &mut scratch.floats[..part.len()];
                let local = PixelRun { first: 0, ..run };
                isa.run(Fill { source: values_of(run).of(&*part), run: local, to });
                part.copy_from_slice(to);
            });
        }
        Carried::Into { gradient, target, accumulate } => {
            let source = passage.of(gradient);
            source.check(images, pixels, channels);
            assert!(target.len() >= extent.len(), "target of {} < {}", target.len(), extent.len());
            let target = Shared::new(target);
            workers.each(chunks, |index, worker| {
                let run = chunk(index);
                // SAFETY: chunks do not overlap, and a worker runs one at a time.
                let (part, scratch) =
                    unsafe { (target.part(run.first * channels, run.count * channels), scratch.of(worker)) };
                if accumulate {
                    let more = &mut scratch.floats[..part.len()];
                    isa.run(Fill { source, run, to: more });
                    part.iter_mut().zip(more).for_each(|(to, more)| *to += *more);
                } else {
                    isa.run(Fill { source, run, to: part });
                }
            });
        }
    }
}

struct Fill<'a> {
    source: Source<'a>,
    run: PixelRun,
    to: &'a mut [f32],
}

impl Task for Fill<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<L: Lanes>(self) {
        // SAFETY: `through_norm` checked the source, and `to` has the run's length.
        unsafe { self.source.fill::<L>(self.run, self.to.as_mut_ptr(), self.run.channels) }
    }
}
