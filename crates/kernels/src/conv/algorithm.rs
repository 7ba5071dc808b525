//! What the algorithms of a convolution have in common.

use super::chunks::Chunk;
use super::pass::Pass;
use crate::isa::Isa;
use crate::sink::{OutRun, SharedSink};
use crate::team::Scratch;
use crate::{ScratchSize, Source};
use std::fmt::Debug;

/// One way to compute a pass, with its weights packed.
pub(super) trait Algorithm: Debug + Send + Sync {
    /// Its name, for protocols and plans.
    fn name(&self) -> &'static str;
    /// Scratch per thread.
    fn scratch(&self) -> ScratchSize;
    /// Bytes of packed weights.
    fn weight_bytes(&self) -> usize;
    /// Chunks of a batch of `images`.
    fn chunks(&self, images: usize) -> usize;
    /// Target pixels that chunk number `index` computes.
    fn chunk_pixels(&self, index: usize, images: usize) -> usize;
    /// Whether every target pixel is written; others are left as they were.
    fn covers_target(&self) -> bool {
        true
    }
    /// Computes one chunk.
    fn run(&self, isa: Isa, step: Step);
}

/// A chunk of a batch that an algorithm computes.
pub(super) struct Step<'a> {
    pub pass: &'a Pass,
    pub images: usize,
    /// Number of the chunk.
    pub index: usize,
    pub scratch: Scratch<'a>,
    pub source: Source<'a>,
    pub sink: &'a SharedSink<'a>,
}

impl Step<'_> {
    /// The finished pixels of `chunk`, `stride` floats apart.
    pub fn out_run(&self, chunk: Chunk, stride: usize) -> OutRun {
        let target = self.pass.target;
        OutRun {
            chunk: self.index,
            starts_chunk: true,
            first: (chunk.image * target.height + chunk.row) * target.width,
            step: 1,
            count: chunk.images * chunk.rows * target.width,
            stride,
            channel: 0,
            width: target.channels,
        }
    }
}
