//! Products of two tensors, of which one may have a single pixel per image: the gates of squeeze-and-excitation.

use crate::Workers;
use crate::extent::Extent;
use crate::isa::Isa;
use crate::lanes::{Lanes, Task, load, store};
use crate::shared::Shared;
use crate::walk::{SHORT_SUM, prefetch_pixels};

/// `out = value * gate`; the gate has the value's extent or one pixel per image.
///
/// # Panics
/// If a slice is too short.
pub fn multiply(
    workers: &mut Workers,
    extent: Extent,
    values: &[f32],
    gate: &[f32],
    gate_pixels: usize,
    out: &mut [f32],
) {
    let Extent { images, pixels, channels } = extent;
    check(extent, values, gate, gate_pixels);
    assert!(out.len() >= extent.len(), "product too short");
    let out = Shared::new(out);
    workers.each(images, |image, _| {
        let len = pixels * channels;
        // SAFETY: images do not overlap.
        let out = unsafe { out.part(image * len, len) };
        let values = &values[image * len..][..len];
        let gate = &gate[image * gate_pixels * channels..][..gate_pixels * channels];
        for (pixel, (out, values)) in out.chunks_exact_mut(channels).zip(values.chunks_exact(channels)).enumerate() {
            let gate = &gate[pixel % gate_pixels * channels..][..channels];
            for c in 0..channels {
                out[c] = values[c] * gate[c];
            }
        }
    });
}

/// Gradients of both factors of a product; either may be left out. The flag says to add to what is there.
///
/// # Panics
/// If a slice is too short.
pub fn multiply_backward(
    isa: Isa,
    workers: &mut Workers,
    extent: Extent,
    (values, gate, gate_pixels): (&[f32], &[f32], usize),
    gradient: &[f32],
    [value_target, gate_target]: [Option<(&mut [f32], bool)>; 2],
) {
    let channels = extent.channels;
    check(extent, values, gate, gate_pixels);
    assert!(gradient.len() >= extent.len(), "gradient too short");
    let (len, gate_len) = (extent.pixels * channels, gate_pixels * channels);
    let value_target = value_target.map(|(target, add)| (Shared::new(target), add));
    let gate_target = gate_target.map(|(target, add)| (Shared::new(target), add));
    workers.each(extent.images, |image, _| {
        // SAFETY: images do not overlap.
        let (value_target, gate_target) = unsafe {
            (
                value_target.map(|(target, add)| (target.part(image * len, len), add)),
                gate_target.map(|(target, add)| (target.part(image * gate_len, gate_len), add)),
            )
        };
        isa.run(Backward {
            values: &values[image * len..][..len],
            gate: &gate[image * gate_len..][..gate_len],
            gradient: &gradient[image * len..][..len],
            value_target,
            gate_target,
            channels,
        });
    });
}

/// One image. With one pixel of gates its gradient is a sum over pixels.
struct Backward<'a> {
    values: &'a [f32],
    gate: &'a [f32],
    gradient: &'a [f32],
    value_target: Option<(&'a mut [f32], bool)>,
    gate_target: Option<(&'a mut [f32], bool)>,
    channels: usize,
}

impl Task for Backward<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<L: Lanes>(self) {
        let (len, gate_len, channels) = (self.gradient.len(), self.gate.len(), self.channels);
        let (values, gate, gradient) = (self.values.as_ptr(), self.gate.as_ptr(), self.gradient.as_ptr());
        let value_target = self.value_target.map(|(to, add)| (to.as_mut_ptr(), add));
        let gate_target = self.gate_target.map(|(to, add)| (to.as_mut_ptr(), add));
        // A gate per value is a row as long as the image, without a sum.
        let (row, pixels) = if gate_len == len { (len, 1) } else { (channels, len / channels) };
        // SAFETY: slices hold `pixels` rows, gates one; vectors at the end of a row are partial.
        unsafe {
            for start in (0..pixels).step_by(SHORT_SUM) {
                let end = pixels.min(start + SHORT_SUM);
                let mut c = 0;
                while c < row {
                    let part = L::N.min(row - c);
                    let factor = load::<L>(gate.add(c), part);
                    let mut sum = L::splat(0.0);
                    if end < pixels {
                        prefetch_pixels::<L>(gradient, end, row, c, row);
                        prefetch_pixels::<L>(values, end, row, c, row);
                    }
                    for i in start..end {
                        let at = i * row + c;
                        let g = load::<L>(gradient.add(at), part);
                        if let Some((to, add)) = value_target {
                            let mut v = L::mul(g, factor);
                            if add {
                                v = L::add(v, load::<L>(to.add(at), part));
                            }
                            store::<L>(to.add(at), part, v);
                        }
                        if gate_target.is_some() {
                            sum = L::fma(g, load::<L>(values.add(at), part), sum);
                        }
                    }
                    if let Some((to, add)) = gate_target {
                        if add || start > 0 {
                            sum = L::add(sum, load::<L>(to.add(c), part));
                        }
                        store::<L>(to.add(c), part, sum);
                    }
                    c += L::N;
                }
            }
        }
    }
}

fn check(extent: Extent, values: &[f32], gate: &[f32], gate_pixels: usize) {
    assert!(gate_pixels == 1 || gate_pixels == extent.pixels, "a gate has one pixel or all");
    assert!(values.len() >= extent.len(), "values too short");
    assert!(gate.len() >= extent.images * gate_pixels * extent.channels, "gate too short");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parity::{compare, noise};
    use flipcast_tensor::Tolerance;

    #[test]
    fn gradients_of_both_factors_agree_and_add() {
        for (channels, one_pixel) in [(1, true), (17, true), (33, true), (5, false), (16, false)] {
            let extent = Extent { images: 2, pixels: 19, channels };
            let gate_pixels = if one_pixel { 1 } else { extent.pixels };
            let gates = 2 * gate_pixels * channels;
            let (values, gate) = (noise(extent.len(), 1), noise(gates, 2));
            let gradient = noise(extent.len(), 3);
            for add in [false, true] {
                let run = |isa: Isa, workers: &mut Workers, out: &mut [f32]| {
                    if add {
                        out.fill(0.5);
                    }
                    let (of_values, of_gate) = out.split_at_mut(extent.len());
                    multiply_backward(
                        isa,
                        workers,
                        extent,
                        (&values, &gate, gate_pixels),
                        &gradient,
                        [Some((of_values, add)), Some((of_gate, add))],
                    );
                };
                let what = format!("product of {channels} channels, {gate_pixels} gates");
                let len = extent.len() + gates;
                compare(&what, len, Tolerance::RelativeL2(1e-7), |isa, workers, _, out| {
                    run(isa, workers, out);
                });
                let mut found = vec![f32::NAN; len];
                run(Isa::detect(), &mut Workers::new(1), &mut found);
                let before = if add { 0.5 } else { 0.0 };
                let mut expected = vec![before; len];
                for i in 0..extent.len() {
                    let (image, at) = (i / (19 * channels), i % (gate_pixels * channels));
                    let at = image * gate_pixels * channels + at;
                    expected[i] += gradient[i] * gate[at];
                    expected[extent.len() + at] += gradient[i] * values[i];
                }
                Tolerance::RelativeL2(1e-6).check(&what, &found, &expected);
            }
        }
    }
}
