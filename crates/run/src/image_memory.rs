//! Memory that the images of several cells share.

use crate::RunError;
use crate::images::Images;
use flipcast_images::dataset::Dataset;
use flipcast_images::loader::LoaderConfig;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// A number of bytes that images of cells in flight hold at most, all together.
#[derive(Clone)]
pub struct ImageMemory(Arc<Shared>);

struct Shared {
    limit: usize,
    held: Mutex<usize>,
    /// Signalled when images are dropped.
    freed: Condvar,
}

/// Part of the memory, given back when dropped.
pub(crate) struct HeldMemory {
    shared: Arc<Shared>,
    bytes: usize,
}

impl ImageMemory {
    /// Room for `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self(Arc::new(Shared { limit, held: Mutex::new(0), freed: Condvar::new() }))
    }

    /// [`Images::open`] within what is left. Where images would fit but for others in flight, these are waited for: whether images
    /// are kept does not depend on the overlap.
    pub fn open(&self, dataset: &Arc<dyn Dataset>, config: &LoaderConfig) -> Result<Images, RunError> {
        let limit = self.0.limit;
        let held = *self.0.lock();
        let mut images = Images::open(Arc::clone(dataset), config.clone(), limit - held)?;
        if images.kept().is_none() && held > 0 {
            drop(self.0.freed.wait_while(self.0.lock(), |held| *held > 0));
            images = Images::open(Arc::clone(dataset), config.clone(), limit)?;
        }
        let bytes = images.kept().map_or(0, |kept| kept.bytes());
        *self.0.lock() += bytes;
        Ok(images.holding(HeldMemory { shared: Arc::clone(&self.0), bytes }))
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, usize> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for HeldMemory {
    fn drop(&mut self) {
        *self.shared.lock() -= self.bytes;
        self.shared.freed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::images::tests::Greys;
    use flipcast_images::preprocess::{Normalise, Preprocess};
    use std::time::Duration;

    #[test]
    fn images_that_do_not_fit_beside_others_wait_for_them_and_are_kept() {
        const SIZE: usize = 11 * 18;
        let config = LoaderConfig::new(Preprocess::normalise_only(Normalise::imagenet()));
        let dataset: Arc<dyn Dataset> = Arc::new(Greys(11));
        let open = |memory: &ImageMemory| memory.open(&dataset, &config).unwrap();
        let room_for_two = ImageMemory::new(2 * SIZE);
        let (first, second) = (open(&room_for_two), open(&room_for_two));
        assert!(first.kept().is_some() && second.kept().is_some());
        let room_for_one = ImageMemory::new(2 * SIZE - 1);
        let first = open(&room_for_one);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| open(&room_for_one));
            std::thread::sleep(Duration::from_millis(50));
            assert!(!waiting.is_finished());
            drop(first);
            assert!(waiting.join().unwrap().kept().is_some());
        });
        // Images that never fit are read anew, without waiting.
        let none = ImageMemory::new(SIZE - 1);
        assert!(open(&none).kept().is_none() && open(&none).kept().is_none());
        assert_eq!(*room_for_one.0.lock(), 0);
    }
}
