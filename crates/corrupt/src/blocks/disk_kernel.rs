//! The anti-aliased disk of defocus blur, and correlation with it.

use flipcast_images::Image;
use multiversion::multiversion;

use super::border::Border;

/// Weights below this are noise of the disk's own smoothing and are skipped, as the reference filter does.
const NEGLIGIBLE: f32 = f64::EPSILON as f32;

/// A square kernel; its anchor is at `side / 2` both ways.
#[derive(Clone, Debug, PartialEq)]
pub struct DiskKernel {
    side: usize,
    weights: Vec<f32>,
}

/// Weights that differ by less than this share are equal but for the rounding of the kernel's own smoothing.
const SAME_WEIGHT: f64 = 1e-6;
/// The most bytes that a 16-bit sum holds.
const MAX_BYTES: usize = 257;
/// Outputs made together, so that the running sums stay in registers.
const LANES: usize = 32;

/// The taps that share one weight.
struct WeightClass {
    weight: f64,
    /// Rows from the anchor up and down, and column relative to it. Both rows count, or the one if it is the anchor's.
    offsets: Vec<(usize, isize)>,
    bytes: usize,
}

impl DiskKernel {
    /// A disk of `radius`, normalised, then smoothed with a Gaussian of `alias` (3 taps up to radius 8, else 5).
    pub fn new(radius: f64, alias: f64) -> Self {
        let (first, side, taps) = if radius <= 8.0 {
            (-8.0, 17, 3)
        } else {
            (-radius, (2.0 * radius + 1.0).ceil() as usize, 5)
        };
        let at = |i: usize| first + i as f64;
        let inside = |i: usize| at(i / side).powi(2) + at(i % side).powi(2) <= radius * radius;
        let mut disk: Vec<f32> = (0..side * side)
            .map(|i| if inside(i) { 1.0 } else { 0.0 })
            .collect();
        let total: f32 = disk.iter().sum();
        disk.iter_mut().for_each(|v| *v /= total);
        let smooth = smoothing_taps(taps, alias);
        let along_rows = smooth_axis(&disk, side, &smooth, 1);
        let weights = smooth_axis(&along_rows, side, &smooth, side);
        Self { side, weights }
    }

    /// Rows and columns.
    pub fn side(&self) -> usize {
        self.side
    }

    /// The weights, row by row.
    pub fn weights(&self) -> &[f32] {
        &self.weights
    }

    /// The taps by weight; a tap stands for itself and for the one mirrored in the anchor's row.
    ///
    /// A class has the mean weight of its taps, so that the weights add up to what they did.
    fn classes(&self) -> Vec<WeightClass> {
        let anchor = self.side / 2;
        let at = |row: usize, column: usize| f64::from(self.weights[row * self.side + column]);
        let mut taps: Vec<(f64, usize, isize)> = Vec::new();
        for row in 0..=anchor.min(self.side - 1 - anchor) {
            for column in 0..self.side {
                let weight = (at(anchor - row, column) + at(anchor + row, column)) / 2.0;
                if weight > f64::from(NEGLIGIBLE) {
                    taps.push((weight, row, column as isize - anchor as isize));
                }
            }
        }
        taps.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut classes: Vec<WeightClass> = Vec::new();
        for (weight, row, column) in taps {
            let bytes = if row == 0 { 1 } else { 2 };
            match classes.last_mut() {
                Some(class)
                    if weight - class.weight <= SAME_WEIGHT * weight
                        && class.bytes + bytes <= MAX_BYTES =>
                {
                    let sum = class.weight * class.bytes as f64 + weight * bytes as f64;
                    class.bytes += bytes;
                    class.weight = sum / class.bytes as f64;
                    class.offsets.push((row, column));
                }
                _ => classes.push(WeightClass {
                    weight,
                    offsets: vec![(row, column)],
                    bytes,
                }),
            }
        }
        classes
    }

    /// The taps of an even kernel's first row, which has no mirrored one.
    fn lone_row(&self) -> Vec<(f64, isize)> {
        if self.side % 2 == 1 {
            return Vec::new();
        }
        let anchor = (self.side / 2) as isize;
        let taps = self.weights[..self.side]
            .iter()
            .zip(-anchor..)
            .filter(|(weight, _)| **weight > NEGLIGIBLE);
        taps.map(|(&weight, column)| (f64::from(weight), column))
            .collect()
    }

    /// Correlates every channel of `image` with the kernel, mirrored without repeating the edge, and truncates.
    ///
    /// Bytes that share a weight are added up as integers first.
    pub fn correlate(&self, image: &Image) -> Vec<u8> {
        let (width, height) = (image.width(), image.height());
        let (reach, stride) = (self.side / 2 + 1, 3 * width);
        let padded = pad_columns(image, reach);
        let padded_stride = padded.len() / height;
        let (classes, lone_row) = (self.classes(), self.lone_row());
        let rows = classes
            .iter()
            .flat_map(|class| &class.offsets)
            .map(|&(row, _)| row + 1)
            .max()
            .unwrap_or(0);
        let source =
            |y: isize| &padded[Border::Mirror101.map(y, height) * padded_stride..][..padded_stride];
        let from = |column: isize| 3 * (reach as isize + column) as usize;
        let mut out = Vec::with_capacity(image.rgb().len());
        let mut folded = vec![0_u16; rows * padded_stride];
        for y in 0..height as isize {
            for (row, folded) in (0..).zip(folded.chunks_exact_mut(padded_stride)) {
                if row == 0 {
                    folded.copy_from_slice(source(y));
                    continue;
                }
                let rows = source(y - row).iter().zip(source(y + row));
                for (sum, (above, below)) in folded.iter_mut().zip(rows) {
                    *sum = above + below;
                }
            }
            let first_row = source(y - (self.side / 2) as isize);
            for start in (0..stride).step_by(LANES) {
                let mut total = [0.0_f64; LANES];
                for class in &classes {
                    let places = class
                        .offsets
                        .iter()
                        .map(|&(row, column)| row * padded_stride + start + from(column));
                    let sums = sum_at(&folded, places);
                    for (value, sum) in total.iter_mut().zip(sums) {
                        *value += class.weight * f64::from(sum);
                    }
                }
                for &(weight, column) in &lone_row {
                    let bytes = &first_row[start + from(column)..][..LANES];
                    for (value, &byte) in total.iter_mut().zip(bytes) {
                        *value += weight * f64::from(byte);
                    }
                }
                out.extend(
                    total[..LANES.min(stride - start)]
                        .iter()
                        .map(|&value| value as u8),
                );
            }
        }
        out
    }
}

/// The sum of the chunks of `values` that start at `places`. A function of its own, so that the sums stay in registers.
#[inline(never)]
fn sum_at(values: &[u16], places: impl Iterator<Item = usize>) -> [u16; LANES] {
    let mut sums = [0; LANES];
    for place in places {
        let chunk: &[u16; LANES] = values[place..]
            .first_chunk()
            .expect("rows end with a chunk of padding");
        for (sum, value) in sums.iter_mut().zip(chunk) {
            *sum += value;
        }
    }
    sums
}

/// The rows of `image` in 16 bits, continued by `reach` mirrored pixels on both sides and a chunk of zeros.
fn pad_columns(image: &Image, reach: usize) -> Vec<u16> {
    let width = image.width();
    let origin: Vec<usize> = (0..width + 2 * reach)
        .map(|x| 3 * Border::Mirror101.map(x as isize - reach as isize, width))
        .collect();
    let mut padded = Vec::with_capacity((3 * origin.len() + LANES) * image.height());
    for row in image.rgb().chunks_exact(3 * width) {
        for &from in &origin {
            padded.extend(row[from..from + 3].iter().map(|&byte| u16::from(byte)));
        }
        padded.resize(padded.len() + LANES, 0);
    }
    padded
}

fn smoothing_taps(count: usize, alias: f64) -> Vec<f32> {
    let centre = (count / 2) as f64;
    let raw: Vec<f64> = (0..count)
        .map(|i| (-(i as f64 - centre).powi(2) / (2.0 * alias * alias)).exp())
        .collect();
    let total: f64 = raw.iter().sum();
    raw.iter().map(|v| (v / total) as f32).collect()
}

/// One smoothing pass over the axis whose neighbours are `step` apart.
fn smooth_axis(disk: &[f32], side: usize, taps: &[f32], step: usize) -> Vec<f32> {
    let half = (taps.len() / 2) as isize;
    (0..disk.len())
        .map(|i| {
            let position = i / step % side;
            let line = i - position * step;
            taps.iter().zip(-half..).fold(0.0, |sum, (tap, offset)| {
                sum + tap
                    * disk[line + step * Border::Mirror101.map(position as isize + offset, side)]
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_smaller_than_a_pixel_is_a_point() {
        let kernel = DiskKernel::new(0.75, 0.025);
        assert_eq!(
            kernel.weights().iter().filter(|&&w| w > NEGLIGIBLE).count(),
            1
        );
        assert_eq!(kernel.weights()[8 * 17 + 8], 1.0);
    }

    #[test]
    fn a_fractional_radius_above_eight_gives_an_even_kernel() {
        assert_eq!(DiskKernel::new(8.5, 0.5).side(), 18);
        assert_eq!(DiskKernel::new(10.0, 0.5).side(), 21);
    }
}
