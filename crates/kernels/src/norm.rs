//! Statistics of norms: passes over a whole tensor, per channel or per image and channel.

use crate::Team;
use crate::extent::Extent;
use crate::lanes::{Lanes, Task, load, store, vectors};
use crate::shared::Shared;
use crate::totals::{PARTIAL_ROWS, Totals, reduce};
use crate::walk::{SHORT_SUM, prefetch_pixels};

/// Mean and biased variance of every channel over the whole batch.
///
/// # Panics
/// If a slice or the scratch is too short.
pub fn statistics(team: &mut Team, extent: Extent, values: &[f32], mean: &mut [f64], variance: &mut [f64]) {
    let channels = extent.channels;
    assert!(values.len() >= extent.len() && mean.len() >= channels && variance.len() >= channels);
    let isa = team.isa();
    let totals = [Totals::Statistics { mean, variance }, Totals::Nothing];
    reduce(team, extent, totals, |run, [partial, _]| {
        isa.run(Statistics { values: &values[run.floats()], channels, partial });
    });
}

/// Mean and biased variance of every channel of every image: `[image][channel]`.
///
/// # Panics
/// If a slice or the scratch is too short.
pub fn per_image_statistics(team: &mut Team, extent: Extent, values: &[f32], mean: &mut [f64], variance: &mut [f64]) {
    let Extent { images, pixels, channels } = extent;
    assert!(values.len() >= extent.len() && mean.len() >= images * channels && variance.len() >= images * channels);
    let isa = team.isa();
    let (mean, variance) = (Shared::new(mean), Shared::new(variance));
    team.each(images, |image, scratch| {
        // SAFETY: every image has rows of its own.
        let (mean, variance) =
            unsafe { (mean.part(image * channels, channels), variance.part(image * channels, channels)) };
        let partial = &mut scratch.floats[..PARTIAL_ROWS * channels];
        let values = &values[image * pixels * channels..][..pixels * channels];
        isa.run(Statistics { values, channels, partial: &mut *partial });
        let n = pixels as f64;
        for c in 0..channels {
            let at = |row: usize| f64::from(partial[row * channels + c]);
            mean[c] = at(0) + at(1) / n;
            variance[c] = ((at(2) - at(1) * at(1) / n) / n).max(0.0);
        }
    });
}

/// Pivot, sum and sum of squares about it, of a run of pixels.
struct Statistics<'a> {
    values: &'a [f32],
    channels: usize,
    partial: &'a mut [f32],
}

impl Task for Statistics<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<L: Lanes>(self) {
        let (channels, count) = (self.channels, self.values.len() / self.channels);
        let (values, partial) = (self.values.as_ptr(), self.partial.as_mut_ptr());
        // SAFETY: vectors stay inside a pixel's channels, and `partial` holds three rows.
        unsafe {
            let [pivots, sums, squares] = [0, 1, 2].map(|row| partial.add(row * channels));
            std::ptr::copy_nonoverlapping(values, pivots, channels);
            std::ptr::write_bytes(sums, 0, 2 * channels);
            for start in (0..count).step_by(SHORT_SUM) {
                let end = count.min(start + SHORT_SUM);
                for (c, part) in vectors::<L>(channels) {
                    let pivot = load::<L>(pivots.add(c), part);
                    prefetch_pixels::<L>(values, end, channels, c, channels);
                    let (mut sum, mut square) = (L::splat(0.0), L::splat(0.0));
                    for pixel in start..end {
                        let d = L::sub(load::<L>(values.add(pixel * channels + c), part), pivot);
                        sum = L::add(sum, d);
                        square = L::fma(d, d, square);
                    }
                    store::<L>(sums.add(c), part, L::add(load::<L>(sums.add(c), part), sum));
                    store::<L>(squares.add(c), part, L::add(load::<L>(squares.add(c), part), square));
                }
            }
        }
    }
}
