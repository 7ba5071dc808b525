//! Sets of images that are made on the device from others that lie there.

use crate::buffers::ImageMemory;
use crate::device::{DeviceMemory, bytes_of};
use crate::error::CudaError;
use crate::launch::corrupt::{Images, SLACK, Tables, corrupt};
use crate::module::Kernels;
use crate::precision::Element;
use flipcast_tensor::{ByteRecipe, ByteScale, Derived};

const WHAT: &str = "a set of images";

/// The images of `base`, a copy of those that `derived` comes from, after its change; `None` if it is unknown here. Images
/// that this arithmetic cannot be sure of are made on the host.
pub(crate) fn derive(
    kernels: &Kernels,
    derived: &Derived,
    base: &ImageMemory,
    scale: &ByteScale,
) -> Result<Option<ImageMemory>, CudaError> {
    derive_with(kernels, derived, base, scale, SLACK)
}

fn derive_with(
    kernels: &Kernels,
    derived: &Derived,
    base: &ImageMemory,
    scale: &ByteScale,
    slack: f64,
) -> Result<Option<ImageMemory>, CudaError> {
    let device = &kernels.device;
    let (count, len) = (derived.base().images(), derived.base().image_len());
    let [height, width, channels] = derived.base().extents();
    if i32::try_from(len).is_err() || channels != 3 {
        return Ok(None);
    }
    let memory = RecipeMemory::new(kernels, derived.recipe())?;
    let numbers: Vec<u64> = derived.numbers().iter().map(|&n| n as u64).collect();
    let numbered = device.allocate(WHAT, Element::F64, count)?;
    device.copy_in(numbered.slice(), bytes_of(&numbers))?;
    let doubtful = device.allocate(WHAT, Element::I32, count)?;
    let pixels = device.allocate(WHAT, Element::U8, count * len)?;
    let images = Images {
        from: base.pixels.slice(),
        to: pixels.slice(),
        numbers: numbered.slice(),
        doubtful: doubtful.slice(),
        count,
        extents: [height, width],
    };
    corrupt(kernels, derived.recipe(), memory.tables(), images, slack)?;
    let mut doubts = vec![0; 4 * count];
    device.copy_out(doubtful.slice(), &mut doubts)?;
    for (position, doubt) in doubts.as_chunks::<4>().0.iter().enumerate() {
        if *doubt != [0; 4] {
            let place = pixels.slice().part(position * len..(position + 1) * len);
            device.copy_in(place, &derived.image(position))?;
        }
    }
    Ok(Some(ImageMemory { pixels, scale: Some(device.upload(WHAT, Element::F32, scale.values())?) }))
}

/// What a recipe looks up, on the device.
#[derive(Default)]
struct RecipeMemory {
    doubles: Option<DeviceMemory>,
    integers: Option<DeviceMemory>,
    bytes: Option<DeviceMemory>,
}

impl RecipeMemory {
    fn new(kernels: &Kernels, recipe: &ByteRecipe) -> Result<Self, CudaError> {
        let device = &kernels.device;
        let doubles = |values: &[f64]| {
            let memory = device.allocate(WHAT, Element::F64, values.len())?;
            device.copy_in(memory.slice(), bytes_of(values))?;
            Ok::<_, CudaError>(Some(memory))
        };
        Ok(match recipe {
            ByteRecipe::NormalNoise { ziggurat, .. } => Self { doubles: doubles(ziggurat)?, ..Self::default() },
            ByteRecipe::Quantiles { starts, cumulative, results, .. } => Self {
                doubles: doubles(cumulative)?,
                integers: Some(device.upload_integers(WHAT, starts)?),
                bytes: Some(device.upload_bytes(WHAT, results)?),
            },
            _ => Self::default(),
        })
    }

    fn tables(&self) -> Tables {
        let slice = |memory: &Option<DeviceMemory>| memory.as_ref().map(DeviceMemory::slice);
        Tables { doubles: slice(&self.doubles), integers: slice(&self.integers), bytes: slice(&self.bytes) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Device;
    use crate::precision::Precision;
    use flipcast_corrupt::{CorruptionStep, Corruptor};
    use flipcast_images::loader::LoaderConfig;
    use flipcast_images::preprocess::{Normalise, Preprocess};
    use flipcast_tensor::ImageSet;
    use std::sync::Arc;

    fn corrupted(base: &Arc<ImageSet>, name: &str) -> ImageSet {
        let rule = Preprocess::normalise_only(Normalise::imagenet());
        let request = name.parse().expect("well formed");
        let corruptor = Arc::new(Corruptor::new(9));
        let config = CorruptionStep::join(LoaderConfig::new(rule), request, corruptor);
        let numbers = (0..base.images()).map(|at| 3 * at + 1).collect();
        let change = config.change.expect("joined");
        ImageSet::derive(base, change, numbers).expect("it acts on pixels")
    }

    fn pictures(images: usize, side: usize) -> Arc<ImageSet> {
        let extents = [images, side, side, 3];
        let byte = |at: usize| (at.wrapping_mul(at / 3 + 11) >> 3) as u8;
        let bytes = (0..extents.iter().product()).map(byte).collect();
        let scale = Arc::new(Normalise::imagenet().scale());
        Arc::new(ImageSet::from_bytes(extents, bytes, scale).expect("bytes fill it"))
    }

    #[test]
    fn sets_made_on_the_device_are_those_of_the_host() {
        let device = match Device::open(0) {
            Ok(device) => device,
            Err(error) => {
                println!("skipped: nothing was made on a GPU, since {error}");
                return;
            }
        };
        let kernels = Kernels::new(&device, Precision::Bf16).expect("kernels compile");
        for (images, side) in [(40, 224), (400, 32), (50, 7)] {
            let base = pictures(images, side);
            let copy = ImageMemory::upload(&device, WHAT, base.pixels()).expect("it fits");
            let scale = base.scale().expect("they are bytes");
            for name in [
                "gaussian_noise",
                "speckle_noise",
                "impulse_noise",
                "shot_noise",
                "contrast",
                "brightness",
                "saturate",
                "imagenet-c-bar/single_frequency_greyscale",
                "imagenet-c-bar/cocentric_sine_waves",
                "imagenet-c-bar/checkerboard_cutout",
                "imagenet-c-bar/perlin_noise",
            ] {
                for severity in [1, 5] {
                    let set = corrupted(&base, &format!("{name}:{severity}"));
                    // With the second slack nearly every image that can be in doubt is.
                    for slack in [SLACK, 0.1] {
                        let derived = set.derived().expect("nobody has asked yet");
                        let made = derive_with(&kernels, derived, &copy, scale, slack);
                        let made = made.expect("it runs").expect("it is known");
                        let mut found = vec![0; images * side * side * 3];
                        device.copy_out(made.pixels.slice(), &mut found).expect("it is there");
                        let expected: Vec<u8> = (0..images).flat_map(|at| derived.image(at)).collect();
                        let differ = (0..found.len()).filter(|&i| found[i] != expected[i]);
                        assert_eq!(differ.count(), 0, "{name}:{severity} of {side}, {slack}");
                    }
                }
            }
        }
    }
}
