//! `wavelet`: a Haar transform whose coefficients are rounded towards zero. Strong compression without JPEG's 8 x 8 blocks.
//! Nothing random.
//!
//! Row: `[step]`, in grey levels, to multiples of which coefficients are cut. A coefficient is a difference of means on the
//! scale of the samples, so that details of one contrast vanish together, whatever their size.

use flipcast_images::Image;

use crate::blocks::pixels::{round_to_byte, with_size_of};
use crate::job::Job;

/// Halving ends when the shorter side has no more samples than this.
const COARSEST: usize = 4;

/// RGB samples of one scale.
struct Scale {
    values: Vec<[f32; 3]>,
    width: usize,
    height: usize,
}

impl Scale {
    /// The two by two samples at `(2 row, 2 column)`, the last ones repeated where a side is odd.
    #[inline]
    fn quad(&self, row: usize, column: usize) -> [[f32; 3]; 4] {
        let (upper, lower) = (2 * row * self.width, (2 * row + 1).min(self.height - 1) * self.width);
        let (left, right) = (2 * column, (2 * column + 1).min(self.width - 1));
        [upper + left, upper + right, lower + left, lower + right].map(|at| self.values[at])
    }

    /// The means of all two by two samples.
    fn halved(&self) -> Self {
        let (width, height) = (self.width.div_ceil(2), self.height.div_ceil(2));
        let mut values = Vec::with_capacity(width * height);
        for row in 0..height {
            for column in 0..width {
                let [a, b, c, d] = self.quad(row, column);
                values.push(std::array::from_fn(|k| 0.25 * ((a[k] + b[k]) + (c[k] + d[k]))));
            }
        }
        Self { values, width, height }
    }

    /// This scale from the `coarse` one and the differences that are left of this one.
    fn rebuilt(&self, coarse: &Self, step: f32) -> Self {
        let mut values = vec![[0.0; 3]; self.values.len()];
        let cut = |difference: f32| (difference * (0.25 / step)).trunc() * step;
        for row in 0..coarse.height {
            for column in 0..coarse.width {
                let [a, b, c, d] = self.quad(row, column);
                let mean = coarse.values[row * coarse.width + column];
                let mut quad = [[0.0; 3]; 4];
                for k in 0..3 {
                    let across = cut((a[k] - b[k]) + (c[k] - d[k]));
                    let down = cut((a[k] - c[k]) + (b[k] - d[k]));
                    let diagonal = cut((a[k] - b[k]) - (c[k] - d[k]));
                    quad[0][k] = mean[k] + across + down + diagonal;
                    quad[1][k] = mean[k] - across + down - diagonal;
                    quad[2][k] = mean[k] + across - down - diagonal;
                    quad[3][k] = mean[k] - across - down + diagonal;
                }
                for (i, value) in quad.into_iter().enumerate() {
                    let (y, x) = (2 * row + i / 2, 2 * column + i % 2);
                    if y < self.height && x < self.width {
                        values[y * self.width + x] = value;
                    }
                }
            }
        }
        Self { values, width: self.width, height: self.height }
    }
}

fn apply(image: &Image, step: f64) -> Image {
    let values = image.rgb().as_chunks::<3>().0.iter().map(|pixel| pixel.map(f32::from)).collect();
    let mut coarse = Scale { values, width: image.width(), height: image.height() };
    let mut finer = Vec::new();
    while coarse.width.min(coarse.height) > COARSEST {
        let halved = coarse.halved();
        finer.push(std::mem::replace(&mut coarse, halved));
    }
    for scale in finer.iter().rev() {
        coarse = scale.rebuilt(&coarse, step as f32);
    }
    with_size_of(image, coarse.values.into_iter().flat_map(|pixel| pixel.map(round_to_byte)).collect())
}

pub(crate) fn run(job: &mut Job<'_>) -> Image {
    apply(job.image, job.row[0])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fine_step_returns_the_image_and_a_coarse_one_its_means() {
        let rgb: Vec<u8> = (0..3 * 9 * 7).map(|i| (i * i % 251) as u8).collect();
        let image = Image::new(9, 7, rgb).expect("9 x 7");
        // The transform back is exact; a quarter of a level is the unit of a difference of means, so no cut is larger than
        // the step, and seven steps of 1/64 per scale cannot reach half a level.
        assert_eq!(apply(&image, 1.0 / 64.0), image);
        let even = Image::new(8, 8, (0..192).map(|i| (i % 7 * 30) as u8).collect()).expect("8 x 8");
        let flat = apply(&even, 300.0);
        let sum = |y: usize, x: usize| -> u32 {
            (0..4).map(|i| u32::from(even.rgb()[3 * (8 * (2 * y + i / 2) + 2 * x + i % 2)])).sum()
        };
        for (y, x) in [(0, 0), (3, 1), (6, 7)] {
            assert_eq!(u32::from(flat.rgb()[3 * (8 * y + x)]), (sum(y / 2, x / 2) + 2) / 4);
        }
    }
}
