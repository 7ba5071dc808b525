//! What a kernel reads: a stored value, one derived from it, or a gradient carried through a norm.

use crate::activation::{Curve, with_curve};
use crate::lanes::{Lanes, Task, load, store, vectors};
use crate::walk::Soon;
use flipcast_graph::Activation;

/// Scale and shift that turn a stored value into its normalised form, per channel or per image and channel.
#[derive(Clone, Copy, Debug)]
pub struct NormTables<'a> {
    /// `scale * value + shift`.
    pub scale: &'a [f32],
    /// See `scale`.
    pub shift: &'a [f32],
    /// Whether each image has a row of its own in every table.
    pub per_image: bool,
}

/// Tables that carry a gradient through a norm: `slope * dz + pull * value + constant`.
#[derive(Clone, Copy, Debug)]
pub struct ThroughTables<'a> {
    /// Factor of the gradient after the activation.
    pub slope: &'a [f32],
    /// Factor of the stored value: the part that flows through the variance.
    pub pull: &'a [f32],
    /// The part that flows through the mean.
    pub constant: &'a [f32],
}

/// A tensor as a kernel reads it, channels-last.
#[derive(Clone, Copy, Debug)]
pub enum Source<'a> {
    /// The numbers themselves.
    Plain(&'a [f32]),
    /// `activation(scale * value + shift)`.
    Normed {
        /// The stored value.
        values: &'a [f32],
        /// Its norm.
        norm: NormTables<'a>,
        /// On top of it.
        activation: Activation,
    },
    /// The gradient of a stored value, from the gradient of `activation(norm(value))`.
    Gradient {
        /// Gradient of the derived value.
        gradient: &'a [f32],
        /// The stored value.
        values: &'a [f32],
        /// Its norm.
        norm: NormTables<'a>,
        /// On top of it.
        activation: Activation,
        /// How the gradient passes the norm.
        through: ThroughTables<'a>,
    },
}

/// A run of pixels to read: `count` pixels from `first`, `step` apart, of the channels `channel..channel + width`.
#[derive(Clone, Copy)]
pub(crate) struct PixelRun {
    /// Position of the first pixel in the whole batch.
    pub first: usize,
    pub step: usize,
    pub count: usize,
    /// The image all of them belong to; only tables with a row per image look at it.
    pub image: usize,
    pub channel: usize,
    pub width: usize,
    /// Channels of the tensor.
    pub channels: usize,
}

impl PixelRun {
    /// `count` consecutive pixels of `image` from `first` on, with all their channels.
    #[inline(always)]
    pub fn whole(image: usize, first: usize, count: usize, channels: usize) -> Self {
        Self { first, step: 1, count, image, channel: 0, width: channels, channels }
    }

    /// Where the run's `i`-th pixel starts in the tensor.
    #[inline(always)]
    fn offset(&self, i: usize) -> usize {
        (self.first + i * self.step) * self.channels + self.channel
    }

    /// The floats of consecutive pixels with all their channels.
    pub fn floats(&self) -> std::ops::Range<usize> {
        self.first * self.channels..(self.first + self.count) * self.channels
    }
}

impl Source<'_> {
    /// Panics unless every slice fits `images` images of `pixels` x `channels`.
    pub(crate) fn check(&self, images: usize, pixels: usize, channels: usize) {
        let len = images * pixels * channels;
        let tables = |norm: &NormTables| {
            if norm.per_image { images * channels } else { channels }
        };
        match self {
            Self::Plain(values) => {
                assert!(values.len() >= len, "source of {} < {len}", values.len())
            }
            Self::Normed { values, norm, .. } => {
                let rows = tables(norm);
                assert!(values.len() >= len, "source of {} < {len}", values.len());
                assert!(norm.scale.len() >= rows && norm.shift.len() >= rows, "norm tables too short");
            }
            Self::Gradient { gradient, values, norm, through, .. } => {
                let rows = tables(norm);
                assert!(values.len() >= len && gradient.len() >= len, "gradient source < {len}");
                let all = [norm.scale, norm.shift, through.slope, through.pull, through.constant];
                assert!(all.iter().all(|table| table.len() >= rows), "norm tables too short");
            }
        }
    }

    /// What reading these floats touches.
    pub(crate) fn soon(&self, floats: std::ops::Range<usize>) -> Soon {
        match self {
            Self::Plain(values) | Self::Normed { values, .. } => Soon::one(&values[floats]),
            Self::Gradient { gradient, values, .. } => Soon::two(&gradient[floats.clone()], &values[floats]),
        }
    }

    /// Writes the run to `to`, pixels `stride` floats apart.
    ///
    /// # Safety
    /// The source passed `check` for a batch that holds the run, and `to` is valid for it.
    #[inline(always)]
    pub(crate) unsafe fn fill<L: Lanes>(&self, run: PixelRun, to: *mut f32, stride: usize) {
        // SAFETY: the caller's promise.
        unsafe { L::vectorize(Fill { source: *self, run, to, stride }) }
    }
}

/// A run to write out, pixels `stride` floats apart. Compiled as a function of its own for each instruction
/// set, so that callers stay small.
#[derive(Clone, Copy)]
pub(crate) struct Fill<'a> {
    pub source: Source<'a>,
    pub run: PixelRun,
    pub to: *mut f32,
    pub stride: usize,
}

impl Task for Fill<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<L: Lanes>(self) {
        let run = self.run;
        // SAFETY: offsets stay inside the slices by the promise of `Source::fill`'s caller.
        unsafe {
            match self.source {
                Source::Plain(values) => self.plain::<L>(values.as_ptr()),
                Source::Normed { values, norm, activation } => {
                    let row = if norm.per_image { run.image * run.channels } else { 0 };
                    let tables = [norm.scale, norm.shift].map(|table| table.as_ptr().add(row + run.channel));
                    with_curve!(activation, curve => self.normed::<L, _>(values.as_ptr(), tables, curve));
                }
                Source::Gradient { gradient, values, norm, activation, through } => {
                    let row = if norm.per_image { run.image * run.channels } else { 0 };
                    let tables = [norm.scale, norm.shift, through.slope, through.pull, through.constant]
                        .map(|table| table.as_ptr().add(row + run.channel));
                    with_curve!(activation, curve => {
                        self.gradient::<L, _>(gradient.as_ptr(), values.as_ptr(), tables, curve);
                    });
                }
            }
        }
    }
}

impl Fill<'_> {
    #[inline(always)]
    unsafe fn plain<L: Lanes>(self, values: *const f32) {
        let Self { run, to, stride, .. } = self;
        // SAFETY: see `Source::fill`.
        unsafe {
            if run.step == 1 && run.width == run.channels && stride == run.width {
                let from = values.add(run.first * run.channels);
                std::ptr::copy_nonoverlapping(from, to, run.count * run.channels);
                return;
            }
            for i in 0..run.count {
                let from = values.add(run.offset(i));
                let to = to.add(i * stride);
                for (c, part) in vectors::<L>(run.width) {
                    store::<L>(to.add(c), part, load::<L>(from.add(c), part));
                }
            }
        }
    }

    #[inline(always)]
    unsafe fn normed<L: Lanes, C: Curve>(self, values: *const f32, [scale, shift]: [*const f32; 2], curve: C) {
        let Self { run, to, stride, .. } = self;
        // SAFETY: see `Source::fill`.
        unsafe {
            for i in 0..run.count {
                let from = values.add(run.offset(i));
                let to = to.add(i * stride);
                for (c, part) in vectors::<L>(run.width) {
                    let y = load::<L>(from.add(c), part);
                    let z = L::fma(y, load::<L>(scale.add(c), part), load::<L>(shift.add(c), part));
                    store::<L>(to.add(c), part, curve.value::<L>(z));
                }
            }
        }
    }

    #[inline(always)]
    unsafe fn gradient<L: Lanes, C: Curve>(
        self,
        gradient: *const f32,
        values: *const f32,
        [scale, shift, slope, pull, constant]: [*const f32; 5],
        curve: C,
    ) {
        let Self { run, to, stride, .. } = self;
        // SAFETY: see `Source::fill`.
        unsafe {
            for i in 0..run.count {
                let (g, y) = (gradient.add(run.offset(i)), values.add(run.offset(i)));
                let to = to.add(i * stride);
                for (c, part) in vectors::<L>(run.width) {
                    let (scale, shift) = (load::<L>(scale.add(c), part), load::<L>(shift.add(c), part));
                    let (slope, pull) = (load::<L>(slope.add(c), part), load::<L>(pull.add(c), part));
                    let constant = load::<L>(constant.add(c), part);
                    let (g, y) = (load::<L>(g.add(c), part), load::<L>(y.add(c), part));
                    let dz = curve.backward::<L>(L::fma(y, scale, shift), g);
                    store::<L>(to.add(c), part, L::fma(slope, dz, L::fma(pull, y, constant)));
                }
            }
        }
    }
}
