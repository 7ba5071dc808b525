use flipcast_run::Watcher;

/// Hears how far a study has come, from several threads at once. All methods may be left alone.
pub trait StudyWatcher: Sync {
    /// There are this many cells, those of calibrations included.
    fn total(&self, cells: usize) {
        let _ = cells;
    }
    /// A cell is known; `worked` if it was not already there.
    fn finished(&self, name: &str, worked: bool) {
        let _ = (name, worked);
    }
    /// A cell could not be made.
    fn failed(&self, name: &str, problem: &str) {
        let _ = (name, problem);
    }
    /// A cell is at `done` of `total` images or steps.
    fn within(&self, name: &str, what: &'static str, done: usize, total: usize) {
        let _ = (name, what, done, total);
    }
}

/// A watcher that does not care.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unseen;

impl StudyWatcher for Unseen {}

/// Passes on what happens within one cell.
pub(crate) struct Within<'a> {
    pub watcher: &'a dyn StudyWatcher,
    pub name: &'a str,
}

impl Watcher for Within<'_> {
    fn predicted(&mut self, images: usize, total: usize) {
        self.watcher.within(self.name, "images", images, total);
    }

    fn step(&mut self, step: usize, total: usize) {
        self.watcher.within(self.name, "steps", step, total);
    }
}
