//! Annex-K quantisation tables scaled by a quality.

/// The luma table of Annex K, row by row.
pub const ANNEX_K_LUMA: [u16; 64] = [
    16, 11, 10, 16, 24, 40, 51, 61, 12, 12, 14, 19, 26, 58, 60, 55, 14, 13, 16, 24, 40, 57, 69, 56,
    14, 17, 22, 29, 51, 87, 80, 62, 18, 22, 37, 56, 68, 109, 103, 77, 24, 35, 55, 64, 81, 104, 113,
    92, 49, 64, 78, 87, 103, 121, 120, 101, 72, 92, 95, 98, 112, 100, 103, 99,
];

/// The chroma table of Annex K, row by row.
pub const ANNEX_K_CHROMA: [u16; 64] = [
    17, 18, 24, 47, 99, 99, 99, 99, 18, 21, 26, 66, 99, 99, 99, 99, 24, 26, 56, 99, 99, 99, 99, 99,
    47, 66, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99,
    99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99,
];

/// The 64 divisors of one component.
#[derive(Clone, Debug, PartialEq)]
pub struct Quantiser {
    step: [i32; 64],
    inverse: [f32; 64],
}

impl Quantiser {
    /// `base` scaled for `quality` (1 to 100; values outside are clamped).
    pub fn new(base: &[u16; 64], quality: u8) -> Self {
        let quality = u32::from(quality.clamp(1, 100));
        let scale = if quality < 50 {
            5000 / quality
        } else {
            200 - 2 * quality
        };
        let step = base.map(|b| ((u32::from(b) * scale + 50) / 100).clamp(1, 255) as i32);
        Self {
            step,
            inverse: step.map(|q| 1.0 / (8 * q) as f32),
        }
    }

    /// The divisors, row by row.
    pub fn steps(&self) -> &[i32; 64] {
        &self.step
    }

    /// Replaces DCT coefficients (scaled by 8) by the nearest multiples of the divisors, halves away from zero.
    #[inline]
    pub fn quantise(&self, block: &mut [i32; 64]) {
        for k in 0..64 {
            // The half added to the whole number below keeps the quotient at least 1/35000 of itself away from a whole
            // number, far more than single precision loses. Half less than the quotient therefore rounds to its whole
            // part, and adding `ROUNDER` does that rounding in the low bits.
            let magnitude = (block[k].abs() + 4 * self.step[k]) as f32 + 0.5;
            let rounded = (magnitude * self.inverse[k] - 0.5) + ROUNDER;
            let level = (rounded.to_bits() as i32 - ROUNDER.to_bits() as i32) * self.step[k];
            block[k] = if block[k] < 0 { -level } else { level };
        }
    }
}

/// A float whose neighbours are whole numbers: 1.5 * 2^23.
const ROUNDER: f32 = 12_582_912.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quality_scales_the_tables_as_the_reference_library_does() {
        assert_eq!(
            Quantiser::new(&ANNEX_K_LUMA, 50).steps()[..4],
            [16, 11, 10, 16]
        );
        assert_eq!(Quantiser::new(&ANNEX_K_LUMA, 85).steps()[..4], [5, 3, 3, 5]);
        assert_eq!(
            Quantiser::new(&ANNEX_K_LUMA, 7).steps()[..4],
            [114, 79, 71, 114]
        );
        assert!(
            Quantiser::new(&ANNEX_K_CHROMA, 100)
                .steps()
                .iter()
                .all(|&step| step == 1)
        );
    }

    #[test]
    fn every_coefficient_goes_to_the_nearest_multiple() {
        for quality in [1, 7, 25, 50, 85, 100] {
            let quantiser = Quantiser::new(&ANNEX_K_LUMA, quality);
            for value in -16400..16400 {
                let mut block = [value; 64];
                quantiser.quantise(&mut block);
                for (level, step) in block.iter().zip(quantiser.steps()) {
                    let divisor = 8 * step;
                    let expected = (value.abs() + divisor / 2) / divisor * step * value.signum();
                    assert_eq!(*level, expected, "{value} by {step}");
                }
            }
        }
    }
}
