//! What a kernel reads: a stored value, one derived from it, or a gradient carried through a norm.

use crate::activation::{Curve, with_curve};
use crate::lanes::{Lanes, Task, load, store};
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

    /// Writes the run to `to`, pixels `stride` floats apart.
    ///
    /// # Safety
    /// The source passed `check` for a batch that holds the run, and `to` is valid for it.
    #[inline(always)]
    pub(crate) unsafe fn fill<L: Lanes>(&self, run: PixelRun, to: *mut f32, stride: usize) {
        // SAFETY: handed on.
        unsafe { L::vectorize(Fill { source: *self, run, to, stride }) }
    }
}

/// A run to write out. A function of its own for each instruction set: callers stay small.
struct Fill<'a> {
    source: Source<'a>,
    run: PixelRun,
    to: *mut f32,
    stride: usize,
}

impl Task for Fill<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<L: Lanes>(self) {
        let Self { source, run, to, stride } = self;
        // SAFETY: offsets stay inside the slices by the promise of `Source::fill`'s caller.
        unsafe {
            match source {
                Source::Plain(values) => fill_plain::<L>(values.as_ptr(), run, to, stride),
                Source::Normed { values, norm, activation } => {
                    let row = if norm.per_image { run.image * run.channels } else { 0 };
                    let (scale, shift) = (norm.scale.as_ptr().add(row), norm.shift.as_ptr().add(row));
                    with_curve!(activation, curve => {
                        fill_normed::<L, _>(values.as_ptr(), scale, shift, curve, run, to, stride);
                    });
                }
                Source::Gradient { gradient, values, norm, activation, through } => {
                    let row = if norm.per_image { run.image * run.channels } else { 0 };
                    let tables = GradientTables {
                        scale: norm.scale.as_ptr().add(row),
                        shift: norm.shift.as_ptr().add(row),
                        slope: through.slope.as_ptr().add(row),
                        pull: through.pull.as_ptr().add(row),
                        constant: through.constant.as_ptr().add(row),
                    };
                    with_curve!(activation, curve => {
                        fill_gradient::<L, _>(
                            gradient.as_ptr(), values.as_ptr(), tables, curve, run, to, stride,
                        );
                    });
                }
            }
        }
    }
}

#[derive(Clone, Copy)]
struct GradientTables {
    scale: *const f32,
    shift: *const f32,
    slope: *const f32,
    pull: *const f32,
    constant: *const f32,
}

#[inline(always)]
unsafe fn fill_plain<L: Lanes>(values: *const f32, run: PixelRun, to: *mut f32, stride: usize) {
    // SAFETY: see `Source::fill`.
    unsafe {
        if run.step == 1 && run.width == run.channels && stride == run.width {
            let from = values.add(run.first * run.channels);
            std::ptr::copy_nonoverlapping(from, to, run.count * run.channels);
            return;
        }
        for i in 0..run.count {
            let from = values.add((run.first + i * run.step) * run.channels + run.channel);
            let to = to.add(i * stride);
            let mut c = 0;
            while c < run.width {
                let part = L::N.min(run.width - c);
                store::<L>(to.add(c), part, load::<L>(from.add(c), part));
                c += L::N;
            }
        }
    }
}

#[inline(always)]
unsafe fn fill_normed<L: Lanes, C: Curve>(
    values: *const f32,
    scale: *const f32,
    shift: *const f32,
    curve: C,
    run: PixelRun,
    to: *mut f32,
    stride: usize,
) {
    // SAFETY: see `Source::fill`.
    unsafe {
        let (scale, shift) = (scale.add(run.channel), shift.add(run.channel));
        for i in 0..run.count {
            let from = values.add((run.first + i * run.step) * run.channels + run.channel);
            let to = to.add(i * stride);
            let mut c = 0;
            while c < run.width {
                let part = L::N.min(run.width - c);
                let y = load::<L>(from.add(c), part);
                let z = L::fma(y, load::<L>(scale.add(c), part), load::<L>(shift.add(c), part));
                store::<L>(to.add(c), part, curve.value::<L>(z));
                c += L::N;
            }
        }
    }
}

#[inline(always)]
unsafe fn fill_gradient<L: Lanes, C: Curve>(
    gradient: *const f32,
    values: *const f32,
    tables: GradientTables,
    curve: C,
    run: PixelRun,
    to: *mut f32,
    stride: usize,
) {
    // SAFETY: see `Source::fill`.
    unsafe {
        for i in 0..run.count {
            let offset = (run.first + i * run.step) * run.channels + run.channel;
            let (g, y, to) = (gradient.add(offset), values.add(offset), to.add(i * stride));
            let mut c = 0;
            while c < run.width {
                let part = L::N.min(run.width - c);
                let at = run.channel + c;
                let tables = [
                    load::<L>(tables.scale.add(at), part),
                    load::<L>(tables.shift.add(at), part),
                    load::<L>(tables.slope.add(at), part),
                    load::<L>(tables.pull.add(at), part),
                    load::<L>(tables.constant.add(at), part),
                ];
                let v = through::<L, C>(load::<L>(g.add(c), part), load::<L>(y.add(c), part), curve, tables);
                store::<L>(to.add(c), part, v);
                c += L::N;
            }
        }
    }
}

/// The gradient `g` of `curve(norm(y))` carried to `y`; tables in the order scale, shift, slope, pull, constant.
#[inline(always)]
pub(crate) unsafe fn through<L: Lanes, C: Curve>(g: L::V, y: L::V, curve: C, tables: [L::V; 5]) -> L::V {
    let [scale, shift, slope, pull, constant] = tables;
    // SAFETY: the caller vouches for the instruction set.
    unsafe {
        let dz = curve.backward::<L>(L::fma(y, scale, shift), g);
        L::fma(slope, dz, L::fma(pull, y, constant))
    }
}
