//! Image in, corrupted image out.

use flipcast_images::Image;

use crate::error::CorruptError;
use crate::frost_textures::FrostTextures;
use crate::job::Job;
use crate::registry::Entry;
use crate::rng::{CounterRng, StreamKey};
use crate::spec::CorruptionSpec;
use crate::storage::Storage;

/// Longest side of an image that is corrupted.
pub const MAX_SIDE: usize = 1 << 13;

/// Corrupts images with fixed settings; shared between threads as it is.
///
/// ```
/// use flipcast_corrupt::{CorruptionSet, CorruptionSpec, Corruptor, Severity, Storage};
/// use flipcast_images::Image;
///
/// let image = Image::new(32, 32, vec![128; 3 * 32 * 32]).expect("32 x 32 pixels");
/// let spec = CorruptionSpec::new(CorruptionSet::ImageNetC, "gaussian_noise", Severity::new(3)?)?;
/// let corrupted = Corruptor::new(0).corrupt(&image, &spec, 7)?;
/// assert_eq!(corrupted, Corruptor::new(0).corrupt(&image, &spec, 7)?);
/// let stored = Corruptor::new(0).with_storage(Storage::Jpeg85).corrupt(&image, &spec, 7)?;
/// assert_ne!(stored, corrupted);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Corruptor {
    seed: u64,
    storage: Storage,
    frost: Option<FrostTextures>,
}

impl Corruptor {
    /// Draws from `seed`, keeps results in memory as they are, and uses procedural frost.
    pub fn new(seed: u64) -> Self {
        Self { seed, storage: Storage::None, frost: None }
    }

    /// Adds a storage step after every corruption.
    pub fn with_storage(mut self, storage: Storage) -> Self {
        self.storage = storage;
        self
    }

    /// Uses these frost textures.
    pub fn with_frost(mut self, frost: FrostTextures) -> Self {
        self.frost = Some(frost);
        self
    }

    /// The seed of all draws.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Which frost textures are used, in words.
    pub(crate) fn frost_name(&self) -> &'static str {
        if self.frost.is_some() { "frost textures from files" } else { "procedural frost textures" }
    }

    /// The corrupted `image`, which is number `image_index` of its dataset, after the storage step.
    pub fn corrupt(&self, image: &Image, spec: &CorruptionSpec, image_index: u64) -> Result<Image, CorruptError> {
        Ok(self.storage.store(self.corrupt_unstored(image, spec, image_index)?))
    }

    /// [`Corruptor::corrupt`] without the storage step, for callers that store the image themselves.
    pub fn corrupt_unstored(
        &self,
        image: &Image,
        spec: &CorruptionSpec,
        image_index: u64,
    ) -> Result<Image, CorruptError> {
        let entry = spec.entry()?;
        let key = self.spec_key(spec, image_index);
        self.run(image, entry, entry.rows[spec.severity.index()], &key)
    }

    pub(crate) fn spec_key(&self, spec: &CorruptionSpec, image_index: u64) -> StreamKey<'static> {
        let hundredths = 100 * u32::from(spec.severity.number());
        self.key(spec.set.name(), spec.name, hundredths, image_index)
    }

    /// The storage step.
    pub(crate) fn storage(&self) -> Storage {
        self.storage
    }

    pub(crate) fn key<'a>(
        &self,
        set: &'a str,
        corruption: &'a str,
        hundredths: u32,
        image_index: u64,
    ) -> StreamKey<'a> {
        StreamKey { seed: self.seed, set, corruption, severity_hundredths: hundredths, image_index }
    }

    /// Applies `entry` with `row` as its constants, without the storage step.
    pub(crate) fn run(
        &self,
        image: &Image,
        entry: &Entry,
        row: &[f64],
        key: &StreamKey<'_>,
    ) -> Result<Image, CorruptError> {
        check_size(image.width(), image.height())?;
        let frost = || self.frost.as_ref().unwrap_or_else(|| FrostTextures::procedural());
        let mut rng = CounterRng::new(key);
        Ok((entry.run)(&mut Job { image, row, rng: &mut rng, frost: &frost }))
    }
}

pub(crate) fn check_size(width: usize, height: usize) -> Result<(), CorruptError> {
    if width == 0 || height == 0 {
        return Err(CorruptError::EmptyImage { width, height });
    }
    if width.max(height) > MAX_SIDE {
        return Err(CorruptError::ImageTooLarge { width, height, limit: MAX_SIDE });
    }
    Ok(())
}

/// The corrupted `image`, number `image_index` of its dataset, without a storage step and with procedural frost.
///
/// The result is a function of the arguments alone: neither the order of calls nor the thread matters.
pub fn corrupt(image: &Image, spec: &CorruptionSpec, seed: u64, image_index: u64) -> Result<Image, CorruptError> {
    Corruptor::new(seed).corrupt(image, spec, image_index)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::names;
    use crate::set::CorruptionSet;
    use crate::spec::Severity;

    fn picture(width: usize, height: usize) -> Image {
        let rgb = (0..3 * width * height).map(|i| (i * i % 253) as u8).collect();
        Image::new(width, height, rgb).expect("sizes match")
    }

    fn every_spec() -> impl Iterator<Item = CorruptionSpec> {
        CorruptionSet::ALL.into_iter().flat_map(|set| {
            names(set).into_iter().flat_map(move |name| {
                Severity::ALL.map(|severity| CorruptionSpec::new(set, name, severity).expect("listed"))
            })
        })
    }

    #[test]
    fn every_corruption_works_at_any_size() {
        for (width, height) in [(1, 1), (1, 9), (2, 2), (7, 3), (17, 40), (33, 33)] {
            let image = picture(width, height);
            for spec in every_spec() {
                let after = corrupt(&image, &spec, 1, 2).expect("within the limits");
                assert_eq!((after.width(), after.height()), (width, height), "{spec}");
            }
        }
    }

    #[test]
    fn results_depend_on_seed_and_index_but_not_on_order() {
        let image = picture(32, 32);
        let spec = CorruptionSpec::new(CorruptionSet::CifarC, "gaussian_noise", Severity::ALL[2]).expect("listed");
        let run = |seed, index| corrupt(&image, &spec, seed, index).expect("within the limits");
        let first = run(1, 7);
        assert_ne!(run(1, 8), first);
        assert_ne!(run(2, 7), first);
        assert_eq!(run(1, 7), first);
        let elsewhere = std::thread::scope(|scope| scope.spawn(|| run(1, 7)).join().expect("no panic"));
        assert_eq!(elsewhere, first);
    }

    #[test]
    fn no_corruption_but_frost_asks_for_its_textures() {
        let image = picture(16, 16);
        for spec in every_spec() {
            let asked = std::cell::Cell::new(false);
            let frost = || {
                asked.set(true);
                FrostTextures::procedural()
            };
            let entry = spec.entry().expect("listed");
            let mut rng = CounterRng::new(&Corruptor::new(0).spec_key(&spec, 0));
            let row = entry.rows[spec.severity.index()];
            (entry.run)(&mut Job { image: &image, row, rng: &mut rng, frost: &frost });
            assert_eq!(asked.get(), spec.name == "frost", "{spec}");
        }
    }

    #[test]
    fn sizes_out_of_range_are_refused() {
        let spec = CorruptionSpec::new(CorruptionSet::CifarC, "fog", Severity::ALL[0]).expect("listed");
        let empty = Image::new(0, 4, Vec::new()).expect("no pixels");
        assert!(matches!(corrupt(&empty, &spec, 0, 0), Err(CorruptError::EmptyImage { .. })));
        let long = picture(MAX_SIDE + 1, 1);
        assert!(matches!(corrupt(&long, &spec, 0, 0), Err(CorruptError::ImageTooLarge { .. })));
    }
}
