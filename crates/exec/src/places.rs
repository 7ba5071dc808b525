//! Where values lie in the arena, and how they are read.

use crate::network::{Identity, Network};
use crate::norms::Norm;
use flipcast_graph::{BufferId, GradTarget, Plan, Storage, ValueId};
use flipcast_kernels::{Extent, Source, Target, Team};
use std::ops::Range;

impl Network {
    pub(crate) fn extent(&self, value: ValueId) -> Extent {
        self.plan.value(value).dims.extent(self.images)
    }

    /// The place of a stored value in the arena.
    pub(crate) fn stored_range(&self, value: ValueId) -> Range<usize> {
        match self.plan.value(value).storage {
            Storage::Buffer(buffer) => self.plan.range(buffer, self.images),
            _ => unreachable!("only stored values have a place"),
        }
    }

    /// The place of what a value is read from, or `None` for the caller's batch.
    pub(crate) fn base_range(&self, value: ValueId) -> Option<Range<usize>> {
        let base = self.plan.base(value);
        match self.plan.value(base).storage {
            Storage::Buffer(buffer) => Some(self.plan.range(buffer, self.images)),
            _ => None,
        }
    }

    /// Copies what forward step `at` and later ones read of earlier ones, so that they can run once more.
    pub(crate) fn keep_live(&mut self, at: usize) {
        self.kept.clear();
        for buffer in self.plan.live_before(at) {
            self.kept.extend_from_slice(&self.arena[self.plan.range(buffer, self.images)]);
        }
    }

    /// Puts back what [`Self::keep_live`] copied.
    pub(crate) fn restore_live(&mut self, at: usize) {
        let mut kept = self.kept.as_slice();
        for buffer in self.plan.live_before(at) {
            let range = self.plan.range(buffer, self.images);
            let (values, rest) = kept.split_at(range.len());
            self.arena[range].copy_from_slice(values);
            kept = rest;
        }
    }

    pub(crate) fn gradient_range(&self, buffer: BufferId) -> Range<usize> {
        self.plan.range(buffer, self.images)
    }

    /// The numbers of stored values, and the team to work on them.
    pub(crate) fn stored<const N: usize>(&mut self, values: [ValueId; N]) -> ([&mut [f32]; N], &mut Team) {
        let ranges = values.map(|value| self.stored_range(value));
        (views(&mut self.arena, ranges), &mut self.team)
    }

    /// A gradient that a step reads, the one it makes of it, and the team to work on them.
    pub(crate) fn gradients(&mut self, from: BufferId, to: GradTarget) -> (&[f32], Target<'_>, &mut Team) {
        let ranges = [self.gradient_range(from), self.gradient_range(to.buffer)];
        let [from, values] = views(&mut self.arena, ranges);
        (from, Target { values, accumulate: to.accumulate }, &mut self.team)
    }

    /// What a step reads as `source`, the stored `target` it writes, and the team to work on them.
    pub(crate) fn read<'a>(
        &'a mut self,
        source: ValueId,
        target: ValueId,
        batch: &'a [f32],
    ) -> (Source<'a>, &'a mut [f32], &'a mut Team) {
        let ranges = [self.base_range(source), Some(self.stored_range(target))];
        let [base, out] = cut(&mut self.arena, ranges);
        let source = source_of(&self.plan, &self.norms, &self.identity, source, base.map_or(batch, |base| base));
        (source, out.unwrap_or_default(), &mut self.team)
    }
}

/// How a value is read, given the numbers of its base.
pub(crate) fn source_of<'a>(
    plan: &Plan,
    norms: &'a [Norm],
    identity: &'a Identity,
    value: ValueId,
    base: &'a [f32],
) -> Source<'a> {
    match plan.value(value).storage {
        Storage::Derived { norm, activation, .. } => {
            let norm = norm.map_or_else(|| identity.tables(), |norm| norms[norm.index()].tables());
            Source::Normed { values: base, norm, activation }
        }
        _ => Source::Plain(base),
    }
}

/// Parts of the arena that a step uses together. Planned buffers that live together do not overlap.
pub(crate) fn views<const N: usize>(arena: &mut [f32], ranges: [Range<usize>; N]) -> [&mut [f32]; N] {
    arena.get_disjoint_mut(ranges).expect("buffers that live together do not overlap")
}

/// As [`views`], for parts of which some may be absent.
pub(crate) fn cut<const N: usize>(arena: &mut [f32], ranges: [Option<Range<usize>>; N]) -> [Option<&mut [f32]>; N] {
    // An absent part is an empty range at the end, which overlaps nothing.
    let end = arena.len();
    let present: [bool; N] = std::array::from_fn(|i| ranges[i].is_some());
    let parts = views(arena, ranges.map(|range| range.unwrap_or(end..end)));
    let mut present = present.into_iter();
    parts.map(|part| present.next().unwrap_or(false).then_some(part))
}
