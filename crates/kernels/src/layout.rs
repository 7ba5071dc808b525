//! Rearrangements: flatten in PyTorch's order, the zero-padding strided shortcut, and moves of whole tokens.

use crate::extent::Extent;
use crate::{Target, Team};
use flipcast_graph::{Arrangement, ShortcutShape};

/// Pixels and channels of every image in PyTorch's order: `out[channel * pixels + pixel]`.
///
/// # Panics
/// If a slice is too short.
pub fn flatten(team: &mut Team, extent: Extent, values: &[f32], out: &mut [f32]) {
    let Extent { pixels, channels, .. } = extent;
    let len = pixels * channels;
    team.each_chunk_mut(&mut out[..extent.len()], len, |image, out| {
        let values = &values[image * len..][..len];
        for pixel in 0..pixels {
            for c in 0..channels {
                out[c * pixels + pixel] = values[pixel * channels + c];
            }
        }
    });
}

/// The gradient of `flatten`.
///
/// # Panics
/// If a slice is too short.
pub fn flatten_backward(team: &mut Team, extent: Extent, gradient: &[f32], target: Target) {
    let Extent { pixels, channels, .. } = extent;
    let len = pixels * channels;
    team.each_chunk_mut(&mut target.values[..extent.len()], len, |image, to| {
        let gradient = &gradient[image * len..][..len];
        for pixel in 0..pixels {
            for c in 0..channels {
                let to = &mut to[pixel * channels + c];
                *to = gradient[c * pixels + pixel] + if target.accumulate { *to } else { 0.0 };
            }
        }
    });
}

/// Keeps every `stride`-th pixel and puts zero channels around.
///
/// # Panics
/// If a slice is too short.
pub fn shortcut_a(team: &mut Team, images: usize, shape: ShortcutShape, values: &[f32], out: &mut [f32]) {
    let [from_len, to_len] = shape.lens();
    team.each_chunk_mut(&mut out[..images * to_len], to_len, |image, out| {
        let values = &values[image * from_len..][..from_len];
        out.fill(0.0);
        for (from, to) in shape.pairs() {
            out[to..to + shape.channels[0]].copy_from_slice(&values[from..from + shape.channels[0]]);
        }
    });
}

/// The gradient of `shortcut_a`.
///
/// # Panics
/// If a slice is too short.
pub fn shortcut_a_backward(team: &mut Team, images: usize, shape: ShortcutShape, gradient: &[f32], target: Target) {
    let [to_len, from_len] = shape.lens();
    team.each_chunk_mut(&mut target.values[..images * to_len], to_len, |image, to_image| {
        let gradient = &gradient[image * from_len..][..from_len];
        if !target.accumulate {
            to_image.fill(0.0);
        }
        for (to, from) in shape.pairs() {
            let from = &gradient[from..from + shape.channels[0]];
            to_image[to..to + shape.channels[0]].iter_mut().zip(from).for_each(|(to, from)| *to += from);
        }
    });
}

/// Where the tokens of an image go.
#[derive(Clone, Copy, Debug)]
pub struct Cells<'a> {
    /// The token that fills each cell of the result; [`Arrangement::VACANT`] for none.
    pub table: &'a [u32],
    /// Tokens of an image before.
    pub tokens: usize,
    /// Floats of a token and of a cell.
    pub channels: usize,
    /// Values of vacant cells, one cell after the other; zeros beyond its end.
    pub vacant: &'a [f32],
}

/// Moves tokens into cells.
///
/// # Panics
/// If a slice is too short, or the table names a token that is not there.
pub fn arrange(team: &mut Team, images: usize, cells: Cells, values: &[f32], target: Target) {
    let Cells { table, tokens, channels, .. } = cells;
    let (from_len, to_len) = (tokens * channels, table.len() * channels);
    team.each_chunk_mut(&mut target.values[..images * to_len], to_len, |image, out| {
        let values = &values[image * from_len..][..from_len];
        let mut vacant = cells.vacant.chunks_exact(channels);
        for (to, &token) in out.chunks_exact_mut(channels).zip(table) {
            let from = match token {
                Arrangement::VACANT => vacant.next(),
                token => Some(&values[token as usize * channels..][..channels]),
            };
            match (from, target.accumulate) {
                (Some(from), false) => to.copy_from_slice(from),
                (Some(from), true) => to.iter_mut().zip(from).for_each(|(to, from)| *to += from),
                (None, false) => to.fill(0.0),
                (None, true) => {}
            }
        }
    });
}
