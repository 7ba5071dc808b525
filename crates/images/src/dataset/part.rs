use std::sync::Arc;

use super::{DataError, Dataset, Half, Split, Subset, take_evenly};

/// A part of a dataset, written behind its path.
///
/// | written | means |
/// |---|---|
/// | `PATH#train`, `PATH#test` | the training or test images, where both are stored side by side |
/// | `PATH#first-half`, `PATH#second-half` | halves by [`split_halves`](super::split_halves) with seed 0 |
/// | `PATH#first-half:7` | the same with seed 7 |
/// | `PATH#sample:500`, `PATH#sample:500:7` | 500 images by [`take_evenly`] with seed 0 or 7 |
///
/// Parts can follow each other: `cifar10#train#first-half:7`. A path that exists is taken as it is, and so is one with
/// anything else behind its `#`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Training or test images.
    Split(Split),
    /// One of two halves.
    Half {
        /// Which.
        half: Half,
        /// How the images are shared out.
        seed: u64,
    },
    /// Some images from all over the dataset.
    Sample {
        /// How many.
        images: usize,
        /// Which.
        seed: u64,
    },
}

impl Part {
    /// The last part named in `spec` and what stands before it.
    pub fn split_off(spec: &str) -> Option<(&str, Self)> {
        let (path, part) = spec.rsplit_once('#')?;
        Some((path, Self::parse(part)?)).filter(|_| !path.is_empty())
    }

    fn parse(text: &str) -> Option<Self> {
        let (name, seed) = match text.split_once(':') {
            Some((name, seed)) => (name, Some(seed)),
            None => (text, None),
        };
        let number = |text: &str| {
            let digits = text.bytes().all(|byte| byte.is_ascii_digit());
            text.parse::<u64>().ok().filter(|_| digits)
        };
        if name == "sample" {
            let (images, seed) = match seed?.split_once(':') {
                Some((images, seed)) => (number(images)?, number(seed)?),
                None => (number(seed?)?, 0),
            };
            let images = usize::try_from(images).ok().filter(|images| *images > 0)?;
            return Some(Self::Sample { images, seed });
        }
        let half = match (name, seed) {
            ("train", None) => return Some(Self::Split(Split::Train)),
            ("test", None) => return Some(Self::Split(Split::Test)),
            ("first-half", _) => Half::First,
            ("second-half", _) => Half::Second,
            _ => return None,
        };
        let seed = match seed {
            None => 0,
            Some(digits) => number(digits)?,
        };
        Some(Self::Half { half, seed })
    }
}

/// Images from all over a dataset that was opened from `path`; there must be as many.
pub(super) fn take_sample(
    path: &str,
    dataset: Box<dyn Dataset>,
    images: usize,
    seed: u64,
) -> Result<Subset, DataError> {
    if dataset.len() < images {
        return Err(DataError::TooFew { path: path.into(), found: dataset.len(), expected: images });
    }
    take_evenly(Arc::from(dataset), images, seed)
}

/// Half of a dataset that was opened from `path`.
pub(super) fn take_half(path: &str, dataset: Box<dyn Dataset>, half: Half, seed: u64) -> Result<Subset, DataError> {
    let subset = half.of(Arc::from(dataset), seed)?;
    if subset.is_empty() {
        return Err(DataError::NoImages { path: path.into() });
    }
    Ok(subset)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_known_parts_are_split_off() {
        let half = |half, seed| Part::Half { half, seed };
        for (spec, expected) in [
            ("a#train", Some(("a", Part::Split(Split::Train)))),
            ("a/b#test", Some(("a/b", Part::Split(Split::Test)))),
            ("a#first-half", Some(("a", half(Half::First, 0)))),
            ("a#second-half:7", Some(("a", half(Half::Second, 7)))),
            ("a#train#first-half:1", Some(("a#train", half(Half::First, 1)))),
            ("a#test#sample:50:3", Some(("a#test", Part::Sample { images: 50, seed: 3 }))),
            ("a#sample:50", Some(("a", Part::Sample { images: 50, seed: 0 }))),
            ("a#sample", None),
            ("a#sample:0", None),
            ("a#sample:5:", None),
            ("a", None),
            ("#train", None),
            ("a#trian", None),
            ("a#train:3", None),
            ("a#first-half:", None),
            ("a#first-half:+1", None),
            ("a#first-half:-1", None),
            ("a#first-half:99999999999999999999", None),
            ("c#/train", None),
        ] {
            assert_eq!(Part::split_off(spec), expected, "{spec}");
        }
    }
}
