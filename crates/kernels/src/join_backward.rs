//! The gradient of a residual join: through its activation, with the sums of the norms below it.

use crate::Team;
use crate::extent::Extent;
use crate::lanes::{Lanes, Task, load, store};
use crate::mask::{mask_len, slope_bits};
use crate::shared::Shared;
use crate::source::PixelRun;
use crate::totals::{Totals, reduce};
use crate::walk::{SHORT_SUM, prefetch_pixels};

/// A batch norm directly below a join: what its sums need, and where they go.
#[derive(Debug)]
pub struct JoinedNorm<'a> {
    /// The stored value below the norm.
    pub values: &'a [f32],
    /// Its mean.
    pub centre: &'a [f32],
    /// Receives the sums of the gradient.
    pub sum: &'a mut [f32],
    /// Receives the sums of gradient times centred value.
    pub product: &'a mut [f32],
}

/// What happens to the gradient of a join once it is complete: it passes the activation, given as a mask, and the sums of
/// up to two batch norms below the join are gathered.
#[derive(Debug, Default)]
pub struct JoinGradient<'a> {
    /// Where the activation's slope is one; `None` means everywhere.
    pub mask: Option<&'a [u8]>,
    /// The norms.
    pub norms: [Option<JoinedNorm<'a>>; 2],
}

/// What the workers of a region see of a [`JoinGradient`].
#[derive(Clone, Copy, Default)]
pub(crate) struct SharedJoin<'a> {
    pub mask: Option<&'a [u8]>,
    /// Stored value and its mean.
    pub norms: [(&'a [f32], &'a [f32]); 2],
    pub count: usize,
}

impl<'a> JoinGradient<'a> {
    /// Splits into what the workers share and where the sums go.
    ///
    /// # Panics
    /// If a slice is too short for `extent`.
    pub(crate) fn share(self, extent: Extent) -> (SharedJoin<'a>, [Totals<'a>; 2]) {
        let channels = extent.channels;
        assert!(self.mask.is_none_or(|mask| mask.len() >= mask_len(extent)), "mask too short");
        let mut shared = SharedJoin { mask: self.mask, ..SharedJoin::default() };
        let mut totals = [Totals::Nothing, Totals::Nothing];
        for norm in self.norms.into_iter().flatten() {
            let enough = [norm.centre.len(), norm.sum.len(), norm.product.len()].iter().all(|len| *len >= channels);
            assert!(enough && norm.values.len() >= extent.len(), "norm too short");
            shared.norms[shared.count] = (norm.values, norm.centre);
            totals[shared.count] = Totals::Sums { sum: norm.sum, product: norm.product };
            shared.count += 1;
        }
        (shared, totals)
    }
}

/// Passes the complete gradient of a join on, in place.
///
/// # Panics
/// If a slice or the scratch is too short.
pub fn join_backward(team: &mut Team, extent: Extent, gradient: &mut [f32], join: JoinGradient) {
    let len = extent.len();
    assert!(gradient.len() >= len, "join of less than {len}");
    let isa = team.isa();
    let (join, totals) = join.share(extent);
    let gradient = Shared::new(&mut gradient[..len]);
    reduce(team, extent, totals, |run, partials| {
        // SAFETY: chunks do not overlap.
        let gradient = unsafe { gradient.part(run.first * run.channels, run.count * run.channels) };
        isa.run(Backward { run, gradient, join, partials: partials.map(|rows| rows.as_mut_ptr()) });
    });
}

struct Backward<'a> {
    run: PixelRun,
    gradient: &'a mut [f32],
    join: SharedJoin<'a>,
    partials: [*mut f32; 2],
}

impl Task for Backward<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<L: Lanes>(self) {
        let run = self.run;
        let gradient = self.gradient.as_mut_ptr();
        let pass = JoinPass {
            join: self.join,
            first: run.first,
            step: 1,
            count: run.count,
            channels: 0..run.channels,
            row: run.channels,
            starts_chunk: true,
            partials: self.partials,
        };
        let in_place = InPlace { gradient, channels: run.channels };
        // SAFETY: `join_backward` checked all slices for the extent the run lies in.
        unsafe { pass.run::<L, _>(in_place) };
    }
}

/// Where the complete gradient of a join comes from and where it goes, vector by vector.
pub(crate) trait Gradient: Copy {
    /// The gradient of pixel `i` of the run at channel `c`.
    unsafe fn get<L: Lanes>(self, i: usize, c: usize, part: usize) -> L::V;
    /// Prefetches the pixels from `next` on; called at every vector of `channels`.
    unsafe fn prefetch<L: Lanes>(self, next: usize, c: usize, channels: &std::ops::Range<usize>);
    /// Takes it back after the activation.
    unsafe fn put<L: Lanes>(self, i: usize, c: usize, part: usize, v: L::V);
}

#[derive(Clone, Copy)]
struct InPlace {
    gradient: *mut f32,
    channels: usize,
}

impl Gradient for InPlace {
    #[inline(always)]
    unsafe fn prefetch<L: Lanes>(self, next: usize, c: usize, channels: &std::ops::Range<usize>) {
        // SAFETY: a prefetch may name any address.
        unsafe { prefetch_pixels::<L>(self.gradient, next, self.channels, c, channels.len()) };
    }
    #[inline(always)]
    unsafe fn get<L: Lanes>(self, i: usize, c: usize, part: usize) -> L::V {
        // SAFETY: the caller's promise.
        unsafe { load::<L>(self.gradient.add(i * self.channels + c), part) }
    }
    #[inline(always)]
    unsafe fn put<L: Lanes>(self, i: usize, c: usize, part: usize, v: L::V) {
        // SAFETY: the caller's promise.
        unsafe { store::<L>(self.gradient.add(i * self.channels + c), part, v) }
    }
}

/// A run of pixels through a join, with the sums of the norms below it.
pub(crate) struct JoinPass<'a> {
    pub join: SharedJoin<'a>,
    /// First pixel in the whole batch, step between pixels, and their number.
    pub first: usize,
    pub step: usize,
    pub count: usize,
    /// Channels to work on, of `row` in all.
    pub channels: std::ops::Range<usize>,
    pub row: usize,
    /// Whether these are the chunk's first pixels.
    pub starts_chunk: bool,
    /// Per norm, this chunk's partial sums from the first of `channels` on.
    pub partials: [*mut f32; 2],
}

impl JoinPass<'_> {
    /// # Safety
    /// `gradient` covers the run, the join was shared for a batch that holds it, and the partial sums are this chunk's.
    #[inline(always)]
    pub unsafe fn run<L: Lanes, G: Gradient>(self, gradient: G) {
        // SAFETY: the caller's promise.
        unsafe {
            match self.join.count {
                0 => self.sum::<L, G, 0>(gradient),
                1 => self.sum::<L, G, 1>(gradient),
                _ => self.sum::<L, G, 2>(gradient),
            }
        }
    }

    /// The same with the sums of `NORMS` norms.
    #[inline(always)]
    unsafe fn sum<L: Lanes, G: Gradient, const NORMS: usize>(self, gradient: G) {
        let Self { join, channels, row, .. } = self;
        // SAFETY: see `run`.
        unsafe {
            for start in (0..self.count).step_by(SHORT_SUM) {
                let end = self.count.min(start + SHORT_SUM);
                let starts_chunk = self.starts_chunk && start == 0;
                let mut c = channels.start;
                while c < channels.end {
                    let part = L::N.min(channels.end - c);
                    let mut sums = [[L::splat(0.0); 2]; NORMS];
                    let mut centres = [L::splat(0.0); NORMS];
                    for n in 0..NORMS {
                        centres[n] = load::<L>(join.norms[n].1.as_ptr().add(c), part);
                        let values = join.norms[n].0.as_ptr().add(channels.start);
                        let next = self.first + end * self.step;
                        prefetch_pixels::<L>(values, next, row, c - channels.start, channels.len());
                    }
                    gradient.prefetch::<L>(end, c, &channels);
                    for i in start..end {
                        let pixel = self.first + i * self.step;
                        let mut dz = gradient.get::<L>(i, c, part);
                        if let Some(mask) = join.mask {
                            dz = L::keep(slope_bits::<L>(mask, pixel, c, row), dz);
                        }
                        gradient.put::<L>(i, c, part, dz);
                        for n in 0..NORMS {
                            let y = load::<L>(join.norms[n].0.as_ptr().add(pixel * row + c), part);
                            sums[n][0] = L::add(sums[n][0], dz);
                            sums[n][1] = L::fma(dz, L::sub(y, centres[n]), sums[n][1]);
                        }
                    }
                    for n in 0..NORMS {
                        for r in 0..2 {
                            let to = self.partials[n].add(r * row + c - channels.start);
                            let sum = if starts_chunk { sums[n][r] } else { L::add(load::<L>(to, part), sums[n][r]) };
                            store::<L>(to, part, sum);
                        }
                    }
                    c += L::N;
                }
            }
        }
    }
}
