//! Convolutions with frozen weights, forward and backward to their input.
//!
//! Both directions are the same computation with other taps: see [`pass`]. Four algorithms share the fill that reads
//! the input (with norm and activation folded in) and the sink that writes the output (with statistics gathered):
//! pointwise (1x1), Winograd (3x3), depthwise, and direct for everything else.

mod chunks;
mod depthwise;
mod direct;
mod pass;
mod pointwise;
#[cfg(test)]
mod tests;
mod window;
mod winograd;

use crate::isa::Isa;
use crate::totals::PARTIAL_ROWS;
use crate::{Scratch, Sink, Source, Workers};
use pass::Pass;

/// Extents and settings of a convolution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConvShape {
    /// Rows and columns of the input.
    pub input: [usize; 2],
    /// Channels of the input.
    pub in_channels: usize,
    /// Rows and columns of the output.
    pub output: [usize; 2],
    /// Channels of the output.
    pub out_channels: usize,
    /// Rows and columns of the filter.
    pub kernel: [usize; 2],
    /// Step between outputs.
    pub stride: usize,
    /// Zeros above and left of the input.
    pub padding: [usize; 2],
    /// Distance between filter taps.
    pub dilation: usize,
    /// Groups of channels.
    pub groups: usize,
}

/// Which algorithms may be chosen. The choice depends on the shape alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Exactness {
    /// Also Winograd, whose rounding errors are about three times those of a direct sum.
    #[default]
    Fast,
    /// Only direct sums of products.
    Direct,
    /// Direct sums in double precision: many times slower, to tell rounding from mistakes.
    Double,
}

/// A convolution ready to run: weights packed, algorithm chosen.
#[derive(Debug)]
pub struct Conv {
    isa: Isa,
    pass: Pass,
    algorithm: Algorithm,
}

#[derive(Debug)]
enum Algorithm {
    Pointwise(pointwise::Pointwise),
    Winograd(winograd::Winograd),
    Depthwise(depthwise::Depthwise),
    Direct(direct::Direct),
}

impl Conv {
    /// The convolution from input to output. `weights` are `[out][in / groups][row][column]`.
    pub fn forward(isa: Isa, shape: &ConvShape, weights: &[f32], exactness: Exactness) -> Self {
        Self::new(isa, Pass::forward(shape), weights, exactness)
    }

    /// The map from the gradient of the output to the gradient of the input. `weights` as for `forward`.
    pub fn backward(isa: Isa, shape: &ConvShape, weights: &[f32], exactness: Exactness) -> Self {
        Self::new(isa, Pass::backward(shape), weights, exactness)
    }

    fn new(isa: Isa, pass: Pass, weights: &[f32], exactness: Exactness) -> Self {
        assert_eq!(
            weights.len(),
            pass.weights_len(),
            "weights of the wrong length"
        );
        let algorithm = if pass.is_depthwise() {
            Algorithm::Depthwise(depthwise::Depthwise::new(isa, &pass, weights))
        } else if pass.is_pointwise() {
            Algorithm::Pointwise(pointwise::Pointwise::new(isa, &pass, weights, exactness))
        } else if exactness == Exactness::Fast && winograd::Winograd::fits(&pass) {
            Algorithm::Winograd(winograd::Winograd::new(isa, &pass, weights))
        } else {
            Algorithm::Direct(direct::Direct::new(isa, &pass, weights, exactness))
        };
        Self {
            isa,
            pass,
            algorithm,
        }
    }

    /// The algorithm's name, for protocols and plans.
    pub fn algorithm(&self) -> &'static str {
        match self.algorithm {
            Algorithm::Pointwise(_) => "pointwise",
            Algorithm::Winograd(_) => "winograd",
            Algorithm::Depthwise(_) => "depthwise",
            Algorithm::Direct(_) => "direct",
        }
    }

    /// Floats of scratch per worker.
    pub fn scratch_floats(&self) -> usize {
        match &self.algorithm {
            Algorithm::Pointwise(a) => a.scratch_floats(),
            Algorithm::Winograd(a) => a.scratch_floats(),
            Algorithm::Depthwise(a) => a.scratch_floats(),
            Algorithm::Direct(a) => a.scratch_floats(),
        }
    }

    /// Row offsets of scratch per worker.
    pub fn scratch_offsets(&self) -> usize {
        match &self.algorithm {
            Algorithm::Pointwise(a) => a.scratch_offsets(),
            Algorithm::Winograd(a) => a.scratch_offsets(),
            Algorithm::Depthwise(_) => 0,
            Algorithm::Direct(a) => a.scratch_offsets(),
        }
    }

    /// Partial sums needed to gather from a batch of `images`.
    pub fn partials(&self, images: usize) -> usize {
        let chunks = match &self.algorithm {
            Algorithm::Pointwise(a) => a.chunks(images),
            Algorithm::Winograd(a) => a.chunks(images),
            Algorithm::Depthwise(a) => a.chunks(images),
            Algorithm::Direct(a) => a.chunks(images),
        };
        chunks * PARTIAL_ROWS * self.pass.target.channels
    }

    /// Bytes of packed weights.
    pub fn weight_bytes(&self) -> usize {
        match &self.algorithm {
            Algorithm::Pointwise(a) => a.weight_bytes(),
            Algorithm::Winograd(a) => a.weight_bytes(),
            Algorithm::Depthwise(a) => a.weight_bytes(),
            Algorithm::Direct(a) => a.weight_bytes(),
        }
    }

    /// Runs it on `images` images.
    ///
    /// # Panics
    /// If a slice is too short for the batch, or the scratch for this convolution.
    pub fn run(
        &self,
        workers: &mut Workers,
        scratch: &mut Scratch,
        images: usize,
        source: Source,
        sink: Sink,
    ) {
        source.check(images, self.pass.source.pixels(), self.pass.source.channels);
        match &self.algorithm {
            Algorithm::Pointwise(a) => {
                a.run(self.isa, &self.pass, workers, scratch, images, source, sink)
            }
            Algorithm::Winograd(a) => {
                a.run(self.isa, &self.pass, workers, scratch, images, source, sink)
            }
            Algorithm::Depthwise(a) => {
                a.run(self.isa, &self.pass, workers, scratch, images, source, sink)
            }
            Algorithm::Direct(a) => {
                a.run(self.isa, &self.pass, workers, scratch, images, source, sink)
            }
        }
    }
}
