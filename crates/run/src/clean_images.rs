//! Clean images that several cells are made from, read once.

use crate::RunError;
use crate::images::{Images, Kept};
use flipcast_images::dataset::Dataset;
use flipcast_images::loader::{LoaderConfig, Transform};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// An image size to ask for a recipe with: whether a change has one depends on the size only for images it refuses.
const ANY_SIZE: [usize; 3] = [32, 32, 3];

/// Clean images by what they were read from. They stay for as long as a cell uses them, and the last ones until others are
/// asked for. An executor that can make a corruption itself gets the clean images, which it may have already, and its
/// description, instead of images that were read and corrupted anew.
#[derive(Default)]
pub struct CleanImages {
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    slots: Vec<Weak<Slot>>,
    last: Option<Arc<Slot>>,
}

/// Images that were read once, or are being read.
pub(crate) struct Slot {
    dataset: Arc<dyn Dataset>,
    config: LoaderConfig,
    memory_limit: usize,
    read: Mutex<Option<Read>>,
}

/// What came of reading.
struct Read {
    /// `None` if it takes too much memory to keep.
    kept: Option<Kept>,
    skipped: usize,
}

impl CleanImages {
    /// Images that are, or are made from, clean images read before; these are read now if they are not known. `None` where
    /// images must be read on their own: an executor cannot make the corruption, or clean images take more than `memory_limit`.
    pub fn open(
        &self,
        dataset: &Arc<dyn Dataset>,
        config: &LoaderConfig,
        memory_limit: usize,
    ) -> Result<Option<Images>, RunError> {
        let change = config.change.clone();
        if let Some(change) = &change
            && (change.recipe(ANY_SIZE).is_none() || config.preprocess.byte_scale().is_none())
        {
            return Ok(None);
        }
        let clean = LoaderConfig { change: None, ..config.clone() };
        let slot =
            self.slot(Slot { dataset: Arc::clone(dataset), config: clean, memory_limit, read: Mutex::new(None) });
        let mut read = lock(&slot.read);
        if read.is_none() {
            let images = Images::open(Arc::clone(dataset), slot.config.clone(), memory_limit)?;
            *read = Some(Read { skipped: images.skipped(), kept: images.kept().cloned() });
        }
        let derived = read.as_ref().and_then(|read| {
            let kept = read.kept.as_ref()?;
            let kept = match change {
                None => kept.clone(),
                Some(change) => kept.changed(change, &**dataset)?,
            };
            Some((kept, read.skipped))
        });
        drop(read);
        Ok(derived.map(|(kept, skipped)| Images::of_kept(Arc::clone(dataset), config.clone(), kept, skipped, slot)))
    }

    /// The slot of the same images, or else this one.
    fn slot(&self, wanted: Slot) -> Arc<Slot> {
        let mut known = lock(&self.known);
        known.slots.retain(|slot| slot.strong_count() > 0);
        let mut slots = known.slots.iter().filter_map(Weak::upgrade);
        let found = slots.find(|slot| slot.is_of(&wanted));
        drop(slots);
        let slot = found.unwrap_or_else(|| Arc::new(wanted));
        known.slots.push(Arc::downgrade(&slot));
        known.last = Some(Arc::clone(&slot));
        slot
    }
}

impl Slot {
    /// Whether both give the same images.
    fn is_of(&self, other: &Self) -> bool {
        let (a, b) = (&self.config, &other.config);
        let same = |a: &Transform, b: &Transform| Arc::ptr_eq(a, b);
        Arc::ptr_eq(&self.dataset, &other.dataset)
            && a.limit == b.limit
            && a.on_bad_image == b.on_bad_image
            && a.border == b.border
            && a.decode == b.decode
            && a.preprocess == b.preprocess
            && match (&a.transform, &b.transform) {
                (None, None) => true,
                (Some(a), Some(b)) => same(a, b),
                _ => false,
            }
            && self.memory_limit == other.memory_limit
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::images::tests::Greys;
    use flipcast_corrupt::{CorruptionStep, Corruptor};
    use flipcast_images::loader::Order;
    use flipcast_images::preprocess::{Normalise, Preprocess};
    use flipcast_tensor::ImageSet;

    fn corrupted(config: &LoaderConfig, name: &str) -> LoaderConfig {
        let corruptor = Arc::new(Corruptor::new(4));
        CorruptionStep::join(config.clone(), name.parse().unwrap(), corruptor)
    }

    /// The bytes of all images, and the set they came from.
    fn all(images: &Images) -> (Vec<u8>, Option<Arc<ImageSet>>) {
        let mut pass = images.pass(Order::Stored, None, 4).unwrap();
        let (mut bytes, mut from) = (Vec::new(), None);
        while let Some(loaded) = pass.next_batch().unwrap() {
            for image in 0..loaded.batch.images() {
                bytes.extend_from_slice(loaded.batch.image_bytes(image).unwrap());
            }
            from = loaded.batch.selection().map(|(set, _)| Arc::clone(set));
        }
        (bytes, from)
    }

    #[test]
    fn corrupted_images_are_those_of_the_loader_and_come_from_one_clean_set() {
        let config = LoaderConfig::new(Preprocess::normalise_only(Normalise::imagenet()));
        let dataset: Arc<dyn Dataset> = Arc::new(Greys(11));
        let shared = CleanImages::default();
        let open = |config: LoaderConfig, memory| match shared.open(&dataset, &config, memory).unwrap() {
            Some(images) => images,
            None => Images::open(dataset.clone(), config, memory).unwrap(),
        };
        let clean = all(&open(config.clone(), 1 << 20)).1.unwrap();
        let noise = open(corrupted(&config, "gaussian_noise:5"), 1 << 20);
        let set = all(&noise).1.unwrap();
        let base = open(corrupted(&config, "contrast:2"), 1 << 20);
        let first = base.pass(Order::Stored, None, 4).unwrap().next_batch();
        let first = first.unwrap().unwrap();
        let told = first.batch.selection().unwrap().0.derived().unwrap();
        assert!(Arc::ptr_eq(told.base(), &clean));
        assert!(!Arc::ptr_eq(&set, &clean));
        for (name, memory) in [
            ("gaussian_noise:5", 1 << 20),
            ("contrast:2", 1 << 20),
            // No recipe, and no room.
            ("gaussian_blur:2", 1 << 20),
            ("contrast:2", 0),
        ] {
            let config = corrupted(&config, name);
            let by_loader = Images::open(dataset.clone(), config.clone(), 1 << 20).unwrap();
            let found = all(&open(config, memory));
            assert_eq!(found.0, all(&by_loader).0, "{name}");
            assert_eq!(found.1.is_some(), memory > 0, "{name}");
        }
    }

    #[test]
    fn other_images_are_read_on_their_own() {
        let config = LoaderConfig::new(Preprocess::normalise_only(Normalise::imagenet()));
        let dataset: Arc<dyn Dataset> = Arc::new(Greys(5));
        let shared = CleanImages::default();
        let set = |dataset: &Arc<dyn Dataset>, config: &LoaderConfig| {
            let images = shared.open(dataset, config, 1 << 20);
            all(&images.unwrap().unwrap()).1.unwrap()
        };
        let first = set(&dataset, &config);
        assert!(Arc::ptr_eq(&first, &set(&dataset, &config)));
        let other: Arc<dyn Dataset> = Arc::new(Greys(5));
        assert!(!Arc::ptr_eq(&first, &set(&other, &config)));
        let half = LoaderConfig { preprocess: Preprocess::normalise_only(Normalise::half()), ..config };
        assert!(!Arc::ptr_eq(&first, &set(&dataset, &half)));
    }
}
