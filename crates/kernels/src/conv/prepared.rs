use super::call::Call;
use super::depthwise::Depthwise;
use super::direct::Direct;
use super::pass::Pass;
use super::pointwise::Pointwise;
use super::winograd::Winograd;
use super::{ConvShape, Exactness};
use crate::isa::Isa;
use crate::totals::PARTIAL_ROWS;
use crate::{Scratch, Sink, Source, Workers};

/// A convolution ready to run: weights packed, algorithm chosen.
#[derive(Debug)]
pub struct Conv {
    isa: Isa,
    pass: Pass,
    algorithm: Algorithm,
}

#[derive(Debug)]
enum Algorithm {
    Pointwise(Pointwise),
    Winograd(Winograd),
    Depthwise(Depthwise),
    Direct(Direct),
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
        assert_eq!(weights.len(), pass.weights_len(), "weights of the wrong length");
        let algorithm = if pass.is_depthwise() {
            Algorithm::Depthwise(Depthwise::new(isa, &pass, weights))
        } else if pass.is_pointwise() {
            Algorithm::Pointwise(Pointwise::new(isa, &pass, weights, exactness))
        } else if exactness == Exactness::Fast && Winograd::fits(&pass) {
            Algorithm::Winograd(Winograd::new(isa, &pass, weights))
        } else {
            Algorithm::Direct(Direct::new(isa, &pass, weights, exactness))
        };
        Self { isa, pass, algorithm }
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
    pub fn run(&self, workers: &mut Workers, scratch: &mut Scratch, images: usize, source: Source, sink: Sink) {
        source.check(images, self.pass.source.pixels(), self.pass.source.channels);
        let call = Call { isa: self.isa, pass: &self.pass, workers, scratch, images, source, sink };
        match &self.algorithm {
            Algorithm::Pointwise(a) => a.run(call),
            Algorithm::Winograd(a) => a.run(call),
            Algorithm::Depthwise(a) => a.run(call),
            Algorithm::Direct(a) => a.run(call),
        }
    }
}
