//! Noise with a chosen spectrum and random phases.

use rustfft::num_complex::Complex64;
use rustfft::{FftDirection, FftPlanner};

use super::summation::pairwise_sum;

/// A plane of noise with unit standard deviation.
///
/// `amplitude` gives the spectrum at a distance from zero frequency. `phases` has `height` rows of
/// `width.div_ceil(2)` angles; the other columns repeat them turned by 180 degrees without negating, so the spectrum is
/// not Hermitian and the real part is taken, as published.
pub fn fourier_noise(phases: &[f64], width: usize, height: usize, amplitude: impl Fn(f64) -> f64) -> Vec<f64> {
    let half = width.div_ceil(2);
    let mut spectrum = vec![Complex64::default(); width * height];
    for y in 0..height {
        for x in 0..width {
            let phase = if x < half { phases[y * half + x] } else { phases[(height - 1 - y) * half + (width - 1 - x)] };
            let radius = (x as f64 - width as f64 / 2.0).hypot(y as f64 - height as f64 / 2.0);
            let (row, column) = ((y + height / 2) % height, (x + width / 2) % width);
            spectrum[row * width + column] = Complex64::from_polar(amplitude(radius), phase);
        }
    }
    let mut planner = FftPlanner::new();
    planner.plan_fft(width, FftDirection::Inverse).process(&mut spectrum);
    let mut columns = transpose(&spectrum, width, height);
    planner.plan_fft(height, FftDirection::Inverse).process(&mut columns);
    let mut field: Vec<f64> = transpose(&columns, height, width).iter().map(|v| v.re).collect();
    let deviation = standard_deviation(&field);
    field.iter_mut().for_each(|v| *v /= deviation);
    field
}

fn transpose(source: &[Complex64], width: usize, height: usize) -> Vec<Complex64> {
    let mut out = Vec::with_capacity(source.len());
    for x in 0..width {
        out.extend((0..height).map(|y| source[y * width + x]));
    }
    out
}

fn standard_deviation(values: &[f64]) -> f64 {
    let count = values.len() as f64;
    let mean = pairwise_sum(values) / count;
    let squares: Vec<f64> = values.iter().map(|v| (v - mean) * (v - mean)).collect();
    (pairwise_sum(&squares) / count).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_has_unit_deviation_at_any_size() {
        for (width, height) in [(8_usize, 8_usize), (7, 5), (30, 14)] {
            let phases: Vec<f64> = (0..height * width.div_ceil(2)).map(|i| (i * 37 % 101) as f64).collect();
            let noise = fourier_noise(&phases, width, height, |r| 1.0 / (r * r + 1.0));
            assert_eq!(noise.len(), width * height);
            assert!((standard_deviation(&noise) - 1.0).abs() < 1e-12);
        }
    }
}
