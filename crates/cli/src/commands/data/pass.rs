//! One pass over the images of a dataset: sizes, labels, and what cannot be read.

use crate::progress::ProgressLine;
use flipcast_corrupt::{CorruptionRequest, CorruptionStep, Corruptor};
use flipcast_ground::with_causes;
use flipcast_images::Image;
use flipcast_images::dataset::Dataset;
use flipcast_images::loader::{LoadError, Loader, LoaderConfig, OnBadImage};
use flipcast_images::preprocess::{Normalise, Preprocess};
use serde::Serialize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// How the images are read.
pub struct Options {
    pub threads: usize,
    pub on_bad_image: OnBadImage,
    /// Pixels cut off every side.
    pub border: usize,
    /// Applied to every image in memory.
    pub corruption: Option<CorruptionRequest>,
}

/// The smallest and the largest width and height.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Sizes {
    pub width: [usize; 2],
    pub height: [usize; 2],
}

/// An image that cannot be used, and why.
#[derive(Debug, Serialize)]
pub struct Unreadable {
    pub id: String,
    pub reason: String,
}

/// What was found.
#[derive(Debug)]
pub struct Pass {
    /// `None` when no image could be read.
    pub sizes: Option<Sizes>,
    pub labelled: usize,
    pub unreadable: usize,
    /// The first of them.
    pub named: Vec<Unreadable>,
}

impl Sizes {
    fn with(sizes: Option<Self>, image: &Image) -> Self {
        let (w, h) = (image.width(), image.height());
        let Self { width, height } = sizes.unwrap_or(Self { width: [w, w], height: [h, h] });
        Self { width: [width[0].min(w), width[1].max(w)], height: [height[0].min(h), height[1].max(h)] }
    }
}

impl std::fmt::Display for Sizes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ([w, wide], [h, high]) = (self.width, self.height);
        if w == wide && h == high {
            return write!(f, "{w} x {h}");
        }
        write!(f, "width {w} to {wide}, height {h} to {high}")
    }
}

/// Reads, decodes and, if asked, corrupts every image.
pub fn read_all(dataset: Arc<dyn Dataset>, options: &Options, progress: ProgressLine) -> Result<Pass, LoadError> {
    let rule = Preprocess::normalise_only(Normalise::imagenet());
    let step =
        options.corruption.map(|request| CorruptionStep::new(request, Arc::new(Corruptor::new(0)), rule.clone()));
    let total = dataset.len();
    let sizes: Arc<Mutex<Option<Sizes>>> = Arc::default();
    let noted = sizes.clone();
    let seen = AtomicUsize::new(0);
    // Sizes are noted here and one pixel is passed on, so that images of any size fit into the loader's batches.
    let transform = move |index: usize, image: Image| {
        let mut sizes = lock(&noted);
        *sizes = Some(Sizes::with(*sizes, &image));
        drop(sizes);
        progress.update(seen.fetch_add(1, Ordering::Relaxed) + 1, 0, total);
        if let Some(step) = &step {
            step.apply(index, &image)?;
        }
        Ok(Image::new(1, 1, vec![0; 3]).expect("one pixel"))
    };
    let config = LoaderConfig {
        batch_size: 256,
        threads: options.threads,
        on_bad_image: options.on_bad_image,
        border: options.border,
        transform: Some(Arc::new(transform)),
        ..LoaderConfig::new(rule)
    };
    let mut loader = Loader::new(dataset, config)?;
    let mut labelled = 0;
    while let Some(loaded) = loader.next_batch()? {
        labelled += loaded.labels.iter().filter(|l| l.is_known()).count();
        loader.recycle(loaded.batch);
    }
    let named =
        loader.skipped().named.iter().map(|bad| Unreadable { id: bad.id.clone(), reason: with_causes(&bad.cause) });
    Ok(Pass { sizes: *lock(&sizes), labelled, unreadable: loader.skipped().count, named: named.collect() })
}

/// The value, also after a panic of another thread: notes stay valid on their own.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|e| e.into_inner())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_a_range_only_when_they_differ() {
        let image = |w, h| Image::new(w, h, vec![0; 3 * w * h]).expect("sizes match");
        let one = Sizes::with(None, &image(4, 3));
        assert_eq!(one.to_string(), "4 x 3");
        let two = Sizes::with(Some(one), &image(2, 5));
        assert_eq!(two.to_string(), "width 2 to 4, height 3 to 5");
    }
}
