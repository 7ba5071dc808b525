//! Backward lowering: from the logit gradient to every norm's scale and shift, and no further.
//!
//! Steps are undone in reverse order, so when a step is reached every reader of its target has left its contribution.
//! A gradient is kept per value; that of a derived value is carried through its norm only where a step needs it.

use super::lower::Lowered;
use super::steps::*;
use super::types::*;
use crate::{Activation, Graph, NormKind, Op};
use std::collections::HashSet;

/// The backward half of a plan; buffers are appended to those of the forward half.
pub(super) struct Backward {
    pub steps: Vec<BackwardStep>,
    pub logit_gradient: Option<BufferId>,
}

pub(super) fn lower(graph: &Graph, lowered: &mut Lowered) -> Backward {
    let mut lowering = Lowering::new(graph, lowered);
    let logits = lowering.lowered.logits;
    if !lowering.wanted[logits.0] {
        return Backward { steps: Vec::new(), logit_gradient: None };
    }
    let logit_gradient = lowering.contribute(logits).buffer;
    for position in (0..lowering.lowered.steps.len()).rev() {
        lowering.undo(position);
    }
    Backward { steps: lowering.steps, logit_gradient: Some(logit_gradient) }
}

struct Lowering<'a> {
    lowered: &'a mut Lowered,
    /// Values whose gradient leads to some norm's scale or shift.
    wanted: Vec<bool>,
    /// Positions of the forward steps that read each value.
    readers: Vec<Vec<usize>>,
    /// Position of the forward step that writes each stored value.
    writer: Vec<Option<usize>>,
    /// Derived values on top of each stored value.
    derived: Vec<Vec<ValueId>>,
    gradient: Vec<Option<BufferId>>,
    /// Gradient buffers that serve two values.
    shared: HashSet<BufferId>,
    /// Nodes whose backward convolution writes every pixel: not so a pointwise one with a stride.
    covered: Vec<bool>,
    /// Derived values whose norm sums are already gathered.
    summed: HashSet<ValueId>,
    steps: Vec<BackwardStep>,
}

impl<'a> Lowering<'a> {
    fn new(graph: &Graph, lowered: &'a mut Lowered) -> Self {
        let covers = |op: &Op| match op {
            Op::Conv2d(conv) => conv.stride == 1 || conv.kernel != [1, 1],
            _ => true,
        };
        let covered = graph.nodes().iter().map(|node| covers(&node.op)).collect();
        let count = lowered.values.len();
        let mut readers = vec![Vec::new(); count];
        let mut writer = vec![None; count];
        for (position, step) in lowered.steps.iter().enumerate() {
            if !matches!(step, Step::Statistics { .. }) {
                for source in step.sources() {
                    readers[source.0].push(position);
                }
            }
            if let Some(target) = step.target() {
                writer[target.0] = Some(position);
            }
        }
        let mut derived = vec![Vec::new(); count];
        for (index, value) in lowered.values.iter().enumerate() {
            if let Storage::Derived { base, .. } = value.storage {
                derived[base.0].push(ValueId(index));
            }
        }
        // Values appear after everything they are made of, so one pass in order suffices.
        let mut wanted = vec![false; count];
        for index in 0..count {
            wanted[index] = match lowered.values[index].storage {
                Storage::Input => false,
                Storage::Derived { base, norm, .. } => norm.is_some() || wanted[base.0],
                Storage::Buffer(_) => {
                    let step = writer[index].map(|position| &lowered.steps[position]);
                    step.is_some_and(|step| {
                        matches!(step, Step::LayerNorm { .. }) || step.sources().iter().any(|source| wanted[source.0])
                    })
                }
            };
        }
        Self {
            lowered,
            wanted,
            readers,
            writer,
            derived,
            gradient: vec![None; count],
            shared: HashSet::new(),
            covered,
            summed: HashSet::new(),
            steps: Vec::new(),
        }
    }

    fn undo(&mut self, position: usize) {
        let step = self.lowered.steps[position].clone();
        let Some(target) = step.target() else { return };
        let on_top: Vec<(ValueId, BufferId)> =
            self.derived[target.0].iter().filter_map(|&value| Some((value, self.gradient[value.0]?))).collect();
        for &(value, gradient) in &on_top {
            if self.has_norm(value) && self.summed.insert(value) {
                self.steps.push(BackwardStep::NormSums { value, gradient });
            }
        }
        if !self.wanted[target.0] {
            return;
        }
        if let (Step::Conv { node, source, .. }, None, [(value, gradient)]) =
            (&step, self.gradient[target.0], on_top.as_slice())
        {
            let gradient = GradSource::ThroughNorm { value: *value, gradient: *gradient };
            self.undo_conv(*node, *source, gradient);
            return;
        }
        let Some(gradient) = self.settle(target, &on_top) else {
            return;
        };
        self.undo_with(step, position, gradient);
    }

    /// Brings every contribution to the gradient of a stored value into one buffer.
    fn settle(&mut self, target: ValueId, on_top: &[(ValueId, BufferId)]) -> Option<BufferId> {
        for &(value, gradient) in on_top {
            let in_place = self.gradient[target.0].is_none() && !self.shared.contains(&gradient);
            let into = if in_place {
                self.gradient[target.0] = Some(gradient);
                GradTarget { buffer: gradient, accumulate: false }
            } else {
                self.contribute(target)
            };
            self.steps.push(BackwardStep::ThroughNorm { value, gradient, target: into });
        }
        self.gradient[target.0]
    }

    fn undo_with(&mut self, step: Step, position: usize, gradient: BufferId) {
        let undone = match step {
            Step::Statistics { .. } => return,
            Step::Conv { node, source, .. } => return self.undo_conv(node, source, GradSource::Plain(gradient)),
            Step::Join { terms, activation, target } => {
                return self.undo_join(position, &terms, activation, target, gradient);
            }
            Step::AddPosition { source, target, .. } => {
                return self.undo_join(position, &[source], Activation::Identity, target, gradient);
            }
            Step::MaxPool { pool, source, target: forward } => {
                BackwardStep::MaxPool { forward, pool, gradient, source, target: self.contribute(source) }
            }
            Step::AvgPool { pool, source, target: forward } => {
                BackwardStep::AvgPool { forward, pool, gradient, source, target: self.contribute(source) }
            }
            Step::GlobalAvgPool { source, .. } => {
                BackwardStep::GlobalAvgPool { gradient, source, target: self.contribute(source) }
            }
            Step::Mul { source, gate, .. } => {
                let source_target = self.contribute_if_wanted(source);
                let gate_target = self.contribute_if_wanted(gate);
                BackwardStep::Mul { source, gate, gradient, source_target, gate_target }
            }
            Step::Flatten { source, .. } => BackwardStep::Flatten { source, gradient, target: self.contribute(source) },
            Step::ShortcutA { stride, source, target: forward } => {
                BackwardStep::ShortcutA { stride, source, forward, gradient, target: self.contribute(source) }
            }
            Step::Attention { node, source, .. } => {
                BackwardStep::Attention { node, source, gradient, target: self.contribute(source) }
            }
            Step::Arrange { node, source, .. } => {
                BackwardStep::Arrange { node, gradient, target: self.contribute(source) }
            }
            Step::Pick { node, sources, .. } => {
                for (input, source) in sources.into_iter().enumerate() {
                    if let Some(target) = self.contribute_if_wanted(source) {
                        self.steps.push(BackwardStep::Pick { node, input, gradient, target });
                    }
                }
                return;
            }
            Step::Scale { node, source, .. } => {
                BackwardStep::Scale { node, source, gradient, target: self.contribute(source) }
            }
            Step::LayerNorm { norm, source, .. } => {
                BackwardStep::LayerNorm { norm, source, gradient, target: self.contribute_if_wanted(source) }
            }
        };
        self.steps.push(undone);
    }

    fn undo_conv(&mut self, node: crate::NodeId, source: ValueId, gradient: GradSource) {
        if !self.wanted[source.0] {
            return;
        }
        let target = self.contribute(source);
        let complete = self.has_batch_norm(source) && self.readers[source.0].len() == 1;
        let then = if complete && self.summed.insert(source) { Then::Sums(source) } else { Then::Nothing };
        self.steps.push(BackwardStep::Conv { node, gradient, target, then });
    }

    fn undo_join(
        &mut self,
        position: usize,
        terms: &[ValueId],
        activation: Activation,
        joined: ValueId,
        gradient: BufferId,
    ) {
        let len = self.lowered.values[joined.0].dims.len();
        let wanted: Vec<ValueId> = terms.iter().copied().filter(|term| self.wanted[term.0]).collect();
        let sums: Vec<ValueId> = wanted
            .iter()
            .copied()
            .filter(|&term| self.only_read(term) && self.is_plain_batch_norm(term) && self.summed.insert(term))
            .collect();
        if activation != Activation::Identity || !sums.is_empty() {
            let join = JoinBackward { joined, activation, sums };
            match self.steps.last_mut() {
                // The convolution that completed the gradient passes it through the join while it is in cache.
                Some(BackwardStep::Conv { node, target, then: then @ Then::Nothing, .. })
                    if target.buffer == gradient && self.covered[node.index()] =>
                {
                    *then = Then::Join(join);
                }
                _ => self.steps.push(BackwardStep::Join { gradient, join }),
            }
        }
        // The first term without a gradient takes the buffer over; the second may share it.
        let mut owner: Option<ValueId> = None;
        for &term in &wanted {
            let free = self.gradient[term.0].is_none();
            let may_take = match owner {
                None => true,
                Some(owner) => self.may_share(position, owner, term),
            };
            if free && may_take {
                self.gradient[term.0] = Some(gradient);
                if owner.is_some() {
                    self.shared.insert(gradient);
                }
                owner = Some(term);
            } else {
                let target = self.contribute(term);
                self.steps.push(BackwardStep::Copy { len, gradient, target });
            }
        }
    }

    /// Whether `value`'s gradient, once complete, is only read, by the convolution that wrote it or what its norm reads.
    fn only_read(&self, value: ValueId) -> bool {
        let base = base_of(&self.lowered.values, value);
        let by_conv =
            self.writer[base.0].is_some_and(|position| matches!(self.lowered.steps[position], Step::Conv { .. }));
        if !by_conv || self.readers[value.0].len() != 1 {
            return false;
        }
        if base == value {
            return !self.derived[value.0].iter().any(|&on_top| self.is_read(on_top));
        }
        self.readers[base.0].is_empty()
            && self.derived[base.0].iter().filter(|&&other| self.is_read(other)).count() == 1
    }

    fn is_read(&self, value: ValueId) -> bool {
        !self.readers[value.0].is_empty()
    }

    /// Whether two terms of the join at `position` may use one gradient buffer: one of them is only read, and that
    /// happens before anything is written for the other.
    fn may_share(&self, position: usize, a: ValueId, b: ValueId) -> bool {
        if a == b {
            return false;
        }
        let safe = |reader: ValueId, other: ValueId| {
            if !self.only_read(reader) {
                return false;
            }
            if self.only_read(other) {
                return true;
            }
            let Some(read_at) = self.writer[base_of(&self.lowered.values, reader).0] else {
                return false;
            };
            let writer = &self.writer[base_of(&self.lowered.values, other).0];
            let written_at = self.readers[other.0].iter().chain(writer).filter(|&&at| at != position);
            written_at.into_iter().all(|&at| at < read_at)
        };
        safe(a, b) || safe(b, a)
    }

    fn has_norm(&self, value: ValueId) -> bool {
        matches!(self.lowered.values[value.0].storage, Storage::Derived { norm: Some(_), .. })
    }

    fn has_batch_norm(&self, value: ValueId) -> bool {
        match self.lowered.values[value.0].storage {
            Storage::Derived { norm: Some(norm), .. } => self.lowered.norms[norm.0].layer.kind == NormKind::Batch,
            _ => false,
        }
    }

    /// A batch norm's output with nothing on top, whose gradient is that of the sum it joins.
    fn is_plain_batch_norm(&self, value: ValueId) -> bool {
        let plain =
            matches!(self.lowered.values[value.0].storage, Storage::Derived { activation: Activation::Identity, .. });
        plain && self.has_batch_norm(value)
    }

    fn contribute_if_wanted(&mut self, value: ValueId) -> Option<GradTarget> {
        self.wanted[value.0].then(|| self.contribute(value))
    }

    /// The buffer for a further contribution to the gradient of `value`.
    fn contribute(&mut self, value: ValueId) -> GradTarget {
        if let Some(buffer) = self.gradient[value.0] {
            return GradTarget { buffer, accumulate: true };
        }
        self.lowered.buffers.push(self.lowered.values[value.0].dims.len());
        let buffer = BufferId(self.lowered.buffers.len() - 1);
        self.gradient[value.0] = Some(buffer);
        GradTarget { buffer, accumulate: false }
    }
}
