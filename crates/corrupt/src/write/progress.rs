//! How far a dataset is.

use std::fmt;

/// What is told after every finished output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Outputs that exist now, those of earlier runs included.
    pub done: usize,
    /// Outputs that were already there when this run came to them.
    pub skipped: usize,
    /// All outputs.
    pub total: usize,
}

/// How a dataset is written.
pub struct WriteOptions<'a> {
    /// Worker threads, at least 1. The files do not depend on it.
    pub threads: usize,
    /// Called from the worker threads.
    pub on_progress: &'a (dyn Fn(Progress) + Sync),
}

impl fmt::Debug for WriteOptions<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WriteOptions").field("threads", &self.threads).finish_non_exhaustive()
    }
}
