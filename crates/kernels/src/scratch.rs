use crate::Buffer;
use crate::shared::Shared;

/// Memory kernels work in: a part per worker, and room for per-chunk partial sums. Made once, used by every step.
#[derive(Debug)]
pub struct Scratch {
    floats: Vec<Buffer>,
    offsets: Vec<Vec<u32>>,
    partials: Buffer,
}

/// One worker's part.
pub(crate) struct WorkerScratch<'a> {
    pub floats: &'a mut [f32],
    pub offsets: &'a mut [u32],
}

/// All of a scratch, to hand to a region.
#[derive(Clone, Copy)]
pub(crate) struct SharedScratch<'a> {
    floats: Shared<'a, Buffer>,
    offsets: Shared<'a, Vec<u32>>,
}

impl Scratch {
    /// Room for `workers` workers with `floats` floats and `offsets` offsets each, and `partials` partial sums.
    pub fn new(workers: usize, floats: usize, offsets: usize, partials: usize) -> Self {
        Self {
            floats: (0..workers).map(|_| Buffer::zeroed(floats)).collect(),
            offsets: (0..workers).map(|_| vec![0; offsets]).collect(),
            partials: Buffer::zeroed(partials),
        }
    }

    /// Bytes it takes.
    pub fn bytes(&self) -> usize {
        let floats: usize = self.floats.iter().map(|buffer| buffer.len()).sum();
        let offsets: usize = self.offsets.iter().map(Vec::len).sum();
        4 * (floats + offsets + self.partials.len())
    }

    /// The workers' parts and the partial sums, at once.
    pub(crate) fn split(&mut self) -> (SharedScratch<'_>, &mut [f32]) {
        let shared = SharedScratch { floats: Shared::new(&mut self.floats), offsets: Shared::new(&mut self.offsets) };
        (shared, &mut self.partials)
    }
}

impl<'a> SharedScratch<'a> {
    /// The part of `worker`.
    ///
    /// # Safety
    /// No two threads may hold the same worker's part.
    pub unsafe fn of(&self, worker: usize) -> WorkerScratch<'a> {
        // SAFETY: the caller keeps workers apart.
        unsafe {
            WorkerScratch { floats: &mut self.floats.part(worker, 1)[0], offsets: &mut self.offsets.part(worker, 1)[0] }
        }
    }
}
