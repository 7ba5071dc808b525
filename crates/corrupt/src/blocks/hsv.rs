//! Hue, saturation and value as scikit-image computes them, double precision.

use flipcast_images::Image;

use super::pixels::{finish, unit_table, with_size_of};

/// RGB in 0..1 to hue (0..1), saturation, value. Hue and saturation are 0 where undefined.
#[inline]
pub fn from_rgb([r, g, b]: [f64; 3]) -> [f64; 3] {
    let value = r.max(g).max(b);
    let spread = value - r.min(g).min(b);
    if spread == 0.0 {
        return [0.0, 0.0, value];
    }
    // On ties the later channel decides.
    let sixths = if b == value {
        4.0 + (r - g) / spread
    } else if g == value {
        2.0 + (b - r) / spread
    } else {
        (g - b) / spread
    };
    let turn = sixths / 6.0;
    let hue = if turn < 0.0 { turn + 1.0 } else { turn };
    [hue, spread / value, value]
}

/// The inverse of [`from_rgb`].
#[inline]
pub fn to_rgb([hue, saturation, value]: [f64; 3]) -> [f64; 3] {
    let sixths = hue * 6.0;
    let sextant = sixths.floor();
    let fraction = sixths - sextant;
    let low = value * (1.0 - saturation);
    let falling = value * (1.0 - fraction * saturation);
    let rising = value * (1.0 - (1.0 - fraction) * saturation);
    match sextant as i32 {
        1 => [falling, value, low],
        2 => [low, value, rising],
        3 => [low, falling, value],
        4 => [rising, low, value],
        5 => [value, low, falling],
        _ => [value, rising, low],
    }
}

/// The image with `change` made to the hue, saturation and value of every pixel.
#[inline]
pub fn map_pixels(image: &Image, change: impl Fn([f64; 3]) -> [f64; 3]) -> Image {
    let unit = unit_table();
    let mut rgb = Vec::with_capacity(image.rgb().len());
    for pixel in image.rgb().as_chunks::<3>().0 {
        rgb.extend(to_rgb(change(from_rgb(pixel.map(|byte| unit[usize::from(byte)])))).map(finish));
    }
    with_size_of(image, rgb)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_trip_returns_the_colour() {
        for code in 0..512_u32 {
            let rgb = [code & 7, code >> 3 & 7, code >> 6].map(|v| f64::from(v) / 7.0);
            let back = to_rgb(from_rgb(rgb));
            for (a, b) in rgb.iter().zip(back) {
                assert!((a - b).abs() < 1e-14, "{rgb:?} came back as {back:?}");
            }
        }
    }

    #[test]
    fn grey_has_neither_hue_nor_saturation() {
        assert_eq!(from_rgb([0.4; 3]), [0.0, 0.0, 0.4]);
    }
}
