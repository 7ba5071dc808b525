//! The textures at the three scales in use.

use flipcast_images::Image;

use crate::set::{CIFAR_SIDE_LIMIT, TINY_SIDE_LIMIT};

/// The five textures `frost` chooses from, at full size, at 0.3 and at 0.2.
#[derive(Clone, Debug, PartialEq)]
pub struct FrostTextures {
    full: Vec<Image>,
    tiny: Vec<Image>,
    cifar: Vec<Image>,
}

impl FrostTextures {
    pub(super) fn from_full(full: Vec<Image>) -> Self {
        let tiny = full.iter().map(|texture| scaled(texture, 0.3)).collect();
        let cifar = full.iter().map(|texture| scaled(texture, 0.2)).collect();
        Self { full, tiny, cifar }
    }

    /// The textures at full size, in the published order.
    pub fn full(&self) -> &[Image] {
        &self.full
    }

    /// The textures for an image: full size, at 0.3 for Tiny-ImageNet's sizes, at 0.2 for CIFAR's.
    pub fn at_scale_of(&self, image: &Image) -> &[Image] {
        let side = image.width().min(image.height());
        if side <= CIFAR_SIDE_LIMIT {
            &self.cifar
        } else if side <= TINY_SIDE_LIMIT {
            &self.tiny
        } else {
            &self.full
        }
    }
}

/// `texture` shrunk bilinearly without smoothing; at 0.2 that takes every fifth pixel, starting with the third.
fn scaled(texture: &Image, factor: f64) -> Image {
    let axis = |n: usize| -> Vec<(usize, usize, f64)> {
        let count = ((n as f64 * factor).round_ties_even() as usize).max(1);
        (0..count)
            .map(|i| {
                let position = ((i as f64 + 0.5) / factor - 0.5).clamp(0.0, (n - 1) as f64);
                let base = position as usize;
                (base, (base + 1).min(n - 1), position - base as f64)
            })
            .collect()
    };
    let (rows, columns) = (axis(texture.height()), axis(texture.width()));
    let mut rgb = Vec::with_capacity(3 * rows.len() * columns.len());
    for &(top, bottom, fy) in &rows {
        for &(left, right, fx) in &columns {
            for channel in 0..3 {
                let at = |row: usize, column: usize| {
                    f64::from(texture.rgb()[3 * (row * texture.width() + column) + channel])
                };
                let upper = at(top, left) * (1.0 - fx) + at(top, right) * fx;
                let lower = at(bottom, left) * (1.0 - fx) + at(bottom, right) * fx;
                rgb.push((upper * (1.0 - fy) + lower * fy).round() as u8);
            }
        }
    }
    Image::new(columns.len(), rows.len(), rgb).expect("three samples are made per pixel")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fifth_is_plain_decimation() {
        let rgb: Vec<u8> = (0..3 * 20 * 10).map(|i| (i * 31 % 251) as u8).collect();
        let texture = Image::new(20, 10, rgb).expect("20 x 10");
        let small = scaled(&texture, 0.2);
        assert_eq!((small.width(), small.height()), (4, 2));
        for y in 0..2 {
            for x in 0..4 {
                let from = 3 * ((5 * y + 2) * 20 + 5 * x + 2);
                assert_eq!(small.rgb()[3 * (4 * y + x)..][..3], texture.rgb()[from..from + 3]);
            }
        }
    }
}
