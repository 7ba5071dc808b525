//! Images cut at random, as most networks were trained on them.

use flipcast_ground::SplitMix64;
use flipcast_images::Image;
use flipcast_images::loader::LoaderConfig;
use flipcast_images::preprocess::{Resize, Size};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// How images were cut in training. Half of them are also mirrored.
///
/// Running statistics were gathered on such images: those of whole ones differ, most where crops had borders of zeros.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TrainingCrop {
    /// Black pixels around the image, and a part of the image's size: usual for small images.
    Padded {
        /// Pixels on each side.
        pixels: usize,
    },
    /// A part of between this share and all of the image's pixels, its sides at most as 3 to 4, brought to the network's size: usual
    /// for ImageNet.
    Resized {
        /// The smallest share.
        smallest: f64,
    },
}

/// A text that names no way of cutting images.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a training crop is `{found}`, expected `padded:4` (pixels, at most {MAX_PIXELS}) or `resized:0.08` (smallest share, in 0 to 1)"
)]
pub struct TrainingCropError {
    found: String,
}

/// Pixels around an image at most.
const MAX_PIXELS: usize = 256;
/// Sides of parts of images.
const ASPECT: [f64; 2] = [3.0 / 4.0, 4.0 / 3.0];
/// Draws until the whole image is taken.
const TRIES: usize = 10;

impl FromStr for TrainingCrop {
    type Err = TrainingCropError;

    fn from_str(text: &str) -> Result<Self, TrainingCropError> {
        let bad = || TrainingCropError { found: text.to_owned() };
        match text.split_once(':').ok_or_else(bad)? {
            ("padded", pixels) => {
                let pixels = pixels.parse().ok().filter(|pixels| (1..=MAX_PIXELS).contains(pixels));
                Ok(Self::Padded { pixels: pixels.ok_or_else(bad)? })
            }
            ("resized", share) => {
                let share = share.parse().ok().filter(|share| *share > 0.0 && *share <= 1.0);
                Ok(Self::Resized { smallest: share.ok_or_else(bad)? })
            }
            _ => Err(bad()),
        }
    }
}

impl fmt::Display for TrainingCrop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Padded { pixels } => write!(f, "padded:{pixels}"),
            Self::Resized { smallest } => write!(f, "resized:{smallest}"),
        }
    }
}

impl TrainingCrop {
    /// `config` with images cut so, drawn by `seed` and the image's place in the data, for a network that takes images of `size`.
    pub(crate) fn apply(self, mut config: LoaderConfig, size: Size, seed: u64) -> LoaderConfig {
        if let Self::Resized { .. } = self {
            config.preprocess.crop = None;
            config.preprocess.resize = match config.preprocess.resize {
                Resize::ExactFloat(_) => Resize::ExactFloat(size),
                Resize::None | Resize::ShortSide(_) | Resize::Exact(_) => Resize::Exact(size),
            };
        }
        let before = config.transform.take();
        config.transform = Some(Arc::new(move |index, image| {
            let image = match &before {
                Some(before) => before(index, image)?,
                None => image,
            };
            Ok(self.cut(&image, &mut SplitMix64::new(SplitMix64::mix(seed) ^ SplitMix64::mix(index as u64))))
        }));
        config
    }

    fn cut(self, image: &Image, random: &mut SplitMix64) -> Image {
        let (width, height) = (image.width(), image.height());
        let part = match self {
            Self::Padded { pixels } => Part {
                left: random.below(2 * pixels + 1) as isize - pixels as isize,
                top: random.below(2 * pixels + 1) as isize - pixels as isize,
                width,
                height,
            },
            Self::Resized { smallest } => {
                let whole = Part { left: 0, top: 0, width, height };
                (0..TRIES).find_map(|_| draw(width, height, smallest, random)).unwrap_or(whole)
            }
        };
        part.cut(image, random.below(2) == 0)
    }
}

/// A part of an image, which may reach over its borders.
struct Part {
    left: isize,
    top: isize,
    width: usize,
    height: usize,
}

/// A part of between the share `smallest` and all of the image, if the sides drawn fit.
fn draw(width: usize, height: usize, smallest: f64, random: &mut SplitMix64) -> Option<Part> {
    let area = (width * height) as f64 * (smallest + (1.0 - smallest) * random.uniform());
    let [low, high] = ASPECT.map(f64::ln);
    let aspect = (low + (high - low) * random.uniform()).exp();
    let [across, down] = [(area * aspect).sqrt(), (area / aspect).sqrt()].map(|side| side.round() as usize);
    let fits = across > 0 && down > 0 && across <= width && down <= height;
    fits.then(|| Part {
        left: random.below(width - across + 1) as isize,
        top: random.below(height - down + 1) as isize,
        width: across,
        height: down,
    })
}

impl Part {
    fn cut(&self, image: &Image, is_mirrored: bool) -> Image {
        let mut rgb = Vec::with_capacity(3 * self.width * self.height);
        for y in 0..self.height {
            for x in 0..self.width {
                let x = if is_mirrored { self.width - 1 - x } else { x };
                let place = self.left.checked_add_unsigned(x).zip(self.top.checked_add_unsigned(y));
                let place = place.and_then(|(x, y)| Some((usize::try_from(x).ok()?, usize::try_from(y).ok()?)));
                match place.filter(|&(x, y)| x < image.width() && y < image.height()) {
                    Some((x, y)) => rgb.extend(&image.rgb()[3 * (y * image.width() + x)..][..3]),
                    None => rgb.extend([0; 3]),
                }
            }
        }
        Image::new(self.width, self.height, rgb).expect("three bytes were pushed for every pixel")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image() -> Image {
        Image::new(7, 5, (1..=105).collect()).expect("105 bytes")
    }

    #[test]
    fn texts_come_back_and_others_are_refused() {
        for text in ["padded:4", "resized:0.35"] {
            assert_eq!(text.parse::<TrainingCrop>().unwrap().to_string(), text);
        }
        for text in ["padded", "padded:0", "padded:257", "resized:0", "resized:1.5", "resized:nan", "flip:1"] {
            assert!(text.parse::<TrainingCrop>().is_err(), "{text}");
        }
    }

    #[test]
    fn padded_parts_have_the_size_of_the_image_and_black_borders() {
        let crop = TrainingCrop::Padded { pixels: 3 };
        let mut random = SplitMix64::new(1);
        let parts: Vec<Image> = (0..50).map(|_| crop.cut(&image(), &mut random)).collect();
        assert!(parts.iter().all(|part| (part.width(), part.height()) == (7, 5)));
        assert!(parts.iter().any(|part| part.rgb()[..3] == [0; 3]));
        assert!(parts.iter().any(|part| part.rgb()[..3] != [0; 3]));
    }

    #[test]
    fn resized_parts_lie_within_the_image() {
        let crop = TrainingCrop::Resized { smallest: 0.2 };
        let mut random = SplitMix64::new(2);
        for _ in 0..200 {
            let part = crop.cut(&image(), &mut random);
            assert!(part.width() <= 7 && part.height() <= 5 && part.width() * part.height() >= 6);
            assert!(part.rgb().iter().all(|&byte| byte > 0));
        }
    }

    #[test]
    fn the_whole_image_mirrored_or_not_is_a_part_of_share_one() {
        let mut random = SplitMix64::new(3);
        let square = Image::new(2, 2, (1..=12).collect()).expect("12 bytes");
        let mirrored = Image::new(2, 2, vec![4, 5, 6, 1, 2, 3, 10, 11, 12, 7, 8, 9]).expect("12 bytes");
        for _ in 0..20 {
            let part = TrainingCrop::Resized { smallest: 1.0 }.cut(&square, &mut random);
            assert!(part == square || part == mirrored);
        }
    }
}
