//! `spatter`: drops of water or mud.
//!
//! Smoothed noise above a threshold is liquid. Water is brightened along the liquid's edges by a chain of Canny edges,
//! chamfer distance, mean, histogram equalisation and embossing; mud covers the image where the smoothed mask is dense.
//! The water mask is divided by its maximum: without any liquid this is 0/0 and the published result is a black image.

use flipcast_images::Image;
use multiversion::multiversion;

use crate::blocks::border::Border;
use crate::blocks::canny::canny;
use crate::blocks::chamfer::{ONE, chamfer_distance};
use crate::blocks::gaussian_filter::{Extent, GaussianKernel};
use crate::blocks::pixels::{finish_f32, unit_table_f32, with_size_of};
use crate::job::Job;
use crate::rng::CounterRng;

const WATER: [f64; 3] = [175.0, 238.0, 238.0];
const MUD: [f64; 3] = [63.0, 42.0, 20.0];

/// What is spattered.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Liquid {
    /// Water, with the strength of its brightening.
    Water {
        /// Multiplies the mask.
        intensity: f64,
    },
    /// Mud, with the smoothing of its mask.
    Mud {
        /// Standard deviation in pixels.
        sigma: f64,
    },
}

/// The constants of one severity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Constants {
    /// Mean of the noise.
    pub mean: f64,
    /// Standard deviation of the noise.
    pub std: f64,
    /// Smoothing of the noise in pixels.
    pub sigma: f64,
    /// Above this the noise is liquid.
    pub threshold: f64,
    /// Water or mud.
    pub liquid: Liquid,
}

impl Constants {
    /// From a row of the registry: `[mean, std, sigma, threshold, intensity or sigma, 0 for water or 1 for mud]`.
    pub fn from_row(row: &[f64]) -> Self {
        let liquid = if row[5] == 0.0 { Liquid::Water { intensity: row[4] } } else { Liquid::Mud { sigma: row[4] } };
        Self { mean: row[0], std: row[1], sigma: row[2], threshold: row[3], liquid }
    }
}

/// One normal value per pixel.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// Row by row.
    pub normal: Vec<f64>,
}

/// Draws the noise.
pub fn draw(rng: &mut CounterRng, image: &Image) -> Field {
    Field { normal: (0..image.width() * image.height()).map(|_| rng.normal()).collect() }
}

/// Spatters the image.
pub fn apply(image: &Image, constants: &Constants, field: &Field) -> Image {
    let extent = Extent { height: image.height(), width: image.width(), channels: 1 };
    let noise: Vec<f64> = field.normal.iter().map(|n| constants.mean + constants.std * n).collect();
    let mut layer = GaussianKernel::new(constants.sigma, 4.0).filter(&noise, extent, Border::Repeat);
    for value in &mut layer {
        if *value < constants.threshold {
            *value = 0.0;
        }
    }
    let rgb = match constants.liquid {
        Liquid::Water { intensity } => wet(image, &layer, intensity),
        Liquid::Mud { sigma } => soil(image, &layer, constants.threshold, sigma),
    };
    with_size_of(image, rgb)
}

fn wet(image: &Image, layer: &[f64], intensity: f64) -> Vec<u8> {
    let liquid: Vec<u8> = layer.iter().map(|&v| (v * 255.0) as u8).collect();
    let stages = WaterStages::new(&liquid, image.width(), image.height());
    let mut mask: Vec<f32> = liquid.iter().zip(&stages.soft).map(|(&a, &b)| f32::from(a) * f32::from(b)).collect();
    let top = mask.iter().copied().fold(0.0, f32::max);
    mask.iter_mut().for_each(|v| *v = *v / top * intensity as f32);
    let tint = WATER.map(|v| (v / 255.0) as f32);
    blend(image, &mask, |x, mask, channel| x + mask * tint[channel])
}

fn soil(image: &Image, layer: &[f64], threshold: f64, sigma: f64) -> Vec<u8> {
    let extent = Extent { height: image.height(), width: image.width(), channels: 1 };
    let covered: Vec<f32> = layer.iter().map(|&v| if v > threshold { 1.0 } else { 0.0 }).collect();
    let mut mask = GaussianKernel::new(sigma, 4.0).filter_f32(&covered, extent, Border::Repeat);
    for value in &mut mask {
        if *value < 0.8 {
            *value = 0.0;
        }
    }
    let tint = MUD.map(|v| (v / 255.0) as f32);
    blend(image, &mask, |x, mask, channel| x * (1.0 - mask) + tint[channel] * mask)
}

fn blend(image: &Image, mask: &[f32], colour: impl Fn(f32, f32, usize) -> f32) -> Vec<u8> {
    let unit = unit_table_f32();
    let mut rgb = image.rgb().to_vec();
    for (pixel, &mask) in rgb.as_chunks_mut::<3>().0.iter_mut().zip(mask) {
        for (channel, byte) in pixel.iter_mut().enumerate() {
            *byte = finish_f32(colour(unit[usize::from(*byte)], mask, channel));
        }
    }
    rgb
}

/// The steps from liquid to the brightness along its edges.
#[derive(Clone, Debug, PartialEq)]
pub struct WaterStages {
    /// Canny edges of the liquid.
    pub edges: Vec<bool>,
    /// Distance to the nearest edge in 1/65536 pixel, at most 20 pixels.
    pub distance: Vec<i32>,
    /// Equalised, embossed and smoothed distance.
    pub soft: Vec<u8>,
}

impl WaterStages {
    /// The chain for a byte image of liquid.
    pub fn new(liquid: &[u8], width: usize, height: usize) -> Self {
        let edges = canny(liquid, width, height, 50, 150);
        let mut distance = chamfer_distance(&edges, width, height);
        distance.iter_mut().for_each(|d| *d = (*d).min(20 * ONE));
        // Truncated to whole pixels: the mean of nine.
        let near = neighbourhood(&distance, width, height, |near| (total(near) / (9 * ONE)) as u8);
        let equalised: Vec<i32> = equalise(&near).into_iter().map(i32::from).collect();
        let relief = neighbourhood(&equalised, width, height, |[a, b, c]| {
            (-2 * a[0] - a[1] - b[0] + b[1] + b[2] + c[1] + 2 * c[2]).clamp(0, 255)
        });
        let soft = neighbourhood(&relief, width, height, |near| ((2 * total(near) + 9) / 18) as u8);
        Self { edges, distance, soft }
    }
}

#[inline(always)]
fn total([a, b, c]: [[i32; 3]; 3]) -> i32 {
    (a[0] + a[1] + a[2]) + (b[0] + b[1] + b[2]) + (c[0] + c[1] + c[2])
}

/// Maps the 3 x 3 pixels around every pixel, mirrored without repeating the edge.
#[multiversion(targets("x86_64+avx2+fma"))]
fn neighbourhood<T: Copy + Default, F: Fn([[i32; 3]; 3]) -> T>(
    source: &[i32],
    width: usize,
    height: usize,
    map: F,
) -> Vec<T> {
    let mut out = vec![T::default(); source.len()];
    let mut framed = [vec![0; width + 2], vec![0; width + 2], vec![0; width + 2]];
    for (y, out) in (0..).zip(out.chunks_exact_mut(width)) {
        for (offset, framed) in (-1..).zip(&mut framed) {
            let start = width * Border::Mirror101.map(y + offset, height);
            let row = &source[start..start + width];
            framed[1..=width].copy_from_slice(row);
            framed[0] = row[Border::Mirror101.map(-1, width)];
            framed[width + 1] = row[Border::Mirror101.map(width as isize, width)];
        }
        let [a, b, c] = &framed;
        let (a0, a1, a2) = (&a[..width], &a[1..=width], &a[2..]);
        let (b0, b1, b2) = (&b[..width], &b[1..=width], &b[2..]);
        let (c0, c1, c2) = (&c[..width], &c[1..=width], &c[2..]);
        for x in 0..out.len().min(width).min(a2.len()).min(b2.len()).min(c2.len()) {
            out[x] = map([[a0[x], a1[x], a2[x]], [b0[x], b1[x], b2[x]], [c0[x], c1[x], c2[x]]]);
        }
    }
    out
}

/// Histogram equalisation: the first occupied level becomes 0, the others their share of the pixels above it.
fn equalise(levels: &[u8]) -> Vec<u8> {
    let mut histogram = [0_usize; 256];
    for &level in levels {
        histogram[usize::from(level)] += 1;
    }
    let Some(first) = histogram.iter().position(|&count| count > 0) else {
        return Vec::new();
    };
    if histogram[first] == levels.len() {
        return levels.to_vec();
    }
    let scale = 255.0 / (levels.len() - histogram[first]) as f32;
    let mut table = [0_u8; 256];
    let mut running = 0;
    for level in first + 1..256 {
        running += histogram[level];
        table[level] = (running as f32 * scale).round_ties_even() as u8;
    }
    levels.iter().map(|&level| table[usize::from(level)]).collect()
}

pub(crate) fn run(job: &mut Job<'_>) -> Image {
    let field = draw(job.rng, job.image);
    apply(job.image, &Constants::from_row(job.row), &field)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_liquid_at_all_gives_a_black_image_as_published() {
        let image = Image::new(4, 4, vec![200; 48]).expect("4 x 4");
        let liquid = Liquid::Water { intensity: 0.5 };
        let constants = Constants { mean: 0.0, std: 0.0, sigma: 1.0, threshold: 0.5, liquid };
        let after = apply(&image, &constants, &Field { normal: vec![0.0; 16] });
        assert!(after.rgb().iter().all(|&byte| byte == 0));
    }
}
