//! Made-up frost: layers of veined noise with the measured colours and spreads of the published photographs.

use std::sync::LazyLock;

use flipcast_images::Image;

use super::scale::FrostTextures;
use crate::rng::{CounterRng, StreamKey};

/// Lattice spacings of the noise layers in pixels.
const SPACINGS: [usize; 7] = [2, 4, 8, 16, 32, 64, 160];

/// What one texture looks like.
struct Recipe {
    width: usize,
    height: usize,
    /// Mean of each channel over pieces of 224 pixels.
    mean: [f64; 3],
    /// Standard deviation of each channel over such pieces.
    std: [f64; 3],
    /// How much of a channel's variation is common to all channels.
    shared: [f64; 3],
    /// How much of the deviation is light that falls from above.
    from_above: f64,
    /// Weight of each layer's deviation, finest first.
    layers: [f64; 7],
}

/// Deviation of the row number within a piece of 224 pixels.
const ROW_DEVIATION: f64 = 64.7;

/// Measured on the published photographs: size, colours, spreads and how the variation is spread over scales.
const RECIPES: [Recipe; 4] = [
    Recipe {
        width: 900,
        height: 600,
        mean: [76.0, 147.2, 163.8],
        std: [23.4, 14.1, 13.3],
        shared: [0.85, 1.0, 0.95],
        from_above: 0.07,
        layers: [6.7, 5.7, 4.1, 3.2, 3.8, 4.8, 8.0],
    },
    Recipe {
        width: 560,
        height: 315,
        mean: [197.9, 202.2, 211.4],
        std: [19.3, 20.0, 20.7],
        shared: [1.0, 1.0, 1.0],
        from_above: 0.48,
        layers: [7.3, 7.4, 6.9, 6.5, 5.1, 4.3, 6.0],
    },
    Recipe {
        width: 527,
        height: 350,
        mean: [145.1, 159.9, 172.8],
        std: [26.0, 26.1, 27.4],
        shared: [1.0, 1.0, 1.0],
        from_above: 0.19,
        layers: [12.3, 11.6, 9.5, 7.8, 5.4, 4.2, 6.0],
    },
    Recipe {
        width: 660,
        height: 495,
        mean: [100.1, 111.5, 123.5],
        std: [35.6, 35.3, 34.6],
        shared: [1.0, 1.0, 1.0],
        from_above: 0.25,
        layers: [15.3, 14.1, 14.2, 13.7, 13.2, 9.9, 11.0],
    },
];

/// The recipe of each of the five published choices; the second and third are the same picture.
const CHOICES: [usize; 5] = [0, 1, 1, 2, 3];

static PROCEDURAL: LazyLock<FrostTextures> = LazyLock::new(|| {
    let pictures: Vec<Image> = RECIPES.iter().enumerate().map(|(i, recipe)| paint(recipe, i as u64)).collect();
    FrostTextures::from_full(CHOICES.iter().map(|&i| pictures[i].clone()).collect())
});

impl FrostTextures {
    /// Textures made by formula, always the same ones.
    pub fn procedural() -> &'static Self {
        &PROCEDURAL
    }
}

fn paint(recipe: &Recipe, number: u64) -> Image {
    let key = StreamKey { seed: 0, set: "frost", corruption: "texture", severity_hundredths: 0, image_index: number };
    let mut rng = CounterRng::new(&key);
    let common = veins(&mut rng, recipe);
    let own: Vec<Option<Vec<f64>>> =
        recipe.shared.iter().map(|&shared| (shared < 1.0).then(|| veins(&mut rng, recipe))).collect();
    let mut rgb = Vec::with_capacity(3 * common.len());
    let noise_share = (1.0 - recipe.from_above * recipe.from_above).sqrt();
    for (i, common) in common.iter().enumerate() {
        let row = (i / recipe.width) as f64 - recipe.height as f64 / 2.0;
        let light = -recipe.from_above * row / ROW_DEVIATION;
        for channel in 0..3 {
            let shared = recipe.shared[channel];
            let own = own[channel].as_ref().map_or(0.0, |own| own[i]);
            let deviation = shared * common + (1.0 - shared * shared).sqrt() * own;
            let deviation = noise_share * deviation + light;
            rgb.push((recipe.mean[channel] + recipe.std[channel] * deviation + 0.5) as u8);
        }
    }
    Image::new(recipe.width, recipe.height, rgb).expect("three samples are made per pixel")
}

/// A field of zero mean and unit deviation: every layer has bright lines where its smooth noise crosses zero.
fn veins(rng: &mut CounterRng, recipe: &Recipe) -> Vec<f64> {
    let (width, height) = (recipe.width, recipe.height);
    let mut field = vec![0.0; width * height];
    for (spacing, weight) in SPACINGS.into_iter().zip(recipe.layers) {
        let mut layer = smooth_noise(rng, width, height, spacing);
        layer.iter_mut().for_each(|v| *v = 0.6 * *v - v.abs());
        standardise(&mut layer);
        for (sum, value) in field.iter_mut().zip(&layer) {
            *sum += weight * value;
        }
    }
    standardise(&mut field);
    field
}

/// Normal values on a lattice, joined smoothly.
fn smooth_noise(rng: &mut CounterRng, width: usize, height: usize, spacing: usize) -> Vec<f64> {
    let (across, down) = (width / spacing + 2, height / spacing + 2);
    let lattice: Vec<f64> = (0..across * down).map(|_| rng.normal()).collect();
    let ease: Vec<f64> = (0..spacing).map(|i| i as f64 / spacing as f64).map(|t| t * t * (3.0 - 2.0 * t)).collect();
    let mut noise = Vec::with_capacity(width * height);
    for y in 0..height {
        let (row, fy) = (y / spacing * across, ease[y % spacing]);
        for x in 0..width {
            let (corner, fx) = (row + x / spacing, ease[x % spacing]);
            let upper = lattice[corner] + fx * (lattice[corner + 1] - lattice[corner]);
            let lower = lattice[corner + across] + fx * (lattice[corner + across + 1] - lattice[corner + across]);
            noise.push(upper + fy * (lower - upper));
        }
    }
    noise
}

fn standardise(values: &mut [f64]) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let variance = values.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / count;
    let scale = 1.0 / variance.sqrt();
    values.iter_mut().for_each(|v| *v = (*v - mean) * scale);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn textures_have_the_measured_colours() {
        for (texture, &choice) in FrostTextures::procedural().full().iter().zip(&CHOICES) {
            let recipe = &RECIPES[choice];
            assert_eq!((texture.width(), texture.height()), (recipe.width, recipe.height));
            for channel in 0..3 {
                let samples: Vec<f64> = texture.rgb().iter().skip(channel).step_by(3).map(|&v| f64::from(v)).collect();
                let mean = samples.iter().sum::<f64>() / samples.len() as f64;
                let variance = samples.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / samples.len() as f64;
                assert!((mean - recipe.mean[channel]).abs() < 1.0, "mean {mean}");
                // The whole texture varies more than a piece of it, most where light falls from above.
                let ratio = variance.sqrt() / recipe.std[channel];
                assert!((0.9..1.25).contains(&ratio), "deviation {}", variance.sqrt());
            }
        }
    }
}
