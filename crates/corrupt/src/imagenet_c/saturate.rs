//! `saturate`: scales and shifts the saturation of every pixel in HSV and clips. Nothing random.
//!
//! Grey has no hue; it counts as 0, so an offset tints grey red, as published.

use flipcast_images::Image;

use crate::blocks::hsv;
use crate::job::Job;

/// The constants of one severity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Constants {
    /// Multiplies the saturation.
    pub factor: f64,
    /// Added afterwards.
    pub offset: f64,
}

impl Constants {
    /// From a row of the registry: `[factor, offset]`.
    pub fn from_row(row: &[f64]) -> Self {
        Self { factor: row[0], offset: row[1] }
    }
}

/// Changes the saturation of the image.
pub fn apply(image: &Image, constants: &Constants) -> Image {
    hsv::map_pixels(image, |[hue, saturation, value]| {
        [hue, (saturation * constants.factor + constants.offset).clamp(0.0, 1.0), value]
    })
}

pub(crate) fn run(job: &mut Job<'_>) -> Image {
    apply(job.image, &Constants::from_row(job.row))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grey_turns_red_when_the_saturation_is_shifted() {
        let grey = Image::new(1, 1, vec![128; 3]).expect("1 x 1");
        let after = |factor, offset| apply(&grey, &Constants { factor, offset }).into_rgb();
        assert_eq!(after(5.0, 0.1), [128, 115, 115]);
        assert_eq!(after(20.0, 0.2), [128, 102, 102]);
    }
}
