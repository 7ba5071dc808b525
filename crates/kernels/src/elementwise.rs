//! Simple passes over whole tensors, split over images.

use crate::extent::Extent;
use crate::{Target, Team};

/// Values per chunk of a plain pass.
const CHUNK: usize = 64 << 10;

/// Adds or copies `from` to a tensor of the same length.
///
/// # Panics
/// If the lengths differ.
pub fn accumulate(team: &mut Team, from: &[f32], target: Target) {
    assert_eq!(from.len(), target.values.len(), "lengths differ");
    team.each_chunk_mut(target.values, CHUNK, |index, to| {
        let from = &from[index * CHUNK..][..to.len()];
        if target.accumulate {
            to.iter_mut().zip(from).for_each(|(to, from)| *to += from);
        } else {
            to.copy_from_slice(from);
        }
    });
}

/// The product of every value with its channel's factor.
///
/// # Panics
/// If a slice is too short.
pub fn scale(team: &mut Team, extent: Extent, values: &[f32], factors: &[f32], target: Target) {
    let (len, channels) = (extent.pixels * extent.channels, extent.channels);
    let factors = &factors[..channels];
    team.each_chunk_mut(&mut target.values[..extent.len()], len, |image, out| {
        let values = values[image * len..][..len].chunks_exact(channels);
        for (out, values) in out.chunks_exact_mut(channels).zip(values) {
            for c in 0..channels {
                let before = if target.accumulate { out[c] } else { 0.0 };
                out[c] = values[c] * factors[c] + before;
            }
        }
    });
}

/// `out = value + term`, the same term for every image.
///
/// # Panics
/// If a slice is too short.
pub fn add_repeated(team: &mut Team, images: usize, values: &[f32], term: &[f32], out: &mut [f32]) {
    let len = term.len();
    team.each_chunk_mut(&mut out[..images * len], len, |image, out| {
        let values = &values[image * len..][..len];
        for (out, (value, term)) in out.iter_mut().zip(values.iter().zip(term)) {
            *out = value + term;
        }
    });
}
