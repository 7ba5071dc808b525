//! Gradients at norms: their sums, and the gradient carried through.

use crate::activation::{Curve, with_curve};
use crate::extent::{Extent, pixel_chunks};
use crate::lanes::{Lanes, Task, load, store, vectors};
use crate::shared::Shared;
use crate::source::{Fill, NormTables, PixelRun, Source, ThroughTables};
use crate::totals::{Totals, reduce};
use crate::walk::{SHORT_SUM, prefetch_pixels};
use crate::{Target, Team};
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
pub fn norm_sums(team: &mut Team, extent: Extent, input: NormGradient, sum: &mut [f32], product: &mut [f32]) {
    let Extent { images, pixels, channels } = extent;
    let NormGradient { gradient, values, norm, activation, centre } = input;
    let rows = if norm.per_image { images } else { 1 } * channels;
    assert!(gradient.len() >= extent.len() && values.len() >= extent.len(), "gradient too short");
    let tables = [norm.scale, norm.shift, centre];
    let lens = tables.map(<[f32]>::len).into_iter().chain([sum.len(), product.len()]);
    assert!(lens.min() >= Some(rows), "norm tables too short");
    let isa = team.isa();
    let add_up = |run: PixelRun, sum: &mut [f32], product: &mut [f32]| {
        let row = if norm.per_image { run.image * channels } else { 0 };
        let (gradient, values) = (&gradient[run.floats()], &values[run.floats()]);
        let tables = tables.map(|table| &table[row..]);
        isa.run(Sums { gradient, values, tables, activation, channels, sum, product });
    };
    if norm.per_image {
        let (sum, product) = (Shared::new(sum), Shared::new(product));
        team.each(images, |image, _| {
            // SAFETY: every image has rows of its own.
            let to = unsafe { (sum.part(image * channels, channels), product.part(image * channels, channels)) };
            add_up(PixelRun::whole(image, image * pixels, pixels, channels), to.0, to.1);
        });
        return;
    }
    reduce(team, extent, [Totals::Sums { sum, product }, Totals::Nothing], |run, [partial, _]| {
        let (sum, product) = partial[..2 * channels].split_at_mut(channels);
        add_up(run, sum, product);
    });
}

struct Sums<'a> {
    gradient: &'a [f32],
    values: &'a [f32],
    tables: [&'a [f32]; 3],
    activation: Activation,
    channels: usize,
    sum: &'a mut [f32],
    product: &'a mut [f32],
}

impl Task for Sums<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<L: Lanes>(self) {
        let Self { gradient, values, tables, activation, channels, .. } = self;
        let count = gradient.len() / channels;
        let [scale, shift, centre] = tables;
        // SAFETY: slices were cut to `count` pixels, tables hold a row from their start on.
        with_curve!(activation, curve => unsafe {
            let (sums, products) = (self.sum.as_mut_ptr(), self.product.as_mut_ptr());
            std::ptr::write_bytes(sums, 0, channels);
            std::ptr::write_bytes(products, 0, channels);
            for start in (0..count).step_by(SHORT_SUM) {
                let end = count.min(start + SHORT_SUM);
                for (c, part) in vectors::<L>(channels) {
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
                }
            }
        });
    }
}

/// A gradient to carry through a norm, and where it goes.
#[derive(Debug)]
pub enum Carried<'a> {
    /// Over the gradient it came from.
    InPlace(&'a mut [f32]),
    /// From a gradient into another tensor.
    Into {
        /// Gradient of the derived value.
        gradient: &'a [f32],
        /// Receives the gradient of the stored value.
        target: Target<'a>,
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
    /// `gradient` as a kernel reads it behind norm and activation.
    pub fn source(self, gradient: &'a [f32]) -> Source<'a> {
        let Self { values, norm, activation, through } = self;
        Source::Gradient { gradient, values, norm, activation, through }
    }
}

/// Carries a gradient through norm and activation.
///
/// # Panics
/// If a slice or the scratch is too short.
pub fn through_norm(team: &mut Team, extent: Extent, passage: Passage, carried: Carried) {
    let Extent { images, pixels, channels } = extent;
    let (chunks, chunk) = pixel_chunks(extent);
    let isa = team.isa();
    let fill = |source: Source, run: PixelRun, to: &mut [f32]| {
        isa.run(Fill { source, run, to: to.as_mut_ptr(), stride: channels });
    };
    match carried {
        Carried::InPlace(gradient) => {
            passage.source(&*gradient).check(images, pixels, channels);
            let gradient = Shared::new(gradient);
            team.each(chunks, |index, scratch| {
                let run = chunk(index);
                // SAFETY: chunks do not overlap.
                let part = unsafe { gradient.part(run.first * channels, run.count * channels) };
                let to = &mut scratch.floats[..part.len()];
                let local = Passage { values: &passage.values[run.first * channels..], ..passage };
                fill(local.source(&*part), PixelRun { first: 0, ..run }, to);
                part.copy_from_slice(to);
            });
        }
        Carried::Into { gradient, target: Target { values: target, accumulate } } => {
            let source = passage.source(gradient);
            source.check(images, pixels, channels);
            assert!(target.len() >= extent.len(), "target of {} < {}", target.len(), extent.len());
            let target = Shared::new(target);
            team.each(chunks, |index, scratch| {
                let run = chunk(index);
                // SAFETY: chunks do not overlap.
                let part = unsafe { target.part(run.first * channels, run.count * channels) };
                if accumulate {
                    let more = &mut scratch.floats[..part.len()];
                    fill(source, run, more);
                    part.iter_mut().zip(more).for_each(|(to, more)| *to += *more);
                } else {
                    fill(source, run, part);
                }
            });
        }
    }
}
