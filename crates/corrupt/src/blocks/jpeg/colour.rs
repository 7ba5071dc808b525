//! RGB to YCbCr with halved chroma, and back with the triangle filter.

use flipcast_images::Image;

/// One component, padded to whole blocks.
#[derive(Clone, Debug, PartialEq)]
pub struct Plane {
    /// Samples across that belong to the picture.
    pub width: usize,
    /// Samples down that belong to the picture.
    pub height: usize,
    /// Samples across including the padding, a multiple of 8.
    pub stride: usize,
    /// The samples, a multiple of 8 rows.
    pub samples: Vec<u8>,
}

const HALF: i32 = 1 << 15;
const CHROMA_OFFSET: i32 = (128 << 16) + HALF - 1;

/// Luma at full size and the two chroma planes at half size, padded to blocks as the reference encoder pads.
pub fn split(image: &Image) -> [Plane; 3] {
    let (width, height) = (image.width(), image.height());
    let stride = width.next_multiple_of(16);
    let mut planes: [Vec<u8>; 3] = std::array::from_fn(|_| vec![0; stride * height]);
    let [luma, blue, red] = &mut planes;
    for (y, row) in image.rgb().chunks_exact(3 * width).enumerate() {
        let line = y * stride..y * stride + stride;
        let (luma, blue, red) = (
            &mut luma[line.clone()],
            &mut blue[line.clone()],
            &mut red[line],
        );
        for (x, pixel) in row.chunks_exact(3).enumerate() {
            let [r, g, b] = [pixel[0], pixel[1], pixel[2]].map(i32::from);
            luma[x] = ((19595 * r + 38470 * g + 7471 * b + HALF) >> 16) as u8;
            blue[x] = ((-11059 * r - 21709 * g + 32768 * b + CHROMA_OFFSET) >> 16) as u8;
            red[x] = ((32768 * r - 27439 * g - 5329 * b + CHROMA_OFFSET) >> 16) as u8;
        }
        for line in [luma, blue, red] {
            let edge = line[width - 1];
            line[width..].fill(edge);
        }
    }
    let [luma, blue, red] = planes;
    let luma = Plane {
        width,
        height,
        stride,
        samples: luma,
    };
    [
        pad_rows(luma),
        pad_rows(halve(&blue, width, height)),
        pad_rows(halve(&red, width, height)),
    ]
}

/// Averages 2 x 2 samples, rounding down and up in turn along the row.
fn halve(samples: &[u8], width: usize, height: usize) -> Plane {
    let stride = width.next_multiple_of(16);
    let mut halved = Vec::with_capacity(stride / 2 * height.div_ceil(2));
    for y in 0..height.div_ceil(2) {
        let upper = &samples[2 * y * stride..][..stride];
        let lower = &samples[(2 * y + 1).min(height - 1) * stride..][..stride];
        for (pair, (a, b)) in upper.chunks_exact(2).zip(lower.chunks_exact(2)).enumerate() {
            let sum = u16::from(a[0]) + u16::from(a[1]) + u16::from(b[0]) + u16::from(b[1]);
            halved.push(((sum + 1 + (pair as u16 & 1)) >> 2) as u8);
        }
    }
    Plane {
        width: width.div_ceil(2),
        height: height.div_ceil(2),
        stride: stride / 2,
        samples: halved,
    }
}

/// Repeats the last row until the rows fill whole blocks.
fn pad_rows(mut plane: Plane) -> Plane {
    let last = plane.samples.len() - plane.stride;
    for _ in plane.height..plane.height.next_multiple_of(8) {
        plane.samples.extend_from_within(last..last + plane.stride);
    }
    plane
}

/// The image of a luma plane and two half-size chroma planes.
pub fn merge(planes: &[Plane; 3]) -> Image {
    let [luma, blue, red] = planes;
    let (width, height) = (luma.width, luma.height);
    let mut rgb = vec![0; 3 * width * height];
    let padded = 2 * blue.width;
    let (mut blue_row, mut red_row) = (vec![0; padded], vec![0; padded]);
    let mut column = vec![0; blue.width];
    for (y, out) in rgb.chunks_exact_mut(3 * width).enumerate() {
        double_row(blue, y, &mut column, &mut blue_row);
        double_row(red, y, &mut column, &mut red_row);
        let luma = &luma.samples[y * luma.stride..][..width];
        for (((pixel, &y), &cb), &cr) in out
            .chunks_exact_mut(3)
            .zip(luma)
            .zip(&blue_row)
            .zip(&red_row)
        {
            let (y, cb, cr) = (i32::from(y), i32::from(cb) - 128, i32::from(cr) - 128);
            let r = y + ((91881 * cr + HALF) >> 16);
            let g = y + ((-22554 * cb - 46802 * cr + HALF) >> 16);
            let b = y + ((116_130 * cb + HALF) >> 16);
            pixel[0] = r.clamp(0, 255) as u8;
            pixel[1] = g.clamp(0, 255) as u8;
            pixel[2] = b.clamp(0, 255) as u8;
        }
    }
    Image::new(width, height, rgb).expect("three samples are made per pixel")
}

/// Row `y` of the doubled plane: 3/4 of the nearer and 1/4 of the farther sample, first down, then across.
/// Planes at most two samples wide are repeated instead, as the reference decoder does.
fn double_row(plane: &Plane, y: usize, column: &mut [u16], out: &mut [u8]) {
    let near = y / 2;
    let near_row = &plane.samples[near * plane.stride..][..plane.width];
    if plane.width <= 2 {
        for (pair, &sample) in out.chunks_exact_mut(2).zip(near_row) {
            pair.fill(sample);
        }
        return;
    }
    let far = if y.is_multiple_of(2) {
        near.saturating_sub(1)
    } else {
        (near + 1).min(plane.height - 1)
    };
    let far_row = &plane.samples[far * plane.stride..][..plane.width];
    for ((sum, &near), &far) in column.iter_mut().zip(near_row).zip(far_row) {
        *sum = 3 * u16::from(near) + u16::from(far);
    }
    let last = column.len() - 1;
    out[0] = ((4 * column[0] + 8) >> 4) as u8;
    for (pair, three) in out[1..2 * last + 1]
        .chunks_exact_mut(2)
        .zip(column.windows(2))
    {
        pair[0] = ((3 * three[0] + three[1] + 7) >> 4) as u8;
        pair[1] = ((3 * three[1] + three[0] + 8) >> 4) as u8;
    }
    out[2 * last + 1] = ((4 * column[last] + 7) >> 4) as u8;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grey_survives_any_size() {
        for (width, height) in [(16, 16), (1, 1), (5, 3), (17, 9)] {
            let image =
                Image::new(width, height, vec![90; 3 * width * height]).expect("sizes match");
            assert_eq!(merge(&split(&image)), image);
        }
    }

    #[test]
    fn planes_are_padded_to_whole_blocks() {
        let image = Image::new(17, 9, vec![1; 3 * 17 * 9]).expect("17 x 9");
        let [luma, blue, _] = split(&image);
        assert_eq!((luma.stride, luma.samples.len()), (32, 32 * 16));
        assert_eq!(
            (blue.width, blue.height, blue.stride, blue.samples.len()),
            (9, 5, 16, 16 * 8)
        );
    }
}
