//! Products of two tensors, of which one may have a single pixel per image: the gates of squeeze-and-excitation.

use crate::extent::Extent;
use crate::lanes::{Lanes, Task, load, store, vectors};
use crate::shared::Shared;
use crate::walk::{SHORT_SUM, prefetch_pixels};
use crate::{Target, Team};

/// The factors of a product.
#[derive(Clone, Copy, Debug)]
pub struct Factors<'a> {
    /// The values.
    pub values: &'a [f32],
    /// What they are multiplied with.
    pub gate: &'a [f32],
    /// Pixels per image of the gate: as many as the values have, or one that serves all.
    pub gate_pixels: usize,
}

/// `out = value * gate`.
///
/// # Panics
/// If a slice is too short.
pub fn multiply(team: &mut Team, extent: Extent, factors: Factors, out: &mut [f32]) {
    factors.check(extent);
    let Factors { values, gate, gate_pixels } = factors;
    let (len, channels) = (extent.pixels * extent.channels, extent.channels);
    team.each_chunk_mut(&mut out[..extent.len()], len, |image, out| {
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

/// Gradients of values and gate of a product; either may be left out.
///
/// # Panics
/// If a slice is too short.
pub fn multiply_backward(
    team: &mut Team,
    extent: Extent,
    factors: Factors,
    gradient: &[f32],
    targets: [Option<Target>; 2],
) {
    factors.check(extent);
    let Factors { values, gate, gate_pixels } = factors;
    let channels = extent.channels;
    assert!(gradient.len() >= extent.len(), "gradient too short");
    let isa = team.isa();
    let (len, gate_len) = (extent.pixels * channels, gate_pixels * channels);
    let targets = targets.map(|target| target.map(|target| (Shared::new(target.values), target.accumulate)));
    team.each(extent.images, |image, _| {
        let part = |n: usize, len: usize| {
            // SAFETY: images do not overlap.
            targets[n].map(|(to, accumulate)| Target { values: unsafe { to.part(image * len, len) }, accumulate })
        };
        isa.run(Backward {
            values: &values[image * len..][..len],
            gate: &gate[image * gate_len..][..gate_len],
            gradient: &gradient[image * len..][..len],
            value_target: part(0, len),
            gate_target: part(1, gate_len),
            channels,
        });
    });
}

/// One image. With one pixel of gates its gradient is a sum over pixels.
struct Backward<'a> {
    values: &'a [f32],
    gate: &'a [f32],
    gradient: &'a [f32],
    value_target: Option<Target<'a>>,
    gate_target: Option<Target<'a>>,
    channels: usize,
}

impl Task for Backward<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<L: Lanes>(self) {
        let (len, gate_len, channels) = (self.gradient.len(), self.gate.len(), self.channels);
        let (values, gate, gradient) = (self.values.as_ptr(), self.gate.as_ptr(), self.gradient.as_ptr());
        let [value_target, gate_target] = [self.value_target, self.gate_target]
            .map(|target| target.map(|target| (target.values.as_mut_ptr(), target.accumulate)));
        // A gate per value is a row as long as the image, without a sum.
        let (row, pixels) = if gate_len == len { (len, 1) } else { (channels, len / channels) };
        // SAFETY: slices hold `pixels` rows, gates one; vectors at the end of a row are partial.
        unsafe {
            for start in (0..pixels).step_by(SHORT_SUM) {
                let end = pixels.min(start + SHORT_SUM);
                for (c, part) in vectors::<L>(row) {
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
                }
            }
        }
    }
}

impl Factors<'_> {
    fn check(&self, extent: Extent) {
        let pixels = self.gate_pixels;
        assert!(pixels == 1 || pixels == extent.pixels, "a gate has one pixel or all");
        assert!(self.values.len() >= extent.len(), "values too short");
        assert!(self.gate.len() >= extent.images * pixels * extent.channels, "gate too short");
    }
}
