//! A bit per value of a join: where the slope of its activation is one.

use crate::activation::Curve;
use crate::extent::Extent;
use crate::lanes::Lanes;

/// Bytes of the mask of an extent: a bit per value, every pixel from a byte of its own on.
pub fn mask_len(extent: Extent) -> usize {
    extent.images * extent.pixels * extent.channels.div_ceil(8)
}

/// Notes in `mask` where the slope of `curve` is one, for the vector at channel `c` whose result is `v`.
#[inline(always)]
pub(crate) unsafe fn note_slope<L: Lanes, C: Curve>(
    curve: C,
    v: L::V,
    mask: &mut [u8],
    pixel: usize,
    c: usize,
    channels: usize,
) {
    // SAFETY: arithmetic only. The slope of these activations is the same at their output as at their input.
    let bits = unsafe { L::bits_gt(curve.backward::<L>(v, L::splat(1.0)), L::splat(0.5)) };
    let row = channels.div_ceil(8);
    let at = pixel * row + c / 8;
    let bytes = (L::N / 8).min(row - c / 8);
    mask[at..at + bytes].copy_from_slice(&bits.to_le_bytes()[..bytes]);
}

/// The bits of the vector at channel `c`.
#[inline(always)]
pub(crate) fn slope_bits<L: Lanes>(mask: &[u8], pixel: usize, c: usize, channels: usize) -> u32 {
    let row = channels.div_ceil(8);
    let at = pixel * row + c / 8;
    if L::N > 8 && row - c / 8 > 1 {
        u32::from(u16::from_le_bytes([mask[at], mask[at + 1]]))
    } else {
        u32::from(mask[at])
    }
}
