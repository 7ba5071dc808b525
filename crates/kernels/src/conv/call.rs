//! One run of a convolution, and its chunks on their way through an algorithm.

use super::chunks::{Chunk, Chunking};
use super::pass::Pass;
use crate::isa::Isa;
use crate::lanes::Task;
use crate::scratch::SharedScratch;
use crate::sink::{Region, SharedSink};
use crate::{Scratch, Sink, Source, Workers};

/// What a convolution is run with.
pub(super) struct Call<'a> {
    pub isa: Isa,
    pub pass: &'a Pass,
    pub workers: &'a mut Workers,
    pub scratch: &'a mut Scratch,
    pub images: usize,
    pub source: Source<'a>,
    pub sink: Sink<'a>,
}

/// A chunk of rows on its way through an algorithm.
pub(super) struct Step<'a, A> {
    pub algorithm: &'a A,
    pub pass: &'a Pass,
    pub scratch: SharedScratch<'a>,
    pub worker: usize,
    /// The chunk, and its number.
    pub chunk: Chunk,
    pub index: usize,
    pub source: Source<'a>,
    pub sink: &'a SharedSink<'a>,
}

impl Call<'_> {
    /// Runs the step of `algorithm` for every chunk of the batch.
    pub fn run_chunks<A: Sync>(self, algorithm: &A, chunking: Chunking)
    where
        for<'s> Step<'s, A>: Task<Output = ()>,
    {
        let Self { isa, pass, workers, scratch, images, source, sink } = self;
        let (scratch, partials) = scratch.split();
        let region = Region {
            pixels: images * pass.target.pixels(),
            channels: pass.target.channels,
            chunks: chunking.count(images),
            partials,
        };
        sink.receive(
            workers,
            region,
            |sink, index, worker| {
                isa.run(Step {
                    algorithm,
                    pass,
                    scratch,
                    worker,
                    chunk: chunking.get(index, images),
                    index,
                    source,
                    sink,
                });
            },
            |index| {
                let chunk = chunking.get(index, images);
                chunk.images * chunk.rows * pass.target.width
            },
        );
    }
}
