//! Simple passes over whole tensors, split over images.

use crate::Workers;
use crate::extent::Extent;
use crate::shared::Shared;

/// Values per chunk of a plain pass.
const CHUNK: usize = 64 << 10;

/// `to += from`, or `to = from`.
///
/// # Panics
/// If the lengths differ.
pub fn accumulate(workers: &mut Workers, from: &[f32], to: &mut [f32], add: bool) {
    assert_eq!(from.len(), to.len(), "lengths differ");
    let shared = Shared::new(to);
    workers.each(from.len().div_ceil(CHUNK), |index, _| {
        let from = &from[index * CHUNK..from.len().min((index + 1) * CHUNK)];
        // SAFETY: chunks do not overlap.
        let to = unsafe { shared.part(index * CHUNK, from.len()) };
        if add {
            to.iter_mut().zip(from).for_each(|(to, from)| *to += from);
        } else {
            to.copy_from_slice(from);
        }
    });
}

/// Whether no value is NaN or infinite.
pub fn all_finite(values: &[f32]) -> bool {
    // A product with zero is zero unless the value is not finite, and then it is NaN, which a sum keeps.
    let (lanes, rest) = values.as_chunks::<16>();
    let mut sums = [0.0f32; 16];
    for lane in lanes {
        for (sum, x) in sums.iter_mut().zip(lane) {
            *sum += x * 0.0;
        }
    }
    sums.iter().chain(rest).all(|x| (x * 0.0) == 0.0)
}

/// `out = value * factor` per channel. The flag says to add to what is there.
///
/// # Panics
/// If a slice is too short.
pub fn scale(workers: &mut Workers, extent: Extent, values: &[f32], factors: &[f32], out: &mut [f32], add: bool) {
    let (len, channels) = (extent.pixels * extent.channels, extent.channels);
    assert!(values.len() >= extent.len() && out.len() >= extent.len(), "scale too short");
    let factors = &factors[..channels];
    let out = Shared::new(out);
    workers.each(extent.images, |image, _| {
        // SAFETY: images do not overlap.
        let out = unsafe { out.part(image * len, len) };
        let values = values[image * len..][..len].chunks_exact(channels);
        for (out, values) in out.chunks_exact_mut(channels).zip(values) {
            for c in 0..channels {
                let before = if add { out[c] } else { 0.0 };
                out[c] = values[c] * factors[c] + before;
            }
        }
    });
}

/// `out = value + term`, the same term for every image.
///
/// # Panics
/// If a slice is too short.
pub fn add_repeated(workers: &mut Workers, images: usize, values: &[f32], term: &[f32], out: &mut [f32]) {
    let len = term.len();
    assert!(values.len() >= images * len && out.len() >= images * len, "sum too short");
    let out = Shared::new(out);
    workers.each(images, |image, _| {
        // SAFETY: images do not overlap.
        let out = unsafe { out.part(image * len, len) };
        let values = &values[image * len..][..len];
        for (out, (value, term)) in out.iter_mut().zip(values.iter().zip(term)) {
            *out = value + term;
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_bad_value_anywhere_is_found() {
        for len in [1, 15, 16, 17, 100] {
            for at in 0..len {
                for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
                    let mut values = vec![1e38; len];
                    assert!(all_finite(&values));
                    values[at] = bad;
                    assert!(!all_finite(&values), "{bad} at {at} of {len}");
                }
            }
        }
    }
}
