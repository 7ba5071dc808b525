//! Cubic B-splines: prefilter, sampling, rotation and zoom as scipy's `ndimage` computes them.

use super::border::Border;

/// The pole of the cubic B-spline prefilter, `sqrt(3) - 2`.
const POLE: f64 = -0.267_949_192_431_122_7;

/// Turns samples into spline coefficients, so that the spline passes through the samples; mirror borders.
pub fn prefilter(plane: &mut [f64], width: usize, height: usize) {
    let mut line = Vec::with_capacity(width.max(height));
    for x in 0..width {
        line.clear();
        line.extend(plane.iter().skip(x).step_by(width));
        prefilter_line(&mut line);
        for (value, filtered) in plane.iter_mut().skip(x).step_by(width).zip(&line) {
            *value = *filtered;
        }
    }
    for row in plane.chunks_exact_mut(width) {
        prefilter_line(row);
    }
}

fn prefilter_line(line: &mut [f64]) {
    let n = line.len();
    if n < 2 {
        return;
    }
    let gain = (1.0 - POLE) * (1.0 - 1.0 / POLE);
    line.iter_mut().for_each(|v| *v *= gain);
    line[0] = causal_start(line);
    for i in 1..n {
        line[i] += POLE * line[i - 1];
    }
    line[n - 1] = (POLE * line[n - 2] + line[n - 1]) * POLE / (POLE * POLE - 1.0);
    for i in (0..n - 1).rev() {
        line[i] = POLE * (line[i + 1] - line[i]);
    }
}

/// The first causal coefficient of a line continued by mirroring about its end samples.
fn causal_start(line: &[f64]) -> f64 {
    let n = line.len();
    let last = POLE.powi(n as i32 - 1);
    let mut power = POLE;
    let mut mirrored = last * last / POLE;
    let mut sum = line[0] + last * line[n - 1];
    for value in &line[1..n - 1] {
        sum += (power + mirrored) * value;
        power *= POLE;
        mirrored /= POLE;
    }
    sum / (1.0 - last * last)
}

/// The weights of the four coefficients around a position with this fraction.
fn weights(fraction: f64) -> [f64; 4] {
    let rest = 1.0 - fraction;
    let second = (fraction * fraction * (fraction - 2.0) * 3.0 + 4.0) / 6.0;
    let third = (rest * rest * (rest - 2.0) * 3.0 + 4.0) / 6.0;
    let first = rest * rest * rest / 6.0;
    [first, second, third, 1.0 - first - second - third]
}

/// The four mirrored indices and weights around `position`, or `None` outside `0..=n - 1`.
fn taps(position: f64, n: usize) -> Option<[(usize, f64); 4]> {
    if !(position >= 0.0 && position <= (n - 1) as f64) {
        return None;
    }
    let base = position.floor();
    let weights = weights(position - base);
    let first = base as isize - 1;
    Some(std::array::from_fn(|i| (Border::Mirror101.map(first + i as isize, n), weights[i])))
}

/// The spline through `coefficients` at (row `y`, column `x`), 0 outside the image.
pub fn sample(coefficients: &[f64], width: usize, height: usize, y: f64, x: f64) -> f64 {
    let (Some(rows), Some(columns)) = (taps(y, height), taps(x, width)) else {
        return 0.0;
    };
    let mut sum = 0.0;
    for (row, row_weight) in rows {
        for (column, column_weight) in columns {
            sum += coefficients[row * width + column] * row_weight * column_weight;
        }
    }
    sum
}

/// Hands the value at every pixel of the picture turned by `degrees` about its centre to `emit`, row by row.
pub fn rotate(coefficients: &[f64], width: usize, height: usize, degrees: f64, mut emit: impl FnMut(usize, f64)) {
    let (sin, cos) = degrees.to_radians().sin_cos();
    let (mid_y, mid_x) = ((height as f64 - 1.0) / 2.0, (width as f64 - 1.0) / 2.0);
    let offset_y = mid_y - (cos * mid_y + sin * mid_x);
    let offset_x = mid_x - (-sin * mid_y + cos * mid_x);
    for y in 0..height {
        for x in 0..width {
            let (row, column) = (y as f64, x as f64);
            let from_y = cos * row + sin * column + offset_y;
            let from_x = -sin * row + cos * column + offset_x;
            emit(y * width + x, sample(coefficients, width, height, from_y, from_x));
        }
    }
}

/// Where each of the middle `n` samples of an axis of `n` enlarged by `factor` reads, corner aligned.
pub fn centred_zoom_positions(n: usize, factor: f64) -> Vec<f64> {
    let enlarged = ((n as f64 * factor).round_ties_even() as usize).max(n);
    let step = if enlarged > 1 { (n - 1) as f64 / (enlarged - 1) as f64 } else { 1.0 };
    let edge = (enlarged - n) / 2;
    (edge..edge + n).map(|i| i as f64 * step).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_spline_passes_through_its_samples() {
        let (width, height) = (7, 5);
        let source: Vec<f64> = (0..35).map(|i| f64::from(i * 17 % 23)).collect();
        let mut coefficients = source.clone();
        prefilter(&mut coefficients, width, height);
        for (i, expected) in source.iter().enumerate() {
            let found = sample(&coefficients, width, height, (i / width) as f64, (i % width) as f64);
            assert!((found - expected).abs() < 1e-10, "{found} for {expected}");
        }
    }

    #[test]
    fn outside_is_black() {
        assert_eq!(sample(&[5.0; 9], 3, 3, -0.001, 1.0), 0.0);
        assert_eq!(sample(&[5.0; 9], 3, 3, 1.0, 2.001), 0.0);
    }
}
