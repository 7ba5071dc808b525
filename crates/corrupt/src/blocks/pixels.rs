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
    fn finish_truncates_clips_and_maps_nan_to_black() {
        assert_eq!(finish(0.999), 254);
        assert_eq!(finish(-3.0), 0);
        assert_eq!(finish(7.0), 255);
        assert_eq!(finish(f64::NAN), 0);
    }
}
