//! RGB to YCbCr with halved chroma, and back with the triangle filter.

use flipcast_images::Image;
use multiversion::multiversion;

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

impl Plane {
    fn black(width: usize, height: usize, stride: usize) -> Self {
        Self {
            width,
            height,
            stride,
            samples: vec![0; stride * height.next_multiple_of(8)],
        }
    }

    fn row(&mut self, y: usize) -> &mut [u8] {
        &mut self.samples[y * self.stride..][..self.stride]
    }

    /// Repeats the last row until the rows fill whole blocks.
    fn pad_rows(mut self) -> Self {
        let end = self.height * self.stride;
        for below in (end..self.samples.len()).step_by(self.stride) {
            self.samples.copy_within(end - self.stride..end, below);
        }
        self
    }
}

/// Luma at full size and the two chroma planes at half size, padded to blocks as the reference encoder pads.
#[multiversion(targets("x86_64+avx2+fma"))]
pub fn split(image: &Image) -> [Plane; 3] {
    let (width, height) = (image.width(), image.height());
    let stride = width.next_multiple_of(16);
    let mut luma = Plane::black(width, height, stride);
    let mut chroma: [Plane; 2] =
        std::array::from_fn(|_| Plane::black(width.div_ceil(2), height.div_ceil(2), stride / 2));
    let mut upper = [vec![0; stride], vec![0; stride]];
    let mut lower = upper.clone();
    let rounding: Vec<u16> = (0..stride / 2).map(|x| 1 + (x % 2) as u16).collect();
    for (y, pair) in image.rgb().chunks(6 * width).enumerate() {
        let (first, second) = pair.split_at(3 * width);
        convert_row(first, luma.row(2 * y), &mut upper);
        if second.is_empty() {
            lower.clone_from(&upper);
        } else {
            convert_row(second, luma.row(2 * y + 1), &mut lower);
        }
        for (plane, (upper, lower)) in chroma.iter_mut().zip(upper.iter().zip(&lower)) {
            halve(upper, lower, &rounding, plane.row(y));
        }
    }
    let [blue, red] = chroma;
    [luma.pad_rows(), blue.pad_rows(), red.pad_rows()]
}

/// The luma and the two chroma samples of a row of pixels, the last of each repeated to the end.
#[inline(always)]
fn convert_row(rgb: &[u8], luma: &mut [u8], [blue, red]: &mut [Vec<u8>; 2]) {
    let pixels = rgb.as_chunks::<3>().0;
    let samples = luma.iter_mut().zip(&mut *blue).zip(&mut *red);
    for (pixel, ((luma, blue), red)) in pixels.iter().zip(samples) {
        // Read one by one: as an array they would be one odd-sized load.
        let (r, g, b) = (
            i32::from(pixel[0]),
            i32::from(pixel[1]),
            i32::from(pixel[2]),
        );
        *luma = ((19595 * r + 38470 * g + 7471 * b + HALF) >> 16) as u8;
        *blue = ((-11059 * r - 21709 * g + 32768 * b + CHROMA_OFFSET) >> 16) as u8;
        *red = ((32768 * r - 27439 * g - 5329 * b + CHROMA_OFFSET) >> 16) as u8;
    }
    for line in [luma, blue, red] {
        let edge = line[pixels.len() - 1];
        line[pixels.len()..].fill(edge);
    }
}

/// Averages 2 x 2 samples; `rounding` goes down and up in turn along the row.
#[inline(always)]
fn halve(upper: &[u8], lower: &[u8], rounding: &[u16], out: &mut [u8]) {
    let squares = upper.as_chunks().0.iter().zip(lower.as_chunks().0);
    for ((slot, (&a, &b)), round) in out.iter_mut().zip(squares).zip(rounding) {
        let (a, b) = (u16::from_le_bytes(a), u16::from_le_bytes(b));
        *slot = (((a & 255) + (a >> 8) + (b & 255) + (b >> 8) + round) >> 2) as u8;
    }
}

/// The image of a luma plane and two half-size chroma planes.
#[multiversion(targets("x86_64+avx2+fma"))]
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
        let samples = luma.iter().zip(&blue_row).zip(&red_row);
        for (pixel, ((&y, &cb), &cr)) in out.as_chunks_mut::<3>().0.iter_mut().zip(samples) {
            let y = i16::from(y);
            // 1.402, -0.344 and -0.714, 1.772 less the whole parts, which need no product.
            let both = -22554 * i32::from(cb) + 18734 * i32::from(cr);
            let r = y + cr + scaled(26345, cr);
            let g = y - cr + ((both + HALF) >> 16) as i16;
            let b = y + 2 * cb + scaled(-14942, cb);
            pixel[0] = r.clamp(0, 255) as u8;
            pixel[1] = g.clamp(0, 255) as u8;
            pixel[2] = b.clamp(0, 255) as u8;
        }
    }
    Image::new(width, height, rgb).expect("three samples are made per pixel")
}

/// `factor * chroma / 65536` rounded, halves up: the floor of a half of one more than the floor of the double.
#[inline(always)]
fn scaled(factor: i16, chroma: i16) -> i16 {
    let doubled = (i32::from(factor) * i32::from(2 * chroma)) >> 16;
    (doubled as i16 + 1) >> 1
}

/// Row `y` of the doubled plane, less 128: 3/4 of the nearer and 1/4 of the farther sample, first down, then across.
/// Planes at most two samples wide are repeated instead, as the reference decoder does.
#[inline(always)]
fn double_row(plane: &Plane, y: usize, column: &mut [i16], out: &mut [i16]) {
    let near = y / 2;
    let near_row = &plane.samples[near * plane.stride..][..plane.width];
    let pairs = out.as_chunks_mut::<2>().0;
    if plane.width <= 2 {
        for (pair, &sample) in pairs.iter_mut().zip(near_row) {
            pair.fill(i16::from(sample) - 128);
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
        *sum = 3 * i16::from(near) + i16::from(far) - 4 * 128;
    }
    let last = column.len() - 1;
    out[0] = (4 * column[0] + 8) >> 4;
    let inner = out[1..2 * last + 1].as_chunks_mut::<2>().0.iter_mut();
    for ((pair, &left), &right) in inner.zip(&column[..last]).zip(&column[1..]) {
        pair[0] = (3 * left + right + 7) >> 4;
        pair[1] = (3 * right + left + 8) >> 4;
    }
    out[2 * last + 1] = (4 * column[last] + 7) >> 4;
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
