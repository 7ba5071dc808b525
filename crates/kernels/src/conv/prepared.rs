use super::algorithm::{Algorithm, Step};
use super::depthwise::Depthwise;
use super::direct::Direct;
use super::pass::Pass;
use super::pointwise::Pointwise;
use super::winograd::Winograd;
use super::{ConvShape, Exactness};
use crate::extent::Extent;
use crate::isa::Isa;
use crate::totals::{PARTIAL_ROWS, merge};
use crate::{ScratchSize, Sink, Source, Team};

/// A convolution ready to run: weights packed, algorithm chosen.
#[derive(Debug)]
pub struct Conv {
    isa: Isa,
    pass: Pass,
    algorithm: Box<dyn Algorithm>,
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
        let algorithm: Box<dyn Algorithm> = if pass.is_depthwise() {
            Box::new(Depthwise::new(&pass, weights))
        } else if pass.is_pointwise() {
            Box::new(Pointwise::new(isa, &pass, weights, exactness))
        } else if exactness == Exactness::Fast && Winograd::fits(&pass) {
            Box::new(Winograd::new(isa, &pass, weights))
        } else {
            Box::new(Direct::new(isa, &pass, weights, exactness))
        };
        Self { isa, pass, algorithm }
    }

    /// The algorithm's name, for protocols and plans.
    pub fn algorithm(&self) -> &'static str {
        self.algorithm.name()
    }

    /// Scratch for a batch of `images`, with partial sums for the two norms that a join may have below it.
    pub fn scratch(&self, images: usize) -> ScratchSize {
        let partials = 2 * self.algorithm.chunks(images) * PARTIAL_ROWS * self.pass.target.channels;
        ScratchSize { partials, ..self.algorithm.scratch() }
    }

    /// Bytes of packed weights.
    pub fn weight_bytes(&self) -> usize {
        self.algorithm.weight_bytes()
    }

    /// Runs it on `images` images.
    ///
    /// # Panics
    /// If a slice is too short for the batch, or the scratch for this convolution.
    pub fn run(&self, team: &mut Team, images: usize, source: Source, mut sink: Sink) {
        let Self { isa, pass, algorithm } = self;
        source.check(images, pass.source.pixels(), pass.source.channels);
        let channels = pass.target.channels;
        let extent = Extent { images, pixels: pass.target.pixels(), channels };
        if !algorithm.covers_target() && !sink.accumulate {
            // Pixels between the strides receive nothing; the others add to the zero.
            sink.out[..extent.len()].fill(0.0);
            sink.accumulate = true;
        }
        let chunks = algorithm.chunks(images);
        let (mut crew, sums) = team.split();
        let (sink, totals) = sink.share(extent, chunks, sums);
        crew.each(chunks, |index, scratch| {
            algorithm.run(*isa, Step { pass, images, index, scratch, source, sink: &sink });
        });
        merge(totals, crew.workers, sums, (chunks, channels), &|index| algorithm.chunk_pixels(index, images));
    }
}
