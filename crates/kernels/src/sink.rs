//! Where a convolution's result goes, and what is gathered on the way while it is still in cache.

use crate::extent::Extent;
use crate::finish::Finish;
use crate::gemm::{Place, Store};
use crate::join_backward::{JoinGradient, SharedJoin};
use crate::lanes::Lanes;
use crate::shared::Shared;
use crate::source::NormTables;
use crate::totals::{Partials, Totals};
use crate::walk::STREAM_FROM;
use flipcast_graph::Activation;

/// The result of a convolution.
#[derive(Debug)]
pub struct Sink<'a> {
    /// The tensor.
    pub out: &'a mut [f32],
    /// Add to what is there instead of overwriting it.
    pub accumulate: bool,
    /// Added per channel.
    pub bias: Option<&'a [f32]>,
    /// What is gathered from the result.
    pub gather: Gather<'a>,
}

/// What is gathered from a tensor while it is written.
#[derive(Debug)]
pub enum Gather<'a> {
    /// Nothing.
    Nothing,
    /// Mean and biased variance per channel.
    Statistics {
        /// Receives the means.
        mean: &'a mut [f64],
        /// Receives the variances.
        variance: &'a mut [f64],
    },
    /// The result is the gradient of `activation(norm(values))`. The tensor receives `dz`, the gradient below the activation,
    /// whose slope is thus computed once; gathered are sums of `dz` and of `dz * (value - centre)` per channel.
    Sums {
        /// The stored value below the norm.
        values: &'a [f32],
        /// Its norm, with one row of tables.
        norm: NormTables<'a>,
        /// On top of it.
        activation: Activation,
        /// Subtracted from the value: its mean.
        centre: &'a [f32],
        /// Receives the sums of `dz`.
        sum: &'a mut [f32],
        /// Receives the sums of `dz * (value - centre)`.
        product: &'a mut [f32],
    },
    /// The tensor is the complete gradient of a join.
    Join(JoinGradient<'a>),
}

/// A sink as the workers of a region see it.
#[derive(Clone, Copy)]
pub(crate) struct SharedSink<'a> {
    pub out: Shared<'a, f32>,
    pub accumulate: bool,
    pub stream: bool,
    pub bias: Option<&'a [f32]>,
    pub gather: SharedGather<'a>,
    pub partials: Partials<'a>,
    pub channels: usize,
}

/// What the workers of a region see of a [`Gather`].
#[derive(Clone, Copy)]
pub(crate) enum SharedGather<'a> {
    Nothing,
    Statistics,
    Sums { values: &'a [f32], norm: NormTables<'a>, activation: Activation, centre: &'a [f32] },
    Join(SharedJoin<'a>),
}

/// A run of finished pixels.
#[derive(Clone, Copy)]
pub(crate) struct OutRun {
    /// Number of the chunk, whose partial sums these pixels join.
    pub chunk: usize,
    /// Whether these are the chunk's first pixels.
    pub starts_chunk: bool,
    /// First pixel in the whole batch, step between pixels, and their number.
    pub first: usize,
    pub step: usize,
    pub count: usize,
    /// Floats between pixels of the finished values.
    pub stride: usize,
    /// First channel of the finished values, and their number.
    pub channel: usize,
    pub width: usize,
}

impl<'a> Sink<'a> {
    /// What the workers see of a sink that receives a tensor of `extent` in `chunks` chunks, with their partial sums in
    /// `sums`; and where the merged sums go.
    ///
    /// # Panics
    /// If a slice is too short.
    pub(crate) fn share<'s>(
        self,
        extent: Extent,
        chunks: usize,
        sums: &'s mut [f32],
    ) -> (SharedSink<'s>, [Totals<'a>; 2])
    where
        'a: 's,
    {
        let (len, channels) = (extent.len(), extent.channels);
        assert!(self.out.len() >= len, "sink of {} < {len}", self.out.len());
        assert!(self.bias.is_none_or(|bias| bias.len() >= channels), "bias too short");
        let (gather, totals, count) = match self.gather {
            Gather::Nothing => (SharedGather::Nothing, [Totals::Nothing, Totals::Nothing], 0),
            Gather::Statistics { mean, variance } => {
                assert!(mean.len() >= channels && variance.len() >= channels, "statistics too short");
                (SharedGather::Statistics, [Totals::Statistics { mean, variance }, Totals::Nothing], 1)
            }
            Gather::Sums { values, norm, activation, centre, sum, product } => {
                assert!(!norm.per_image, "sums are gathered for norms with one row of tables");
                assert!(values.len() >= len, "values of {} < {len}", values.len());
                let tables = [norm.scale, norm.shift, centre, &*sum, &*product];
                assert!(tables.iter().all(|table| table.len() >= channels), "norm tables too short");
                let shared = SharedGather::Sums { values, norm, activation, centre };
                (shared, [Totals::Sums { sum, product }, Totals::Nothing], 1)
            }
            Gather::Join(join) => {
                let (join, totals) = join.share(extent);
                (SharedGather::Join(join), totals, join.count)
            }
        };
        let stream = !self.accumulate && len > STREAM_FROM && channels.is_multiple_of(16);
        let sink = SharedSink {
            stream: stream && self.out.as_ptr().align_offset(64) == 0,
            out: Shared::new(self.out),
            accumulate: self.accumulate,
            bias: self.bias,
            gather,
            partials: Partials::new(sums, chunks, channels, count),
            channels,
        };
        (sink, totals)
    }
}

impl SharedSink<'_> {
    /// Whether whole vectors of results may go straight to the tensor, because nothing is gathered from them; and how.
    pub fn direct<L: Lanes>(&self) -> Option<Store> {
        let gathers = match self.gather {
            SharedGather::Nothing => false,
            SharedGather::Join(join) => join.count > 0 || join.mask.is_some(),
            _ => true,
        };
        (!gathers && self.channels.is_multiple_of(L::N)).then(|| Store {
            accumulate: self.accumulate,
            bias: self.bias.map(<[f32]>::as_ptr),
            place: if self.stream { Place::Streamed } else { Place::Tensor },
        })
    }

    /// The tensor from pixel `first` to pixel `last`.
    ///
    /// # Safety
    /// No other worker handles pixels in between.
    pub unsafe fn pixels(&self, first: usize, last: usize) -> *mut f32 {
        let channels = self.channels;
        // SAFETY: the caller's promise.
        let part = unsafe { self.out.part(first * channels, (last + 1 - first) * channels) };
        part.as_mut_ptr()
    }

    /// Writes finished pixels to the tensor and gathers from them.
    ///
    /// # Safety
    /// `from` holds the run; no other worker handles its pixels or its chunk.
    #[inline(always)]
    pub unsafe fn finish<L: Lanes>(&self, from: *const f32, run: OutRun) {
        if run.count > 0 {
            // SAFETY: the caller's promise.
            unsafe { L::vectorize(Finish { sink: self, from, run }) };
        }
    }
}
