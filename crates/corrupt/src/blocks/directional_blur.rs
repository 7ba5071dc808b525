//! One-sided motion blur with the 16-bit arithmetic of the published renderer.

/// Where one tap reads, relative to the output pixel, and how much it counts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tap {
    /// Rows down.
    pub row: isize,
    /// Columns to the right.
    pub column: isize,
    /// Share of the total.
    pub weight: f64,
}

/// The taps along `angle` (degrees): `2 * ceil(radius) + 1` of them, starting at the pixel itself and never behind it.
pub fn taps(radius: f64, sigma: f64, angle: f64) -> Vec<Tap> {
    let count = 2 * radius.ceil() as usize + 1;
    let raw: Vec<f64> = (0..count).map(|i| (-((i * i) as f64) / (2.0 * sigma * sigma)).exp()).collect();
    let total = super::summation::pairwise_sum(&raw);
    let (sin, cos) = angle.to_radians().sin_cos();
    let step = |i: usize, slope: f64| (i as f64 * slope - 0.5).ceil() as isize;
    raw.iter()
        .enumerate()
        .map(|(i, weight)| Tap { row: step(i, sin), column: step(i, cos), weight: weight / total })
        .collect()
}

/// Blurs `bytes` (rows of `width` pixels with `channels` samples each) with `taps`, edge pixels repeated.
///
/// Samples are widened to 16 bits, summed in double precision, rounded to a 16-bit value and divided by 257 without
/// rounding.
pub fn directional_blur(bytes: &[u8], width: usize, channels: usize, taps: &[Tap]) -> Vec<u8> {
    let stride = width * channels;
    let height = bytes.len() / stride;
    let reach = taps.iter().map(|tap| tap.column.unsigned_abs()).max().unwrap_or(0);
    let padded_stride = stride + 2 * reach * channels;
    let mut wide = Vec::with_capacity(padded_stride * height);
    for row in bytes.chunks_exact(stride) {
        let widen = |&byte: &u8| f64::from(byte) * 257.0;
        for _ in 0..reach {
            wide.extend(row[..channels].iter().map(widen));
        }
        wide.extend(row.iter().map(widen));
        for _ in 0..reach {
            wide.extend(row[stride - channels..].iter().map(widen));
        }
    }
    let mut out = Vec::with_capacity(bytes.len());
    let mut sources: Vec<(&[f64], f64)> = Vec::with_capacity(taps.len());
    let mut sums = vec![0.0; stride];
    for y in 0..height {
        sources.clear();
        sources.extend(taps.iter().map(|tap| {
            let row = (y as isize + tap.row).clamp(0, height as isize - 1) as usize;
            let column = (reach as isize + tap.column) as usize * channels;
            (&wide[row * padded_stride + column..][..stride], tap.weight)
        }));
        weighted_sum(&mut sums, &sources);
        out.extend(sums.iter().map(|sum| (((sum + 0.5) as u32).min(65535) / 257) as u8));
    }
    out
}

/// Adds up `sources` in order, a few outputs at a time so that the sums stay in registers.
fn weighted_sum(sums: &mut [f64], sources: &[(&[f64], f64)]) {
    const LANES: usize = 8;
    let whole = sums.len() - sums.len() % LANES;
    for (start, chunk) in (0..whole).step_by(LANES).zip(sums.chunks_exact_mut(LANES)) {
        let mut lanes = [0.0; LANES];
        for (source, weight) in sources {
            let values: &[f64; LANES] = source[start..start + LANES].try_into().expect("slice of LANES");
            for (lane, value) in lanes.iter_mut().zip(values) {
                *lane += weight * value;
            }
        }
        chunk.copy_from_slice(&lanes);
    }
    for (k, sum) in sums.iter_mut().enumerate().skip(whole) {
        *sum = sources.iter().fold(0.0, |total, (source, weight)| total + weight * source[k]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flat_image_is_unchanged() {
        let taps = taps(10.0, 3.0, 30.0);
        assert_eq!(directional_blur(&[77; 5 * 6 * 3], 6, 3, &taps), [77; 5 * 6 * 3]);
    }

    #[test]
    fn the_blur_reads_forwards_only() {
        let mut row = [0_u8; 9];
        row[4] = 255;
        let blurred = directional_blur(&row, 9, 1, &taps(2.0, 2.0, 0.0));
        assert!(blurred[..5].iter().all(|&v| v > 0), "{blurred:?}");
        assert!(blurred[5..].iter().all(|&v| v == 0), "{blurred:?}");
    }
}
