//! Corruptions as changes of bytes, and which of them a device can make by itself.

use std::sync::Arc;

use flipcast_images::Image;
use flipcast_tensor::{ByteChange, ByteRecipe, ChangeError};

use crate::blocks::pixels::{finish, unit_table};
use crate::c_bar::Level;
use crate::corruptor::{Corruptor, check_size};
use crate::dataset::StepError;
use crate::imagenet_c::impulse_noise;
use crate::poisson::Poisson;
use crate::rng::{CounterRng, ziggurat};
use crate::spec::CorruptionRequest;

/// Tells a corruption in full, from its constants and the key of its draws.
type Tell = fn(&[f64], [u64; 2]) -> Option<ByteRecipe>;

/// The corruptions that act on every pixel alone, given sums over the image.
const PIXELWISE: [(&str, Tell); 11] = [
    ("gaussian_noise", |row, stream| normal(row, stream, false)),
    ("speckle_noise", |row, stream| normal(row, stream, true)),
    ("impulse_noise", |row, stream| {
        let limit = impulse_noise::Constants::from_row(row).limit()?;
        Some(ByteRecipe::ImpulseNoise { stream, limit })
    }),
    ("shot_noise", shot),
    ("contrast", |row, _| Some(ByteRecipe::Contrast { factor: row[0] })),
    ("brightness", |row, _| Some(ByteRecipe::Brightness { added: row[0] })),
    ("saturate", |row, _| {
        let (factor, offset) = (row[0], row[1]);
        Some(ByteRecipe::Saturation { factor, offset })
    }),
    ("single_frequency_greyscale", |row, stream| {
        let strength = Level::from_row(row).of(196.0);
        Some(ByteRecipe::PlaneWave { stream, strength })
    }),
    ("cocentric_sine_waves", |row, stream| {
        let strength = Level::from_row(row).of(128.0);
        Some(ByteRecipe::Rings { stream, strength })
    }),
    ("checkerboard_cutout", |row, stream| {
        let open = Level::from_row(row).of(1.0);
        Some(ByteRecipe::Checkerboard { stream, open })
    }),
    ("perlin_noise", |row, stream| {
        let share = Level::from_row(row).of(0.5);
        Some(ByteRecipe::Haze { stream, share })
    }),
];

fn normal(row: &[f64], stream: [u64; 2], in_proportion: bool) -> Option<ByteRecipe> {
    Some(ByteRecipe::NormalNoise { stream, std: row[0], in_proportion, ziggurat: ziggurat() })
}

/// The distribution of every byte's count, with the byte that a count becomes.
fn shot(row: &[f64], stream: [u64; 2]) -> Option<ByteRecipe> {
    let rate = row[0];
    let (mut starts, mut cumulative, mut results) = (vec![0], Vec::new(), Vec::new());
    for unit in unit_table() {
        let poisson = Poisson::new(rate * unit);
        for (count, &share) in (poisson.first()..).zip(poisson.cumulative()) {
            cumulative.push(share);
            results.push(finish(f64::from(count) / rate));
        }
        starts.push(i32::try_from(cumulative.len()).ok()?);
    }
    Some(ByteRecipe::Quantiles {
        stream,
        starts: starts.into(),
        cumulative: cumulative.into(),
        results: results.into(),
    })
}

/// A corruption of images that have the size they will be corrupted at.
#[derive(Clone, Debug)]
pub(crate) struct Corruption {
    pub request: CorruptionRequest,
    pub corruptor: Arc<Corruptor>,
}

impl Corruption {
    pub fn apply(&self, index: usize, image: &Image) -> Result<Image, StepError> {
        self.request
            .resolve(image.width(), image.height())
            .and_then(|spec| self.corruptor.corrupt(image, &spec, index as u64))
            .map_err(|source| StepError::Corrupt { source })
    }
}

impl ByteChange for Corruption {
    fn change(&self, index: usize, [height, width, _]: [usize; 3], bytes: &mut Vec<u8>) -> Result<(), ChangeError> {
        let image = Image::new(width, height, std::mem::take(bytes)).expect("bytes fill an image");
        *bytes = self.apply(index, &image)?.into_rgb();
        Ok(())
    }

    fn recipe(&self, [height, width, channels]: [usize; 3]) -> Option<ByteRecipe> {
        if !self.corruptor.storage().is_none() || channels != 3 {
            return None;
        }
        check_size(width, height).ok()?;
        let spec = self.request.resolve(width, height).ok()?;
        let (_, tell) = PIXELWISE.iter().find(|(name, _)| *name == spec.name)?;
        let row = spec.entry().ok()?.rows[spec.severity.index()];
        let key = self.corruptor.spec_key(&spec, 0);
        tell(row, CounterRng::key_of(&key))
    }

    fn storage(&self) -> Option<&'static str> {
        let storage = self.corruptor.storage();
        (!storage.is_none()).then(|| storage.name())
    }
}

/// One change after another.
#[derive(Debug)]
pub(crate) struct Both(pub [Arc<dyn ByteChange>; 2]);

impl ByteChange for Both {
    fn change(&self, index: usize, extents: [usize; 3], bytes: &mut Vec<u8>) -> Result<(), ChangeError> {
        let mut changes = self.0.iter();
        changes.try_for_each(|change| change.change(index, extents, bytes))
    }

    fn recipe(&self, _: [usize; 3]) -> Option<ByteRecipe> {
        None
    }

    fn storage(&self) -> Option<&'static str> {
        self.0.iter().find_map(|change| change.storage())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::names;
    use crate::set::CorruptionSet;
    use crate::spec::Severity;
    use crate::storage::Storage;

    fn corruption(name: &str, storage: Storage) -> Corruption {
        let corruptor = Corruptor::new(3).with_storage(storage);
        Corruption { request: name.parse().expect("well formed"), corruptor: Arc::new(corruptor) }
    }

    #[test]
    fn what_acts_on_pixels_alone_can_be_told() {
        let told = |set: CorruptionSet| -> Vec<&str> {
            let has_recipe = |name: &&str| {
                let name = format!("{set}/{name}:3");
                corruption(&name, Storage::None).recipe([8, 8, 3]).is_some()
            };
            names(set).into_iter().filter(has_recipe).collect()
        };
        for set in [CorruptionSet::ImageNetC, CorruptionSet::CifarC] {
            assert_eq!(told(set).len(), 7);
        }
        assert_eq!(told(CorruptionSet::ImageNetCBar).len(), 4);
        assert_eq!(told(CorruptionSet::CifarCBar), ["checkerboard_cutout"]);
        let stored = corruption("contrast:3", Storage::Jpeg85);
        assert!(stored.recipe([8, 8, 3]).is_none());
        let plain = corruption("contrast:3", Storage::None);
        assert!(plain.recipe([8, crate::MAX_SIDE + 1, 3]).is_none());
    }

    #[test]
    fn quantiles_are_those_of_the_sampler() {
        let rate = 12.0;
        let Some(ByteRecipe::Quantiles { starts, cumulative, results, .. }) = shot(&[rate], [0; 2]) else {
            panic!("shot noise is told by quantiles")
        };
        for byte in [0, 1, 100, 255] {
            let entries = starts[byte] as usize..starts[byte + 1] as usize;
            let poisson = Poisson::new(rate * unit_table()[byte]);
            for uniform in [0.0, 0.001, 0.3, 0.5, 0.77, 0.999_999_999_9] {
                let own = &cumulative[entries.clone()];
                let at = own.partition_point(|&share| share <= uniform);
                let at = entries.start + at.min(own.len() - 1);
                let count = poisson.quantile(uniform);
                assert_eq!(results[at], finish(f64::from(count) / rate));
            }
        }
    }

    #[test]
    fn a_change_is_the_corruption() {
        let rgb: Vec<u8> = (0..8 * 9 * 3).map(|i| (i * i % 253) as u8).collect();
        let image = Image::new(9, 8, rgb.clone()).expect("sizes match");
        let corruption = corruption("gaussian_noise:4", Storage::None);
        let spec = crate::CorruptionSpec::new(CorruptionSet::CifarC, "gaussian_noise", Severity::ALL[3]);
        let expected = crate::corrupt(&image, &spec.expect("listed"), 3, 21).expect("small");
        let mut bytes = rgb;
        corruption.change(21, [8, 9, 3], &mut bytes).expect("it is small");
        assert_eq!(bytes, expected.rgb());
    }
}
