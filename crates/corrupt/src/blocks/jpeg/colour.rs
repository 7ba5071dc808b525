//! RGB to YCbCr with halved chroma, and back with the triangle filter.

use flipcast_images::Image;
use multiversion::multiversion;

/// Blocks whose equal rows are handed out together.
const TOGETHER: usize = 8;

/// One component, padded to whole blocks.
///
/// The samples are stored in eight parts: part `n` has row `n` of every block, band after band. So equal rows of
/// consecutive blocks lie side by side, also where one band of blocks ends and the next begins.
#[derive(Clone, Debug, PartialEq)]
pub struct Plane {
    /// Samples across that belong to the picture.
    pub width: usize,
    /// Samples down that belong to the picture.
    pub height: usize,
    /// Samples across including the padding, a multiple of 8.
    pub stride: usize,
    /// Bytes of a part, a multiple of `8 * TOGETHER`; what no block uses is 0.
    part: usize,
    samples: Vec<u8>,
}

impl Plane {
    pub(super) fn black(width: usize, height: usize, stride: usize) -> Self {
        let part = (height.div_ceil(8) * stride).next_multiple_of(8 * TOGETHER);
        Self { width, height, stride, part, samples: vec![0; 8 * part] }
    }

    fn place(&self, y: usize) -> usize {
        y % 8 * self.part + y / 8 * self.stride
    }

    /// A row with its padding; rows below the picture belong to the last blocks.
    pub fn row(&self, y: usize) -> &[u8] {
        &self.samples[self.place(y)..][..self.stride]
    }

    pub(super) fn row_mut(&mut self, y: usize) -> &mut [u8] {
        let place = self.place(y);
        &mut self.samples[place..][..self.stride]
    }

    /// The eight rows of all blocks, [`TOGETHER`] blocks at a time.
    pub fn block_rows(&mut self) -> Vec<&mut [[u8; 8 * TOGETHER]]> {
        let parts = self.samples.chunks_exact_mut(self.part.max(1));
        parts.map(|part| part.as_chunks_mut().0).collect()
    }

    /// Repeats the last row until the rows fill whole blocks.
    fn pad_rows(mut self) -> Self {
        if let Some(last) = self.height.checked_sub(1) {
            let from = self.place(last);
            for y in self.height..self.height.next_multiple_of(8) {
                let to = self.place(y);
                self.samples.copy_within(from..from + self.stride, to);
            }
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
        convert_row(first, luma.row_mut(2 * y), &mut upper);
        if second.is_empty() {
            lower.clone_from(&upper);
        } else {
            convert_row(second, luma.row_mut(2 * y + 1), &mut lower);
        }
        for (plane, (upper, lower)) in chroma.iter_mut().zip(upper.iter().zip(&lower)) {
            halve(upper, lower, &rounding, plane.row_mut(y));
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
        let (r, g, b) = (pixel[0], pixel[1], pixel[2]);
        (*luma, *blue, *red) = convert(r, g, b);
    }
    for line in [luma, blue, red] {
        let edge = line[pixels.len() - 1];
        line[pixels.len()..].fill(edge);
    }
}

/// Luma, blue and red difference of a pixel: `(19595 r + 38470 g + 7471 b) / 65536` rounded, and for the others
/// `(-11059 r - 21709 g + 32768 b) / 65536` and `(32768 r - 27439 g - 5329 b) / 65536`, plus 128, halves down.
///
/// A factor `256 p + q` is split into bytes, so that 16 bits suffice: `(256 P + Q) / 65536` is `(P + Q / 256) / 256`,
/// both rounded down. With `255 - r` for `-r` no factor is negative; the factors then add up to 65536, hence each of
/// `P` (plus 255) and `Q` to less than 65536.
#[inline(always)]
fn convert(r: u8, g: u8, b: u8) -> (u8, u8, u8) {
    let wide = u16::from;
    let whole = |p: u16, q: u16| ((p + (q >> 8)) >> 8) as u8;
    let (not_r, not_g, not_b) = (wide(!r), wide(!g), wide(!b));
    let (r, g, b) = (wide(r), wide(g), wide(b));
    (
        whole(76 * r + 150 * g + 29 * b + 128, 139 * r + 70 * g + 47 * b),
        whole(43 * not_r + 84 * not_g + 128 * b + 255, 51 * not_r + 205 * not_g + 255),
        whole(128 * r + 107 * not_g + 20 * not_b + 255, 47 * not_g + 209 * not_b + 255),
    )
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
        let luma = &luma.row(y)[..width];
        let samples = luma.iter().zip(&blue_row).zip(&red_row);
        for (pixel, ((&y, &cb), &cr)) in out.as_chunks_mut::<3>().0.iter_mut().zip(samples) {
            let y = i16::from(y);
            // 1.402, -0.344 and -0.714, 1.772 less the whole parts, which need no product.
            let r = y + cr + scaled(26345, cr);
            let g = y - cr + green(cb, cr);
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

/// `(-22554 blue + 18734 red) / 65536` rounded, halves up; the factors are split into bytes as in [`convert`].
#[inline(always)]
fn green(blue: i16, red: i16) -> i16 {
    let low = (46 * red - 26 * blue) >> 8;
    (73 * red - 88 * blue + low + 128) >> 8
}

/// Row `y` of the doubled plane, less 128: 3/4 of the nearer and 1/4 of the farther sample, first down, then across.
/// Planes at most two samples wide are repeated instead, as the reference decoder does.
#[inline(always)]
fn double_row(plane: &Plane, y: usize, column: &mut [i16], out: &mut [i16]) {
    let near = y / 2;
    let near_row = &plane.row(near)[..plane.width];
    let pairs = out.as_chunks_mut::<2>().0;
    if plane.width <= 2 {
        for (pair, &sample) in pairs.iter_mut().zip(near_row) {
            pair.fill(i16::from(sample) - 128);
        }
        return;
    }
    let far = if y.is_multiple_of(2) { near.saturating_sub(1) } else { (near + 1).min(plane.height - 1) };
    let far_row = &plane.row(far)[..plane.width];
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
            let image = Image::new(width, height, vec![90; 3 * width * height]).expect("sizes match");
            assert_eq!(merge(&split(&image)), image);
        }
    }

    #[test]
    fn planes_are_padded_to_whole_blocks() {
        let image = Image::new(17, 9, vec![1; 3 * 17 * 9]).expect("17 x 9");
        let [luma, blue, _] = split(&image);
        assert_eq!((luma.stride, luma.part), (32, 64));
        assert_eq!((blue.width, blue.height, blue.stride), (9, 5, 16));
        assert!((0..16).all(|y| luma.row(y) == [1; 32]));
        assert!((0..8).all(|y| blue.row(y) == [128; 16]));
    }

    #[test]
    fn bytes_of_factors_convert_as_whole_factors_do() {
        let half = 1 << 15;
        let offset = (128 << 16) + half - 1;
        let levels = || (0..=255_u8).step_by(5);
        for r in levels() {
            for g in levels() {
                for b in levels() {
                    let (wr, wg, wb) = (i32::from(r), i32::from(g), i32::from(b));
                    let expected = (
                        (19595 * wr + 38470 * wg + 7471 * wb + half) >> 16,
                        (-11059 * wr - 21709 * wg + 32768 * wb + offset) >> 16,
                        (32768 * wr - 27439 * wg - 5329 * wb + offset) >> 16,
                    );
                    let (luma, blue, red) = convert(r, g, b);
                    assert_eq!((luma.into(), blue.into(), red.into()), expected);
                }
            }
        }
        for blue in -128..128 {
            for red in -128..128 {
                let expected = (-22554 * i32::from(blue) + 18734 * i32::from(red) + half) >> 16;
                assert_eq!(i32::from(green(blue, red)), expected);
            }
        }
    }
}
