//! Memory: every buffer gets a place in one arena such that no two that are live together overlap.

use super::backward::{self, Backward};
use super::lower::Lowered;
use super::steps::*;
use super::types::*;
use crate::{Graph, PlanError};

/// Buffers start on cache lines.
const ALIGN: usize = 16;

pub(super) fn assign(graph: &Graph, mut lowered: Lowered, options: PlanOptions) -> Result<Plan, PlanError> {
    let Backward { steps: backward, logit_gradient } = match options.purpose {
        Purpose::Predict => Backward { steps: Vec::new(), logit_gradient: None },
        Purpose::Adapt => backward::lower(graph, &mut lowered),
    };
    let mut plan = Plan {
        buffers: lowered
            .buffers
            .iter()
            .map(|&per_image| BufferPlan { per_image, first: usize::MAX, last: 0, offset: 0 })
            .collect(),
        options,
        values: lowered.values,
        norms: lowered.norms,
        forward: lowered.steps,
        backward,
        arena_len: 0,
        peak_len: 0,
        logits: lowered.logits,
        logit_gradient,
        taps: lowered.taps,
    };
    mark_lifetimes(&mut plan);
    let (arena, peak) = place(&mut plan.buffers, plan.options.batch).ok_or_else(|| {
        let input = plan.values.first().map_or(crate::Dims::new(0, 0, 0), |value| value.dims);
        PlanError::TooLarge { batch: plan.options.batch, input }
    })?;
    (plan.arena_len, plan.peak_len) = (arena, peak);
    Ok(plan)
}

fn mark_lifetimes(plan: &mut Plan) {
    let end = plan.forward.len() + plan.backward.len();
    let mut uses: Vec<(BufferId, usize)> = Vec::new();
    let stored = |plan: &Plan, value: ValueId| match plan.values[plan.base(value).0].storage {
        Storage::Buffer(buffer) => Some(buffer),
        _ => None,
    };
    for (at, step) in plan.forward.iter().enumerate() {
        for value in step.sources().into_iter().chain(step.target()) {
            uses.extend(stored(plan, value).map(|buffer| (buffer, at)));
        }
    }
    for (index, step) in plan.backward.iter().enumerate() {
        let at = plan.forward.len() + index;
        for value in step.reads() {
            uses.extend(stored(plan, value).map(|buffer| (buffer, at)));
        }
        uses.extend(step.gradients().into_iter().map(|buffer| (buffer, at)));
    }
    for (_, value) in &plan.taps {
        uses.extend(stored(plan, *value).map(|buffer| (buffer, end)));
    }
    // The caller hands the logit gradient in before the first backward step.
    uses.extend(plan.logit_gradient.map(|buffer| (buffer, plan.forward.len())));
    for (buffer, at) in uses {
        let life = &mut plan.buffers[buffer.0];
        life.first = life.first.min(at);
        life.last = life.last.max(at);
    }
}

/// Places the buffers, largest first, each at the lowest offset free over its life. Returns the arena's length and
/// the largest sum of live buffers, or `None` when a length overflows.
fn place(buffers: &mut [BufferPlan], batch: usize) -> Option<(usize, usize)> {
    let mut sizes = Vec::with_capacity(buffers.len());
    for buffer in buffers.iter() {
        sizes.push(buffer.per_image.checked_mul(batch)?.checked_next_multiple_of(ALIGN)?);
    }
    let mut order: Vec<usize> = (0..buffers.len()).filter(|&i| buffers[i].first <= buffers[i].last).collect();
    order.sort_by_key(|&i| (std::cmp::Reverse(sizes[i]), buffers[i].first, i));
    let mut placed: Vec<usize> = Vec::new();
    let mut arena = 0usize;
    for i in order {
        let mut neighbours: Vec<(usize, usize)> = placed
            .iter()
            .filter(|&&j| buffers[j].first <= buffers[i].last && buffers[i].first <= buffers[j].last)
            .map(|&j| (buffers[j].offset, buffers[j].offset + sizes[j]))
            .collect();
        neighbours.sort_unstable();
        let mut offset = 0;
        for (start, end) in neighbours {
            if offset + sizes[i] <= start {
                break;
            }
            offset = offset.max(end);
        }
        buffers[i].offset = offset;
        arena = arena.max(offset.checked_add(sizes[i])?);
        placed.push(i);
    }
    let last = buffers.iter().map(|buffer| buffer.last).max().unwrap_or(0);
    let live = |at: usize| {
        let live = placed.iter().filter(|&&i| buffers[i].first <= at && at <= buffers[i].last);
        live.map(|&i| sizes[i]).sum::<usize>()
    };
    let peak = (0..=last).map(live).max().unwrap_or(0);
    (arena.checked_mul(4)? <= isize::MAX as usize).then_some((arena, peak))
}

impl BackwardStep {
    /// Forward values the step reads.
    pub fn reads(&self) -> Vec<ValueId> {
        match self {
            Self::NormSums { value, .. } | Self::ThroughNorm { value, .. } => vec![*value],
            Self::Join { join, .. } => join.sums.clone(),
            Self::Conv { gradient, then, .. } => {
                let through = match gradient {
                    GradSource::ThroughNorm { value, .. } => Some(*value),
                    GradSource::Plain(_) => None,
                };
                let below = match then {
                    Then::Nothing => &[][..],
                    Then::Sums(value) => std::slice::from_ref(value),
                    Then::Join(join) => &join.sums,
                };
                through.into_iter().chain(below.iter().copied()).collect()
            }
            Self::Mul { source, gate, .. } => vec![*source, *gate],
            Self::LayerNorm { source, .. } | Self::Attention { source, .. } => vec![*source],
            Self::Copy { .. }
            | Self::MaxPool { .. }
            | Self::AvgPool { .. }
            | Self::GlobalAvgPool { .. }
            | Self::Flatten { .. }
            | Self::ShortcutA { .. }
            | Self::Arrange { .. }
            | Self::Pick { .. }
            | Self::Scale { .. } => Vec::new(),
        }
    }

    /// Gradient buffers the step reads or writes.
    pub fn gradients(&self) -> Vec<BufferId> {
        match self {
            Self::NormSums { gradient, .. } | Self::Join { gradient, .. } => vec![*gradient],
            Self::Conv { gradient, target, .. } => {
                let (GradSource::Plain(buffer) | GradSource::ThroughNorm { gradient: buffer, .. }) = gradient;
                vec![*buffer, target.buffer]
            }
            Self::ThroughNorm { gradient, target, .. }
            | Self::Copy { gradient, target, .. }
            | Self::MaxPool { gradient, target, .. }
            | Self::AvgPool { gradient, target, .. }
            | Self::GlobalAvgPool { gradient, target, .. }
            | Self::Flatten { gradient, target, .. }
            | Self::ShortcutA { gradient, target, .. }
            | Self::Attention { gradient, target, .. }
            | Self::Arrange { gradient, target, .. }
            | Self::Pick { gradient, target, .. }
            | Self::Scale { gradient, target, .. } => vec![*gradient, target.buffer],
            Self::Mul { gradient, source_target, gate_target, .. } => {
                let targets = source_target.iter().chain(gate_target).map(|target| target.buffer);
                std::iter::once(*gradient).chain(targets).collect()
            }
            Self::LayerNorm { gradient, target, .. } => {
                std::iter::once(*gradient).chain(target.map(|target| target.buffer)).collect()
            }
        }
    }
}
