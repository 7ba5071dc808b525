//! How far a study is, in one line.

use crate::progress::ProgressLine;
use crate::table::grouped;
use flipcast_study::StudyWatcher;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts cells and guesses the time left from those made so far.
pub struct StudyProgress {
    line: ProgressLine,
    total: AtomicUsize,
    done: AtomicUsize,
    skipped: AtomicUsize,
}

impl StudyProgress {
    pub fn new(line: ProgressLine) -> Self {
        Self { line, total: AtomicUsize::new(0), done: AtomicUsize::new(0), skipped: AtomicUsize::new(0) }
    }

    fn tell(&self, doing: impl FnOnce() -> String) {
        let get = |count: &AtomicUsize| count.load(Ordering::Relaxed);
        let (done, total) = (get(&self.done), get(&self.total));
        self.line.show(|| {
            let left = self.line.left(done, get(&self.skipped), total);
            format!("{} of {} cells{left}; {}", grouped(done), grouped(total), doing())
        });
    }
}

impl StudyWatcher for StudyProgress {
    fn total(&self, cells: usize) {
        self.total.store(cells, Ordering::Relaxed);
    }

    fn finished(&self, name: &str, worked: bool) {
        self.done.fetch_add(1, Ordering::Relaxed);
        if !worked {
            self.skipped.fetch_add(1, Ordering::Relaxed);
        }
        self.tell(|| name.to_owned());
    }

    fn failed(&self, name: &str, problem: &str) {
        self.done.fetch_add(1, Ordering::Relaxed);
        self.skipped.fetch_add(1, Ordering::Relaxed);
        self.line.tell(&format!("failed: {name}: {problem}"));
    }

    fn within(&self, name: &str, what: &'static str, done: usize, total: usize) {
        self.tell(|| format!("{name}: {} of {} {what}", grouped(done), grouped(total)));
    }
}
