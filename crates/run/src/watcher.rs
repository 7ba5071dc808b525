/// Hears how far a run has come. All methods may be left alone.
pub trait Watcher {
    /// `images` of `total` were predicted by the source model.
    fn predicted(&mut self, images: usize, total: usize) {
        let _ = (images, total);
    }
    /// Adaptation made `step` of `total` steps.
    fn step(&mut self, step: usize, total: usize) {
        let _ = (step, total);
    }
    /// Cell number `cell` of `total`, called `name`, begins.
    fn cell(&mut self, name: &str, cell: usize, total: usize) {
        let _ = (name, cell, total);
    }
}

/// A watcher that does not care.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unwatched;

impl Watcher for Unwatched {}
