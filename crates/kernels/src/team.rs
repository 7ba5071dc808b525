//! Who runs a kernel, and in what memory.

use crate::shared::Shared;
use crate::{Buffer, Isa, Workers};

/// An instruction set, a team of threads, and the memory they work in. Every kernel takes one; none allocates.
#[derive(Debug)]
pub struct Team {
    isa: Isa,
    workers: Workers,
    floats: Vec<Buffer>,
    offsets: Vec<Vec<u32>>,
    partials: Buffer,
}

/// How much scratch memory a kernel needs. A team is made with the largest of all kernels it will run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScratchSize {
    /// Floats per thread.
    pub floats: usize,
    /// Row offsets per thread.
    pub offsets: usize,
    /// Partial sums of all chunks together.
    pub partials: usize,
}

impl ScratchSize {
    /// Enough for both.
    pub fn max(self, other: Self) -> Self {
        Self {
            floats: self.floats.max(other.floats),
            offsets: self.offsets.max(other.offsets),
            partials: self.partials.max(other.partials),
        }
    }
}

/// One thread's scratch memory.
pub(crate) struct Scratch<'a> {
    pub floats: &'a mut [f32],
    pub offsets: &'a mut [u32],
}

/// A team without its partial sums, which can thus be used beside it.
pub(crate) struct Crew<'a> {
    pub workers: &'a mut Workers,
    floats: &'a mut [Buffer],
    offsets: &'a mut [Vec<u32>],
}

impl Team {
    /// A team of `threads`, the caller included; 0 means one per available core.
    pub fn new(isa: Isa, threads: usize, scratch: ScratchSize) -> Self {
        let workers = Workers::new(threads);
        let count = workers.count();
        Self {
            isa,
            workers,
            floats: (0..count).map(|_| Buffer::zeroed(scratch.floats)).collect(),
            offsets: (0..count).map(|_| vec![0; scratch.offsets]).collect(),
            partials: Buffer::zeroed(scratch.partials),
        }
    }

    /// The instruction set.
    pub fn isa(&self) -> Isa {
        self.isa
    }

    /// Threads, the caller included.
    pub fn threads(&self) -> usize {
        self.workers.count()
    }

    /// Bytes of scratch memory.
    pub fn scratch_bytes(&self) -> usize {
        let floats: usize = self.floats.iter().map(|buffer| buffer.len()).sum();
        let offsets: usize = self.offsets.iter().map(Vec::len).sum();
        4 * (floats + offsets + self.partials.len())
    }

    /// The crew and the partial sums, to be used side by side.
    pub(crate) fn split(&mut self) -> (Crew<'_>, &mut [f32]) {
        let Self { workers, floats, offsets, partials, .. } = self;
        (Crew { workers, floats, offsets }, partials)
    }

    /// Calls `f(index, scratch)` for every index below `count`, each once, in any order and on any thread.
    pub(crate) fn each(&mut self, count: usize, f: impl Fn(usize, Scratch) + Sync) {
        self.split().0.each(count, f);
    }

    /// Calls `f(index, chunk)` for every chunk of `len` elements of `values`, of which the last may be shorter.
    pub(crate) fn each_chunk_mut<T: Send>(&mut self, values: &mut [T], len: usize, f: impl Fn(usize, &mut [T]) + Sync) {
        let total = values.len();
        let shared = Shared::new(values);
        self.workers.each(total.div_ceil(len.max(1)), |index, _| {
            let start = index * len;
            // SAFETY: chunks do not overlap.
            f(index, unsafe { shared.part(start, len.min(total - start)) });
        });
    }
}

impl Crew<'_> {
    /// As [`Team::each`].
    pub fn each(&mut self, count: usize, f: impl Fn(usize, Scratch) + Sync) {
        let (floats, offsets) = (Shared::new(self.floats), Shared::new(self.offsets));
        self.workers.each(count, |index, worker| {
            // SAFETY: a worker runs one index at a time, and its scratch goes back before the next.
            let scratch =
                unsafe { Scratch { floats: &mut floats.part(worker, 1)[0], offsets: &mut offsets.part(worker, 1)[0] } };
            f(index, scratch);
        });
    }
}

/// Cuts `floats` into consecutive parts.
pub(crate) fn cut<const N: usize>(mut floats: &mut [f32], lens: [usize; N]) -> [&mut [f32]; N] {
    lens.map(|len| {
        let (part, rest) = std::mem::take(&mut floats).split_at_mut(len);
        floats = rest;
        part
    })
}
