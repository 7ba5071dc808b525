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
const LANES: usize = 64;
/// Outputs that are truncated together, so that their weighted sums stay in registers.
const WIDE_LANES: usize = 32;

/// The sums of one class at neighbouring places, so placed that no vector crosses a cache line.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Sums([u16; LANES]);

/// Runs at least this long are read as the difference of two running sums.
const LONG_RUN: usize = 3;

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
        let (first, side, taps) =
            if radius <= 8.0 { (-8.0, 17, 3) } else { (-radius, (2.0 * radius + 1.0).ceil() as usize, 5) };
        let at = |i: usize| first + i as f64;
        let inside = |i: usize| at(i / side).powi(2) + at(i % side).powi(2) <= radius * radius;
        let mut disk: Vec<f32> = (0..side * side).map(|i| if inside(i) { 1.0 } else { 0.0 }).collect();
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
                Some(class) if weight - class.weight <= SAME_WEIGHT * weight && class.bytes + bytes <= MAX_BYTES => {
                    let sum = class.weight * class.bytes as f64 + weight * bytes as f64;
                    class.bytes += bytes;
                    class.weight = sum / class.bytes as f64;
                    class.offsets.push((row, column));
                }
                _ => classes.push(WeightClass { weight, offsets: vec![(row, column)], bytes }),
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
        let taps = self.weights[..self.side].iter().zip(-anchor..).filter(|(weight, _)| **weight > NEGLIGIBLE);
        taps.map(|(&weight, column)| (f64::from(weight), column)).collect()
    }

    /// Correlates every channel of `image` with the kernel, mirrored without repeating the edge, and truncates.
    ///
    /// Bytes that share a weight are added up as integers first.
    pub fn correlate(&self, image: &Image) -> Vec<u8> {
        let reach = self.side / 2 + 1;
        let classes = self.classes();
        let rows = classes.iter().flat_map(|class| &class.offsets).map(|&(row, _)| row + 1).max().unwrap_or(0);
        let (width, height) = (3 * image.width(), image.height());
        let stride = width + 6 * reach + LANES;
        let from = |column: isize| 3 * (reach as isize + column) as usize;
        let at = |row: usize, column: isize| row * stride + from(column);
        let mut classes: Vec<Places> = classes.into_iter().map(|class| class.places(rows, at)).collect();
        classes.extend(self.lone_row().into_iter().map(|(weight, column)| Places {
            weight,
            added: vec![at(2 * rows, column)],
            removed: Vec::new(),
        }));
        let padded = pad_columns(image, reach);
        let running = running_sums(&padded, stride);
        let source = |y: isize| Border::Mirror101.map(y, height) * stride;
        let mut out = vec![0; image.rgb().len()];
        // Rows folded at the anchor, running sums folded likewise, and the row that has no mirrored one.
        let mut folded = vec![0; (2 * rows + 1) * stride];
        let mut sums = vec![Sums([0; LANES]); classes.len()];
        for (y, out) in (0..).zip(out.chunks_exact_mut(width)) {
            let (plain, rest) = folded.split_at_mut(rows * stride);
            let (folded_running, lone) = rest.split_at_mut(rows * stride);
            for (folded, rows) in [(plain, &padded), (folded_running, &running)] {
                for (offset, folded) in (0..).zip(folded.chunks_exact_mut(stride)) {
                    let (above, below) = (source(y - offset), source(y + offset));
                    if offset == 0 {
                        folded.copy_from_slice(&rows[above..above + stride]);
                    } else {
                        add_rows(folded, &rows[above..], &rows[below..]);
                    }
                }
            }
            lone.copy_from_slice(&padded[source(y - (self.side / 2) as isize)..][..stride]);
            for (i, out) in out.chunks_mut(LANES).enumerate() {
                sum_places(&mut sums, &folded[i * LANES..], &classes);
                weigh(out, &sums, &classes);
            }
        }
        out
    }
}

impl WeightClass {
    /// Where to read in folded rows followed by as many rows of folded running sums; `at` is the place of an offset.
    fn places(mut self, rows: usize, at: impl Fn(usize, isize) -> usize) -> Places {
        self.offsets.sort_unstable();
        let (mut added, mut removed) = (Vec::new(), Vec::new());
        for run in self.offsets.chunk_by(|a, b| a.0 == b.0 && a.1 + 1 == b.1) {
            let (row, first) = run[0];
            if run.len() < LONG_RUN {
                added.extend(run.iter().map(|&(row, column)| at(row, column)));
            } else {
                added.push(at(rows + row, first + run.len() as isize));
                removed.push(at(rows + row, first));
            }
        }
        Places { weight: self.weight, added, removed }
    }
}

/// The places whose sum, less that of others, is multiplied by a weight.
struct Places {
    weight: f64,
    added: Vec<usize>,
    removed: Vec<usize>,
}

#[multiversion(targets("x86_64+avx2+fma"))]
fn add_rows(out: &mut [u16], above: &[u16], below: &[u16]) {
    for ((sum, above), &below) in out.iter_mut().zip(above).zip(below) {
        *sum = above.wrapping_add(below);
    }
}

/// The sums of `values` at the places of every class and the places after them.
///
/// Running sums wrap around, but the sum of a class does not: it has at most `MAX_BYTES` bytes.
#[multiversion(targets("x86_64+avx2+fma"))]
fn sum_places(out: &mut [Sums], values: &[u16], classes: &[Places]) {
    for (out, class) in out.iter_mut().zip(classes) {
        let mut sums = [0_u16; LANES];
        for &place in &class.added {
            let lanes = lanes_at(values, place);
            for k in 0..LANES {
                sums[k] = sums[k].wrapping_add(lanes[k]);
            }
        }
        for &place in &class.removed {
            let lanes = lanes_at(values, place);
            for k in 0..LANES {
                sums[k] = sums[k].wrapping_sub(lanes[k]);
            }
        }
        *out = Sums(sums);
    }
}

#[inline(always)]
fn lanes_at(values: &[u16], place: usize) -> &[u16; LANES] {
    values[place..].first_chunk().expect("rows end with a chunk of padding")
}

/// Adds up the weighted sums of all classes and truncates.
///
/// Single precision tells the whole part unless the sum lies closer to a whole number than its rounding can move it.
/// Such sums, and those next to them, are made again in double precision.
#[multiversion(targets("x86_64+avx2+fma"))]
fn weigh(out: &mut [u8], sums: &[Sums], classes: &[Places]) {
    let margin = single_error(classes.len());
    for (i, out) in out.chunks_mut(WIDE_LANES).enumerate() {
        let mut total = [0.0_f32; WIDE_LANES];
        for (sums, class) in sums.iter().zip(classes) {
            let sums = &sums.0.as_chunks::<WIDE_LANES>().0[i];
            for k in 0..WIDE_LANES {
                total[k] += class.weight as f32 * f32::from(sums[k]);
            }
        }
        let mut bytes = [0; WIDE_LANES];
        let mut unsure = 0;
        for k in 0..WIDE_LANES {
            let nearest = (total[k] + WHOLE_SINGLE) - WHOLE_SINGLE;
            let above = i32::from(nearest > total[k]);
            unsure |= i32::from((nearest - total[k]).abs() < margin);
            bytes[k] = (((nearest + WHOLE_SINGLE).to_bits() as i32) - above) as u8;
        }
        if unsure != 0 {
            bytes = weigh_double(sums, classes, i);
        }
        out.copy_from_slice(&bytes[..out.len()]);
    }
}

/// How far from the sum of `terms` weighted sums single precision may end up, with room for one term more.
///
/// Weight, product and every addition round by at most 2^-24 of a total that stays below 256.
fn single_error(terms: usize) -> f32 {
    (terms + 3) as f32 * 256.0 / (1 << 24) as f32
}

/// A float whose neighbours are whole numbers, and so are those of what is 256 below: 1.5 * 2^23.
const WHOLE_SINGLE: f32 = 12_582_912.0;

/// Chunk `i` of [`weigh`] in double precision, classes in their order.
#[inline(always)]
fn weigh_double(sums: &[Sums], classes: &[Places], i: usize) -> [u8; WIDE_LANES] {
    let mut total = [0.0; WIDE_LANES];
    for (sums, class) in sums.iter().zip(classes) {
        let sums = &sums.0.as_chunks::<WIDE_LANES>().0[i];
        for k in 0..WIDE_LANES {
            total[k] += class.weight * f64::from(sums[k]);
        }
    }
    total.map(truncate)
}

/// A double whose neighbours are whole numbers: 2^52.
const WHOLE: f64 = (1_u64 << 52) as f64;

/// The whole part of a value from 0 to below 256.
///
/// Adding [`WHOLE`] rounds to the nearest whole number, which one comparison corrects. Unlike a cast, which must decide
/// about NaN and range for every value, this works on many values at once.
#[inline(always)]
fn truncate(value: f64) -> u8 {
    let nearest = (value + WHOLE) - WHOLE;
    let excess = if nearest > value { 1.0 } else { 0.0 };
    (nearest - excess + WHOLE).to_bits() as u8
}

/// For every sample, the sum of the samples of its channel before it in its row, modulo 2^16.
fn running_sums(padded: &[u16], stride: usize) -> Vec<u16> {
    let mut sums = vec![0_u16; padded.len()];
    for (sums, row) in sums.chunks_exact_mut(stride).zip(padded.chunks_exact(stride)) {
        let mut before = [0_u16; 3];
        for (sums, pixel) in sums.as_chunks_mut().0.iter_mut().zip(row.as_chunks::<3>().0) {
            *sums = before;
            for (before, &sample) in before.iter_mut().zip(pixel) {
                *before = before.wrapping_add(sample);
            }
        }
    }
    sums
}

/// The rows of `image` in 16 bits, continued by `reach` mirrored pixels on both sides and a chunk of zeros.
fn pad_columns(image: &Image, reach: usize) -> Vec<u16> {
    let width = image.width();
    let outside = |x: isize| 3 * Border::Mirror101.map(x, width);
    let before: Vec<usize> = (-(reach as isize)..0).map(outside).collect();
    let after: Vec<usize> = (width..width + reach).map(|x| outside(x as isize)).collect();
    let stride = 3 * (width + 2 * reach) + LANES;
    let mut padded = Vec::with_capacity(stride * image.height());
    for row in image.rgb().chunks_exact(3 * width) {
        for &from in &before {
            padded.extend(row[from..from + 3].iter().map(|&byte| u16::from(byte)));
        }
        padded.extend(row.iter().map(|&byte| u16::from(byte)));
        for &from in &after {
            padded.extend(row[from..from + 3].iter().map(|&byte| u16::from(byte)));
        }
        padded.resize(padded.len() + LANES, 0);
    }
    padded
}

fn smoothing_taps(count: usize, alias: f64) -> Vec<f32> {
    let centre = (count / 2) as f64;
    let raw: Vec<f64> = (0..count).map(|i| (-(i as f64 - centre).powi(2) / (2.0 * alias * alias)).exp()).collect();
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
                sum + tap * disk[line + step * Border::Mirror101.map(position as isize + offset, side)]
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
        assert_eq!(kernel.weights().iter().filter(|&&w| w > NEGLIGIBLE).count(), 1);
        assert_eq!(kernel.weights()[8 * 17 + 8], 1.0);
    }

    #[test]
    fn a_fractional_radius_above_eight_gives_an_even_kernel() {
        assert_eq!(DiskKernel::new(8.5, 0.5).side(), 18);
        assert_eq!(DiskKernel::new(10.0, 0.5).side(), 21);
    }
}
