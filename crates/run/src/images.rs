//! Images that can be passed over again and again: kept in memory where they fit, read anew where they do not.

use crate::RunError;
use crate::clean_images::Slot;
use crate::image_memory::HeldMemory;
use flipcast_images::Label;
use flipcast_images::dataset::{Dataset, Subset};
use flipcast_images::loader::{LoadedBatch, Loader, LoaderConfig, Order, Skipped};
use flipcast_tensor::{Batch, ByteChange, ImageSet};
use std::sync::Arc;

/// Bytes of preprocessed images kept in memory unless the caller says otherwise.
pub const MEMORY_LIMIT: usize = 2 << 30;

/// A dataset and how it is brought to the network. Weighted flips pass over it many times.
pub struct Images {
    dataset: Arc<dyn Dataset>,
    config: LoaderConfig,
    kept: Option<Kept>,
    skipped: Skipped,
    /// Keeps clean images known for as long as others are made of them.
    _clean: Option<Arc<Slot>>,
    /// What the images hold of a memory that cells share.
    _held: Option<HeldMemory>,
}

/// Preprocessed images in stored order, without the bad ones.
#[derive(Clone)]
pub(crate) struct Kept {
    set: Arc<ImageSet>,
    samples: Arc<Samples>,
}

/// What belongs to images.
#[derive(Default)]
struct Samples {
    indices: Vec<usize>,
    ids: Vec<String>,
    labels: Vec<Label>,
}

impl Images {
    /// Reads `dataset` as `config` says. Its order, limit and batch size are set anew by every pass, except that a limit
    /// makes the dataset shorter.
    pub fn open(dataset: Arc<dyn Dataset>, mut config: LoaderConfig, memory_limit: usize) -> Result<Self, RunError> {
        config.order = Order::Stored;
        if dataset.is_empty() || config.limit == Some(0) {
            return Err(RunError::NoImages);
        }
        let mut images = Self { dataset, config, kept: None, skipped: Skipped::default(), _clean: None, _held: None };
        images.keep(memory_limit)?;
        Ok(images)
    }

    /// Images that were read already.
    pub(crate) fn of_kept(
        dataset: Arc<dyn Dataset>,
        config: LoaderConfig,
        kept: Kept,
        skipped: usize,
        clean: Arc<Slot>,
    ) -> Self {
        Self {
            dataset,
            config,
            kept: Some(kept),
            skipped: Skipped { count: skipped, named: Vec::new() },
            _clean: Some(clean),
            _held: None,
        }
    }

    /// The same images, which hold part of a memory until they are dropped.
    pub(crate) fn holding(self, held: HeldMemory) -> Self {
        Self { _held: Some(held), ..self }
    }

    /// The images, if they are in memory.
    pub(crate) fn kept(&self) -> Option<&Kept> {
        self.kept.as_ref()
    }

    /// Keeps all images in memory, or none when they need more than `limit` bytes.
    fn keep(&mut self, limit: usize) -> Result<(), RunError> {
        let mut loader = Loader::new(self.dataset.clone(), self.config.clone())?;
        let samples = loader.samples();
        let (mut bytes, mut values) = (Vec::new(), Vec::new());
        let (mut size, mut scale) = ([0, 0], None);
        let mut kept = Samples::default();
        while let Some(loaded) = loader.next_batch()? {
            let batch = &loaded.batch;
            size = [batch.height(), batch.width()];
            let all = samples.saturating_mul(size[0] * size[1] * batch.channels());
            let each = if batch.bytes().is_some() { 1 } else { 4 };
            if all.saturating_mul(each) > limit {
                return Ok(());
            }
            match batch.bytes() {
                Some((more, of)) => {
                    bytes.reserve_exact(all - bytes.len());
                    bytes.extend_from_slice(more);
                    scale = Some(Arc::clone(of));
                }
                None => {
                    values.reserve_exact(all - values.len());
                    values.extend_from_slice(batch.values());
                }
            }
            kept.indices.extend(loaded.indices);
            kept.ids.extend(loaded.ids);
            kept.labels.extend(loaded.labels);
            loader.recycle(loaded.batch);
        }
        if kept.ids.is_empty() {
            return Err(RunError::NoImages);
        }
        let extents = [kept.ids.len(), size[0], size[1], 3];
        let set = match scale {
            Some(scale) => ImageSet::from_bytes(extents, bytes, scale),
            None => ImageSet::new(extents, values),
        };
        self.kept = Some(Kept { set: Arc::new(set.expect("every image has the same size")), samples: Arc::new(kept) });
        self.skipped = Skipped { count: loader.skipped().count, named: Vec::new() };
        Ok(())
    }

    /// Images a pass gives; bad ones that are not known yet included.
    pub fn len(&self) -> usize {
        match &self.kept {
            Some(kept) => kept.samples.ids.len(),
            None => self.config.limit.unwrap_or(usize::MAX).min(self.dataset.len()),
        }
    }

    /// Whether there are none; never, since such a dataset is refused.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Images left out because they could not be read, as far as is known.
    pub fn skipped(&self) -> usize {
        self.skipped.count
    }

    /// Whether the stored order is part of the data.
    pub fn is_stream(&self) -> bool {
        self.dataset.is_stream()
    }

    /// One pass in `order` over at most `limit` images, in batches of `batch_size`; the last may be smaller.
    pub fn pass(&self, order: Order, limit: Option<usize>, batch_size: usize) -> Result<Pass<'_>, RunError> {
        let order = if self.is_stream() { Order::Stored } else { order };
        let limit = limit.unwrap_or(usize::MAX).min(self.len());
        Ok(match &self.kept {
            Some(kept) => {
                let mut order = order.indices(kept.samples.ids.len());
                order.truncate(limit);
                Pass(Batches::Kept { kept, order, next: 0, batch_size, spare: Vec::new() })
            }
            None => Pass(Batches::Read(Box::new(Loader::new(
                self.dataset.clone(),
                LoaderConfig { order, limit: Some(limit), batch_size, ..self.config.clone() },
            )?))),
        })
    }

    /// One pass over the images with these indices in the dataset, in this order; an image may come more than once.
    pub fn pass_over(&self, indices: &[usize], batch_size: usize) -> Result<Pass<'_>, RunError> {
        Ok(match &self.kept {
            Some(kept) => {
                let position = |index: &usize| {
                    let found = kept.samples.indices.binary_search(index);
                    found.map_err(|_| RunError::ProbeNotSeen { index: *index })
                };
                let order = indices.iter().map(position).collect::<Result<_, _>>()?;
                Pass(Batches::Kept { kept, order, next: 0, batch_size, spare: Vec::new() })
            }
            None => Pass(Batches::Read(Box::new(Loader::new(
                Arc::new(Subset::repeating(self.dataset.clone(), indices.to_vec())?),
                LoaderConfig { order: Order::Stored, limit: None, batch_size, ..self.config.clone() },
            )?))),
        })
    }
}

/// The batches of one pass.
pub struct Pass<'a>(Batches<'a>);

enum Batches<'a> {
    Kept { kept: &'a Kept, order: Vec<usize>, next: usize, batch_size: usize, spare: Vec<f32> },
    Read(Box<Loader>),
}

impl Pass<'_> {
    /// The next batch, `None` at the end.
    pub fn next_batch(&mut self) -> Result<Option<LoadedBatch>, RunError> {
        match &mut self.0 {
            Batches::Read(loader) => Ok(loader.next_batch()?),
            Batches::Kept { kept, order, next, batch_size, spare } => {
                let end = order.len().min(*next + *batch_size);
                let positions = &order[*next..end];
                *next = end;
                if positions.is_empty() {
                    return Ok(None);
                }
                Ok(Some(kept.batch(positions, std::mem::take(spare))))
            }
        }
    }

    /// Takes back a used batch, so that its memory is filled again.
    pub fn recycle(&mut self, batch: Batch) {
        match &mut self.0 {
            Batches::Read(loader) => loader.recycle(batch),
            Batches::Kept { spare, .. } => *spare = batch.into_memory().values,
        }
    }
}

impl Kept {
    /// Bytes in memory.
    pub(crate) fn bytes(&self) -> usize {
        self.set.size()
    }

    /// A selection from the set, so that an executor that keeps the set needs no values. `spare` is memory for them.
    fn batch(&self, positions: &[usize], spare: Vec<f32>) -> LoadedBatch {
        let selected = positions.iter().map(|&position| position as u32).collect();
        let samples = &self.samples;
        LoadedBatch {
            batch: Batch::select(&self.set, selected, spare),
            indices: positions.iter().map(|&p| samples.indices[p]).collect(),
            ids: positions.iter().map(|&p| samples.ids[p].clone()).collect(),
            labels: positions.iter().map(|&p| samples.labels[p].clone()).collect(),
        }
    }

    /// The same images of `dataset` after `change`, if it can be told to executors.
    pub(crate) fn changed(&self, change: Arc<dyn ByteChange>, dataset: &dyn Dataset) -> Option<Self> {
        let indices = self.samples.indices.iter();
        let numbers = indices.map(|&index| dataset.stored_index(index)).collect();
        Some(Self { set: Arc::new(ImageSet::derive(&self.set, change, numbers)?), samples: Arc::clone(&self.samples) })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use flipcast_images::Image;
    use flipcast_images::dataset::{DataError, Layout, Payload, Sample};
    use flipcast_images::preprocess::{Normalise, Preprocess};

    /// Small pictures of different greys.
    pub(crate) struct Greys(pub usize);

    impl Dataset for Greys {
        fn layout(&self) -> Layout {
            Layout::FlatFolder
        }
        fn len(&self) -> usize {
            self.0
        }
        fn classes(&self) -> &[String] {
            &[]
        }
        fn id(&self, index: usize) -> String {
            index.to_string()
        }
        fn sample(&self, index: usize) -> Result<Sample, DataError> {
            let pixels = Image::new(2, 3, vec![index as u8; 18]).expect("sizes match");
            Ok(Sample { id: self.id(index), payload: Payload::Pixels(pixels), label: Label::Class(index as u32) })
        }
    }

    fn open(memory: usize, limit: Option<usize>) -> Images {
        let config = LoaderConfig { limit, ..LoaderConfig::new(Preprocess::normalise_only(Normalise::imagenet())) };
        Images::open(Arc::new(Greys(11)), config, memory).unwrap()
    }

    fn batches(images: &Images, order: Order) -> Vec<(Vec<usize>, Vec<f32>, Vec<Label>)> {
        let mut pass = images.pass(order, Some(7), 3).unwrap();
        let mut found = Vec::new();
        while let Some(loaded) = pass.next_batch().unwrap() {
            found.push((loaded.indices, loaded.batch.values().to_vec(), loaded.labels));
            pass.recycle(loaded.batch);
        }
        found
    }

    #[test]
    fn images_kept_and_images_read_anew_are_the_same() {
        let (kept, read) = (open(1 << 20, None), open(0, None));
        assert!(kept.kept.is_some() && read.kept.is_none());
        let first = kept.pass(Order::Stored, None, 3).unwrap().next_batch();
        assert!(first.unwrap().unwrap().batch.selection().is_some());
        for order in [Order::Stored, Order::Shuffled { seed: 5 }] {
            let found = batches(&kept, order);
            assert_eq!(found, batches(&read, order));
            assert_eq!(found.iter().map(|b| b.0.len()).collect::<Vec<_>>(), [3, 3, 1]);
        }
    }

    #[test]
    fn images_are_kept_as_bytes_unless_a_resize_on_floats_is_to_come() {
        // A byte per sample is enough room for bytes only.
        let room = 11 * 18;
        let bytes = open(room, None);
        assert_eq!(bytes.kept.as_ref().unwrap().set.size(), room);
        assert!(open(room - 1, None).kept.is_none());
        let config = LoaderConfig::new(Preprocess::tiny_imagenet_128());
        let floats = Images::open(Arc::new(Greys(2)), config, 1 << 20).unwrap();
        let set = floats.kept.unwrap().set;
        assert_eq!((set.size(), set.scale()), (2 * 4 * 3 * 128 * 128, None));
    }

    #[test]
    fn a_limit_makes_the_dataset_shorter() {
        for memory in [0, 1 << 20] {
            let images = open(memory, Some(4));
            assert_eq!(images.len(), 4);
            assert_eq!(batches(&images, Order::Stored).len(), 2);
        }
        let none = LoaderConfig::new(Preprocess::normalise_only(Normalise::imagenet()));
        let empty = Images::open(Arc::new(Greys(0)), none, 0);
        assert!(matches!(empty, Err(RunError::NoImages)));
    }
}
