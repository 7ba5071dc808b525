//! Bytes to unit floats and back.

use flipcast_images::Image;

/// `byte / 255` in double precision for every byte.
pub fn unit_table() -> [f64; 256] {
    std::array::from_fn(|byte| byte as f64 / 255.0)
}

/// `byte / 255` in single precision for every byte.
pub fn unit_table_f32() -> [f32; 256] {
    std::array::from_fn(|byte| byte as f32 / 255.0)
}

/// The samples of `image` on the 0 to 1 scale, double precision.
pub fn to_unit(image: &Image) -> Vec<f64> {
    let table = unit_table();
    image.rgb().iter().map(|&byte| table[usize::from(byte)]).collect()
}

/// The samples of `image` on the 0 to 1 scale, single precision.
pub fn to_unit_f32(image: &Image) -> Vec<f32> {
    let table = unit_table_f32();
    image.rgb().iter().map(|&byte| table[usize::from(byte)]).collect()
}

/// Clips to 0..1, scales to 255 and truncates; the published sets never round. NaN becomes 0.
#[inline]
pub fn finish(unit: f64) -> u8 {
    (unit.clamp(0.0, 1.0) * 255.0) as u8
}

/// [`finish`] in single precision.
#[inline]
pub fn finish_f32(unit: f32) -> u8 {
    (unit.clamp(0.0, 1.0) * 255.0) as u8
}

/// The nearest byte to a grey level, for results that no published set fixes. NaN becomes 0.
#[inline]
pub fn round_to_byte(level: f32) -> u8 {
    (level + 0.5) as u8
}

/// The image with `change` made to every sample.
pub fn map_bytes(image: &Image, change: impl Fn(u8) -> u8) -> Image {
    let table: [u8; 256] = std::array::from_fn(|byte| change(byte as u8));
    with_size_of(image, image.rgb().iter().map(|&byte| table[usize::from(byte)]).collect())
}

/// The length that shares of the side refer to.
pub fn shorter_side(image: &Image) -> f64 {
    image.width().min(image.height()) as f64
}

/// An image of the size of `like` from `rgb`.
///
/// # Panics
/// When `rgb` does not hold three bytes per pixel of `like`: the callers make exactly that many.
pub fn with_size_of(like: &Image, rgb: Vec<u8>) -> Image {
    Image::new(like.width(), like.height(), rgb).expect("one output sample is made per input sample")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn untouched_bytes_survive_the_round_trip() {
        let (wide, single) = (unit_table(), unit_table_f32());
        for byte in 0..=255_u8 {
            assert_eq!(finish(wide[usize::from(byte)]), byte);
            assert_eq!(finish_f32(single[usize::from(byte)]), byte);
        }
    }

    #[test]
    fn levels_round_to_the_nearest_byte() {
        for byte in 0..=255_u8 {
            for off in [-0.49, 0.0, 0.49] {
                assert_eq!(round_to_byte(f32::from(byte) + off), byte);
            }
        }
        assert_eq!([-7.0, 255.9, 1e9, f32::NAN].map(round_to_byte), [0, 255, 255, 0]);
    }

    #[test]
    fn finish_truncates_clips_and_maps_nan_to_black() {
        assert_eq!(finish(0.999), 254);
        assert_eq!(finish(-3.0), 0);
        assert_eq!(finish(7.0), 255);
        assert_eq!(finish(f64::NAN), 0);
    }
}
