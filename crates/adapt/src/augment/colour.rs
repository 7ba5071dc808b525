//! Changes of colour, as torchvision defines them, on interleaved RGB from 0 to 1.

use super::AugmentConfig;
use crate::random::Draws;

/// Weights of the channels in a pixel's grey.
const GREY: [f32; 3] = [0.2989, 0.587, 0.114];

/// Gamma sees no pixel darker than this.
const DARKEST: f32 = 1e-8;

/// One change and its strength.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Change {
    Brightness(f32),
    Contrast(f32),
    Saturation(f32),
    Hue(f32),
    Gamma(f32),
}

/// The five changes in random order, each of random strength.
pub(super) fn draw_changes(config: &AugmentConfig, draws: &mut Draws) -> [Change; 5] {
    let mut changes = [
        Change::Brightness(draws.uniform_in(config.brightness) as f32),
        Change::Contrast(draws.uniform_in(config.contrast) as f32),
        Change::Saturation(draws.uniform_in(config.saturation) as f32),
        Change::Hue(draws.uniform_in(config.hue) as f32),
        Change::Gamma(draws.uniform_in(config.gamma) as f32),
    ];
    draws.shuffle(&mut changes);
    changes
}

impl Change {
    /// Applies it to one image.
    pub fn apply(self, image: &mut [f32]) {
        let pixels = image.as_chunks_mut::<3>().0;
        match self {
            Self::Brightness(factor) => {
                for value in pixels.iter_mut().flatten() {
                    *value = (*value * factor).clamp(0.0, 1.0);
                }
            }
            Self::Contrast(factor) => {
                let total: f64 = pixels.iter().map(|pixel| f64::from(grey(pixel))).sum();
                let mean = (total / pixels.len().max(1) as f64) as f32;
                for value in pixels.iter_mut().flatten() {
                    *value = blend(*value, mean, factor);
                }
            }
            Self::Saturation(factor) => {
                for pixel in pixels {
                    let grey = grey(pixel);
                    for value in pixel {
                        *value = blend(*value, grey, factor);
                    }
                }
            }
            Self::Hue(turns) => {
                for pixel in pixels {
                    *pixel = turn_hue(*pixel, turns);
                }
            }
            Self::Gamma(exponent) => {
                for value in pixels.iter_mut().flatten() {
                    *value = value.clamp(DARKEST, 1.0).powf(exponent);
                }
            }
        }
    }
}

fn grey(pixel: &[f32; 3]) -> f32 {
    pixel.iter().zip(GREY).map(|(value, weight)| value * weight).sum()
}

fn blend(value: f32, other: f32, factor: f32) -> f32 {
    (factor * value + (1.0 - factor) * other).clamp(0.0, 1.0)
}

/// Adds `turns` to the hue, and keeps saturation and value.
fn turn_hue([r, g, b]: [f32; 3], turns: f32) -> [f32; 3] {
    let (high, low) = (r.max(g).max(b), r.min(g).min(b));
    let range = high - low;
    if range <= 0.0 {
        return [r, g, b];
    }
    let sixths = if high == r {
        (g - b) / range
    } else if high == g {
        2.0 + (b - r) / range
    } else {
        4.0 + (r - g) / range
    };
    let sixths = (sixths + 6.0 * turns).rem_euclid(6.0);
    // Each channel falls from `high` to `low` over one sixth, two sixths away from its own hue.
    let channel = |home: f32| {
        let away = (sixths - home).abs();
        let away = away.min(6.0 - away);
        low + range * (2.0 - away).clamp(0.0, 1.0)
    };
    [channel(0.0), channel(2.0), channel(4.0)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(found: &[f32], expected: &[f32]) {
        for (a, b) in found.iter().zip(expected) {
            assert!((a - b).abs() < 1e-6, "{found:?} {expected:?}");
        }
    }

    #[test]
    fn a_third_of_a_turn_exchanges_the_channels() {
        near(&turn_hue([0.9, 0.2, 0.4], 1.0 / 3.0), &[0.4, 0.9, 0.2]);
        near(&turn_hue([0.9, 0.2, 0.4], -1.0 / 3.0), &[0.2, 0.4, 0.9]);
        near(&turn_hue([0.9, 0.2, 0.4], 1.0), &[0.9, 0.2, 0.4]);
        near(&turn_hue([0.3, 0.3, 0.3], 0.2), &[0.3, 0.3, 0.3]);
    }

    #[test]
    fn half_a_turn_of_red_is_cyan_and_a_sixth_is_yellow() {
        near(&turn_hue([1.0, 0.0, 0.0], 0.5), &[0.0, 1.0, 1.0]);
        near(&turn_hue([1.0, 0.0, 0.0], 1.0 / 6.0), &[1.0, 1.0, 0.0]);
    }

    #[test]
    fn a_strength_of_one_changes_nothing_and_zero_takes_all() {
        let image = [0.1f32, 0.5, 0.9, 0.3, 0.2, 0.0];
        for change in [
            Change::Brightness(1.0),
            Change::Contrast(1.0),
            Change::Saturation(1.0),
            Change::Hue(0.0),
            Change::Gamma(1.0),
        ] {
            let mut changed = image;
            change.apply(&mut changed);
            near(&changed, &image);
        }
        let mut grey_image = image;
        Change::Saturation(0.0).apply(&mut grey_image);
        // 0.02989 + 0.2935 + 0.1026 and 0.08967 + 0.1174.
        near(&grey_image, &[0.42599, 0.42599, 0.42599, 0.20707, 0.20707, 0.20707]);
        let mut flat = image;
        Change::Contrast(0.0).apply(&mut flat);
        near(&flat, &[(0.42599 + 0.20707) / 2.0; 6]);
    }

    #[test]
    fn results_stay_within_the_range_of_pixels() {
        let mut image = [0.0f32, 0.5, 1.0];
        Change::Brightness(1.4).apply(&mut image);
        near(&image, &[0.0, 0.7, 1.0]);
        Change::Gamma(2.0).apply(&mut image);
        near(&image, &[0.0, 0.49, 1.0]);
    }
}
