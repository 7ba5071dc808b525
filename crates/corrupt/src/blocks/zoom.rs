//! Corner-aligned linear zoom, and the zoom on the middle that keeps the size.

use super::gaussian_filter::Extent;

/// Where each output sample of one axis reads: two neighbours and the weight of the second.
struct Axis {
    taps: Vec<(usize, usize, f64)>,
}

impl Axis {
    /// The axis of a centre zoom: of `n` samples the middle `ceil(n / factor)` are spread over `round(that * factor)`
    /// and the middle `n` of those are kept.
    fn centred(n: usize, factor: f64) -> Self {
        let kept = ((n as f64 / factor).ceil() as usize).clamp(1, n);
        let lead = (n - kept) / 2;
        let enlarged = ((kept as f64 * factor).round_ties_even() as usize).max(n);
        let trim = (enlarged - n) / 2;
        let step = if enlarged > 1 { (kept - 1) as f64 / (enlarged - 1) as f64 } else { 1.0 };
        let taps = (trim..trim + n)
            .map(|i| {
                let position = i as f64 * step;
                let base = (position as usize).min(kept - 1);
                (lead + base, lead + (base + 1).min(kept - 1), position - base as f64)
            })
            .collect();
        Self { taps }
    }
}

/// Zooms in on the middle of `source` by `factor` (at least 1), keeping its size, and hands each finished row to `emit`.
pub fn centre_zoom_rows(source: &[f64], extent: Extent, factor: f64, mut emit: impl FnMut(usize, &[f64])) {
    let Extent { height, width, channels } = extent;
    let (down, across) = (Axis::centred(height, factor), Axis::centred(width, factor));
    let stride = width * channels;
    let (mut blended, mut out) = (vec![0.0; stride], vec![0.0; stride]);
    for (y, &(upper, lower, weight)) in down.taps.iter().enumerate() {
        let (upper, lower) = (&source[upper * stride..][..stride], &source[lower * stride..][..stride]);
        for ((value, a), b) in blended.iter_mut().zip(upper).zip(lower) {
            *value = a * (1.0 - weight) + b * weight;
        }
        for (pixel, &(left, right, weight)) in out.chunks_exact_mut(channels).zip(&across.taps) {
            let (left, right) = (&blended[left * channels..][..channels], &blended[right * channels..][..channels]);
            for ((value, a), b) in pixel.iter_mut().zip(left).zip(right) {
                *value = a * (1.0 - weight) + b * weight;
            }
        }
        emit(y, &out);
    }
}

/// [`centre_zoom_rows`] into one array.
pub fn centre_zoom(source: &[f64], extent: Extent, factor: f64) -> Vec<f64> {
    let mut out = Vec::with_capacity(source.len());
    centre_zoom_rows(source, extent, factor, |_, row| out.extend_from_slice(row));
    out
}

/// `start, start + step, ...` below `stop`, with numpy's `arange` arithmetic, which may overshoot by one entry.
pub fn arange(start: f64, stop: f64, step: f64) -> Vec<f64> {
    let len = ((stop - start) / step).ceil().max(0.0) as usize;
    let delta = (start + step) - start;
    (0..len).map(|i| start + i as f64 * delta).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factor_one_is_the_identity() {
        let extent = Extent { height: 3, width: 4, channels: 3 };
        let source: Vec<f64> = (0..36).map(f64::from).collect();
        assert_eq!(centre_zoom(&source, extent, 1.0), source);
    }

    #[test]
    fn a_linear_ramp_stays_linear() {
        let extent = Extent { height: 1, width: 9, channels: 1 };
        let source: Vec<f64> = (0..9).map(f64::from).collect();
        let zoomed = centre_zoom(&source, extent, 1.5);
        for pair in zoomed.windows(2) {
            assert!((pair[1] - pair[0] - 5.0 / 8.0).abs() < 1e-12, "{zoomed:?}");
        }
    }

    #[test]
    fn arange_overshoots_as_published() {
        assert_eq!(arange(1.0, 1.11, 0.01).len(), 12);
        assert_eq!(arange(1.0, 1.16, 0.01).len(), 16);
        assert_eq!(arange(1.0, 1.06, 0.01).len(), 7);
    }
}
