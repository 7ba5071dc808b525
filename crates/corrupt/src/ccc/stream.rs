//! The cells a stream goes through, and what happens to the images of each.

use std::collections::BTreeMap;

use flipcast_ground::Hint;
use flipcast_images::Image;

use super::constants::constants_at;
use super::pairs::{Difficulty, Pair, PairSequence};
use super::quarter::QuarterSeverity;
use super::view::View;
use super::walk::AccuracyTable;
use crate::corruptor::Corruptor;
use crate::error::CorruptError;
use crate::registry::find;
use crate::rng::{CounterRng, StreamKey};
use crate::set::CorruptionSet;
use crate::storage::Storage;

/// Name of the set in random streams and records.
const SET: &str = "ccc";
/// Images of a whole stream.
const STREAM_IMAGES: usize = 7_500_000;

/// How many images a cell shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Speed {
    /// 1000 images.
    Fast,
    /// 2000 images.
    Middle,
    /// 5000 images.
    Slow,
}

impl Speed {
    /// Images per cell.
    pub fn images(self) -> usize {
        match self {
            Self::Fast => 1000,
            Self::Middle => 2000,
            Self::Slow => 5000,
        }
    }

    /// A shard is closed once it holds this many images.
    pub fn shard_images(self) -> usize {
        match self {
            Self::Middle => 26_000,
            Self::Fast | Self::Slow => 25_000,
        }
    }
}

/// A plan that lacks something.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum PlanError {
    /// There is no accuracy table for a pair of the stream.
    #[error("no accuracy table for the pair `{first}+{second}`, but the stream goes through it")]
    MissingTable {
        /// The first corruption.
        first: &'static str,
        /// The second corruption.
        second: &'static str,
    },
}

impl Hint for PlanError {
    fn hint(&self) -> Option<String> {
        let Self::MissingTable { .. } = self;
        Some(
            "add the table to the file: ResNet-50 accuracies in per cent for the pair at 21 x 21 severities".to_owned(),
        )
    }
}

/// A stream: endless pairs, walked at one speed.
#[derive(Clone, Debug)]
pub struct StreamPlan<'a> {
    /// Accuracy to keep.
    pub difficulty: Difficulty,
    /// 43, 44 or 45 in the published streams.
    pub seed: u32,
    /// Images per cell.
    pub speed: Speed,
    /// A table per ordered pair.
    pub tables: &'a BTreeMap<Pair, AccuracyTable>,
}

/// One stop of a stream: both severities and the images shown there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    /// The corruptions.
    pub pair: Pair,
    /// Their severities.
    pub severities: (QuarterSeverity, QuarterSeverity),
    /// Number of the cell in the stream.
    pub number: u64,
}

impl StreamPlan<'_> {
    /// The published name of the stream: `baseline_40_transition+speed_1000_seed_43`.
    pub fn name(&self) -> String {
        format!(
            "baseline_{}_transition+speed_{}_seed_{}",
            self.difficulty.target_percent(),
            self.speed.images(),
            self.seed
        )
    }

    /// The cells up to 7.5 million images. A missing table ends the stream with an error.
    pub fn cells(&self) -> impl Iterator<Item = Result<Cell, PlanError>> {
        let target = self.difficulty.target_percent();
        let walked = PairSequence::new(self.difficulty, self.seed).map(move |pair| match self.tables.get(&pair) {
            Some(table) => Ok((pair, table.walk(target))),
            None => Err(PlanError::MissingTable { first: pair.first, second: pair.second }),
        });
        let mut failed = false;
        walked
            .take_while(move |walk| !std::mem::replace(&mut failed, walk.is_err()))
            .flat_map(|walk| match walk {
                Ok((pair, walk)) => walk.into_iter().map(|severities| Ok((pair, severities))).collect(),
                Err(error) => vec![Err(error)],
            })
            .take(STREAM_IMAGES.div_ceil(self.speed.images()))
            .zip(0..)
            .map(|(stop, number)| stop.map(|(pair, severities)| Cell { pair, severities, number }))
    }
}

impl Cell {
    /// The images of a dataset of `dataset_len` that the cell shows, in order: the start of a fresh shuffle.
    pub fn images(&self, seed: u64, dataset_len: usize, speed: Speed) -> Vec<usize> {
        let key = StreamKey { seed, set: SET, corruption: "order", severity_hundredths: 0, image_index: self.number };
        let mut rng = CounterRng::new(&key);
        let mut order: Vec<usize> = (0..dataset_len).collect();
        let shown = speed.images().min(dataset_len);
        for i in 0..shown {
            order.swap(i, i + rng.index(dataset_len - i));
        }
        order.truncate(shown);
        order
    }

    /// `image` as the cell shows it: a random view, both corruptions, JPEG of quality 85.
    ///
    /// `position` is the number of the image in the whole stream; the same picture may come again in another cell.
    pub fn show(&self, corruptor: &Corruptor, image: &Image, position: u64) -> Result<Image, CorruptError> {
        let shown = self.show_unstored(corruptor, image, position)?;
        Ok(Storage::Jpeg85.store(shown))
    }

    /// [`Cell::show`] without the JPEG, for callers that store the image themselves.
    pub fn show_unstored(&self, corruptor: &Corruptor, image: &Image, position: u64) -> Result<Image, CorruptError> {
        if image.rgb().is_empty() {
            return Err(CorruptError::EmptyImage { width: image.width(), height: image.height() });
        }
        let view = View::draw(&mut CounterRng::new(&corruptor.key(SET, "view", 0, position)), image);
        self.corrupt_unstored(corruptor, &view.apply(image), position)
    }

    /// Both corruptions on `image` as it is, then JPEG of quality 85. A severity of 0 skips its corruption.
    pub fn corrupt(&self, corruptor: &Corruptor, image: &Image, position: u64) -> Result<Image, CorruptError> {
        let shown = self.corrupt_unstored(corruptor, image, position)?;
        Ok(Storage::Jpeg85.store(shown))
    }

    /// [`Cell::corrupt`] without the JPEG.
    fn corrupt_unstored(&self, corruptor: &Corruptor, image: &Image, position: u64) -> Result<Image, CorruptError> {
        let mut shown = image.clone();
        for (name, severity) in [(self.pair.first, self.severities.0), (self.pair.second, self.severities.1)] {
            if severity == QuarterSeverity::ZERO {
                continue;
            }
            let entry = find(CorruptionSet::ImageNetC, name)?;
            let key = corruptor.key(SET, name, 25 * severity.quarters() as u32, position);
            shown = corruptor.run(&shown, entry, &constants_at(name, severity)?, &key)?;
        }
        Ok(shown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flat_tables() -> BTreeMap<Pair, AccuracyTable> {
        let table = AccuracyTable::new((0..441).map(|k| 70.0 - (k / 21 + k % 21) as f64).collect()).expect("21 x 21");
        let names = Difficulty::Hard.corruptions();
        let pairs = names.iter().flat_map(|&first| names.iter().map(move |&second| Pair { first, second }));
        pairs.map(|pair| (pair, table.clone())).collect()
    }

    fn plan(tables: &BTreeMap<Pair, AccuracyTable>) -> StreamPlan<'_> {
        StreamPlan { difficulty: Difficulty::Hard, seed: 43, speed: Speed::Slow, tables }
    }

    #[test]
    fn a_stream_ends_after_its_images() {
        let tables = flat_tables();
        assert_eq!(plan(&tables).cells().count(), 1500);
    }

    #[test]
    fn a_missing_table_is_named_and_ends_the_stream() {
        let mut tables = flat_tables();
        let third = PairSequence::new(Difficulty::Hard, 43).nth(2).expect("endless");
        tables.remove(&third);
        let cells: Vec<_> = plan(&tables).cells().collect();
        let missing = PlanError::MissingTable { first: third.first, second: third.second };
        assert_eq!(cells.last(), Some(&Err(missing)));
        assert_eq!(cells.iter().filter(|cell| cell.is_err()).count(), 1);
    }

    #[test]
    fn a_cell_shows_different_images_in_a_fixed_order() {
        let tables = flat_tables();
        let cell = plan(&tables).cells().next().expect("endless").expect("all tables are there");
        let images = cell.images(5, 3000, Speed::Fast);
        assert_eq!(images, cell.images(5, 3000, Speed::Fast));
        let mut sorted = images.clone();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(sorted.len(), 1000);
        assert_eq!(cell.images(5, 10, Speed::Fast).len(), 10);
    }

    #[test]
    fn a_cell_shows_224_pixels_whatever_the_image() {
        let tables = flat_tables();
        let cell = plan(&tables).cells().nth(3).expect("endless").expect("all tables are there");
        let image = Image::new(50, 37, (0..3 * 50 * 37).map(|i| (i % 251) as u8).collect()).expect("50 x 37");
        let corruptor = Corruptor::new(9);
        let shown = cell.show(&corruptor, &image, 77).expect("within the limits");
        assert_eq!((shown.width(), shown.height()), (224, 224));
        assert_eq!(cell.show(&corruptor, &image, 77), Ok(shown.clone()));
        assert_ne!(cell.show(&corruptor, &image, 78), Ok(shown));
    }
}
