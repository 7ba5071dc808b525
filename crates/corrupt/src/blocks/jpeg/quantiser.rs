//! Annex-K quantisation tables scaled by a quality.

/// The luma table of Annex K, row by row.
pub const ANNEX_K_LUMA: [u16; 64] = [
    16, 11, 10, 16, 24, 40, 51, 61, 12, 12, 14, 19, 26, 58, 60, 55, 14, 13, 16, 24, 40, 57, 69, 56, 14, 17, 22, 29, 51,
    87, 80, 62, 18, 22, 37, 56, 68, 109, 103, 77, 24, 35, 55, 64, 81, 104, 113, 92, 49, 64, 78, 87, 103, 121, 120, 101,
    72, 92, 95, 98, 112, 100, 103, 99,
];

/// The chroma table of Annex K, row by row.
pub const ANNEX_K_CHROMA: [u16; 64] = [
    17, 18, 24, 47, 99, 99, 99, 99, 18, 21, 26, 66, 99, 99, 99, 99, 24, 26, 56, 99, 99, 99, 99, 99, 47, 66, 99, 99, 99,
    99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99,
    99, 99, 99, 99, 99, 99,
];

/// The 64 divisors of one component, for `N` blocks side by side.
///
/// Aligned so that no vector of the tables crosses a cache line.
#[derive(Clone, Debug, PartialEq)]
#[repr(align(64))]
pub struct Quantiser<const N: usize> {
    steps: [i32; 64],
    /// Column by column, repeated for every lane.
    lane_steps: [[i32; N]; 64],
    lane_inverses: [[f32; N]; 64],
}

impl<const N: usize> Quantiser<N> {
    /// `base` scaled for `quality` (1 to 100; values outside are clamped).
    pub fn new(base: &[u16; 64], quality: u8) -> Self {
        let quality = u32::from(quality.clamp(1, 100));
        let scale = if quality < 50 { 5000 / quality } else { 200 - 2 * quality };
        let steps = base.map(|b| ((u32::from(b) * scale + 50) / 100).clamp(1, 255) as i32);
        let by_column = std::array::from_fn(|i| steps[8 * (i % 8) + i / 8]);
        Self {
            steps,
            lane_steps: by_column.map(|step| [step; N]),
            lane_inverses: by_column.map(|step| [OUTWARD / (8 * step) as f32; N]),
        }
    }

    /// The divisors, row by row.
    pub fn steps(&self) -> &[i32; 64] {
        &self.steps
    }

    /// Replaces DCT coefficients (column by column, scaled by 8, at most 16400 either way) by the nearest multiples of
    /// the divisors, halves away from zero.
    #[inline(always)]
    pub fn quantise(&self, blocks: &mut [[i32; N]; 64]) {
        let scales = self.lane_steps.as_flattened().iter();
        let scales = scales.zip(self.lane_inverses.as_flattened());
        for (value, (step, inverse)) in blocks.as_flattened_mut().iter_mut().zip(scales) {
            // Adding `ROUNDER` rounds to a whole number in the low bits.
            let rounded = *value as f32 * inverse + ROUNDER;
            *value = (rounded.to_bits() as i32 - ROUNDER.to_bits() as i32) * step;
        }
    }
}

/// A float whose neighbours are whole numbers: 1.5 * 2^23.
const ROUNDER: f32 = 12_582_912.0;

/// Pushes halves away from zero, and nothing else over the next half.
///
/// A quotient `x = c / (8 q)` that is no half is at least `1 / (8 q)` away from one, and the push moves it by
/// `|x| / 2^18`, which is at most `16400 / 2^18 < 1/15` of that. The push is 32 times what the two roundings to single
/// precision can take back.
const OUTWARD: f32 = 1.0 + 1.0 / (1 << 18) as f32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quality_scales_the_tables_as_the_reference_library_does() {
        assert_eq!(Quantiser::<1>::new(&ANNEX_K_LUMA, 50).steps()[..4], [16, 11, 10, 16]);
        assert_eq!(Quantiser::<1>::new(&ANNEX_K_LUMA, 85).steps()[..4], [5, 3, 3, 5]);
        assert_eq!(Quantiser::<1>::new(&ANNEX_K_LUMA, 7).steps()[..4], [114, 79, 71, 114]);
        assert!(Quantiser::<1>::new(&ANNEX_K_CHROMA, 100).steps().iter().all(|&step| step == 1));
    }

    #[test]
    fn every_coefficient_goes_to_the_nearest_multiple() {
        for quality in [1, 7, 25, 50, 85, 100] {
            let quantiser = Quantiser::<1>::new(&ANNEX_K_LUMA, quality);
            for value in -16400..16400 {
                let mut block = [[value]; 64];
                quantiser.quantise(&mut block);
                for (i, step) in quantiser.steps().iter().enumerate() {
                    let [level] = block[8 * (i % 8) + i / 8];
                    let divisor = 8 * step;
                    let expected = (value.abs() + divisor / 2) / divisor * step * value.signum();
                    assert_eq!(level, expected, "{value} by {step}");
                }
            }
        }
    }
}
