//! The backward pass, step by step: from the logit gradient to the affine gradient.

use crate::network::Network;
use crate::norm_backward::{Below, join_gradient, norm_of, passage};
use crate::places::{cut, views};
use flipcast_graph::{BackwardStep, BufferId, GradSource, GradTarget, NodeId, Plan, Then, ValueId};
use flipcast_kernels as k;
use flipcast_kernels::{Gather, Sink, Source};
use std::sync::Arc;
use std::time::Instant;

impl Network {
    pub(crate) fn run_backward(&mut self, logit_gradient: &[f32]) {
        let plan = Arc::clone(&self.plan);
        self.gradient.fill(0.0);
        let Some(buffer) = plan.logit_gradient() else {
            return;
        };
        let range = self.gradient_range(buffer);
        self.arena[range].copy_from_slice(logit_gradient);
        for (index, step) in plan.backward().iter().enumerate() {
            let start = self.times.as_ref().map(|_| Instant::now());
            self.backward_step(&plan, step);
            if let (Some(start), Some(times)) = (start, &mut self.times) {
                times.backward[index] += start.elapsed();
            }
        }
    }

    fn backward_step(&mut self, plan: &Plan, step: &BackwardStep) {
        match step {
            BackwardStep::NormSums { value, gradient } => self.norm_sums(plan, *value, *gradient),
            BackwardStep::ThroughNorm { value, gradient, target } => {
                self.through_norm(plan, *value, *gradient, *target);
            }
            BackwardStep::Join { gradient, join } => self.join_backward(plan, *gradient, join),
            BackwardStep::Copy { gradient, target, .. } => {
                let (from, to) = (self.gradient_range(*gradient), self.gradient_range(target.buffer));
                if from == to {
                    self.arena[to].iter_mut().for_each(|x| *x += *x);
                } else {
                    let [from, to] = views(&mut self.arena, [from, to]);
                    k::accumulate(&mut self.workers, from, to, target.accumulate);
                }
            }
            BackwardStep::Conv { node, gradient, target, then } => {
                self.conv_backward(plan, *node, *gradient, *target, then);
            }
            BackwardStep::MaxPool { forward, pool, gradient, source, target } => {
                let shape = plan.pool_shape(*pool, *source, *forward);
                let ranges = [self.gradient_range(*gradient), self.gradient_range(target.buffer)];
                let [gradient, to] = views(&mut self.arena, ranges);
                let choices = &self.choices[forward.index()];
                let target = (to, target.accumulate);
                k::max_pool_backward(self.isa, &mut self.workers, self.images, shape, (gradient, choices), target);
            }
            BackwardStep::AvgPool { forward, pool, gradient, source, target } => {
                let shape = plan.pool_shape(*pool, *source, *forward);
                let ranges = [self.gradient_range(*gradient), self.gradient_range(target.buffer)];
                let [gradient, to] = views(&mut self.arena, ranges);
                let target = (to, target.accumulate);
                k::avg_pool_backward(self.isa, &mut self.workers, self.images, shape, gradient, target);
            }
            BackwardStep::GlobalAvgPool { gradient, source, target } => {
                let extent = self.extent(*source);
                let ranges = [self.gradient_range(*gradient), self.gradient_range(target.buffer)];
                let [gradient, to] = views(&mut self.arena, ranges);
                k::global_avg_pool_backward(&mut self.workers, extent, gradient, (to, target.accumulate));
            }
            BackwardStep::Mul { source, gate, gradient, source_target, gate_target } => {
                self.mul_backward(plan, (*source, *gate), *gradient, (*source_target, *gate_target));
            }
            BackwardStep::Flatten { source, gradient, target } => {
                let extent = self.extent(*source);
                let ranges = [self.gradient_range(*gradient), self.gradient_range(target.buffer)];
                let [gradient, to] = views(&mut self.arena, ranges);
                k::flatten_backward(&mut self.workers, extent, gradient, to, target.accumulate);
            }
            BackwardStep::ShortcutA { stride, source, forward, gradient, target } => {
                let shape = plan.shortcut_shape(*source, *forward, *stride);
                let ranges = [self.gradient_range(*gradient), self.gradient_range(target.buffer)];
                let [gradient, to] = views(&mut self.arena, ranges);
                k::shortcut_a_backward(&mut self.workers, self.images, shape, gradient, to, target.accumulate);
            }
            BackwardStep::LayerNorm { norm, source, gradient, target } => {
                self.layer_norm_backward(norm.index(), *source, *gradient, *target);
            }
            BackwardStep::Attention { node, source, gradient, target }
            | BackwardStep::Scale { node, source, gradient, target } => {
                self.token_backward(*node, Some(*source), *gradient, *target)
            }
            BackwardStep::Arrange { node, gradient, target } => self.token_backward(*node, None, *gradient, *target),
        }
    }

    fn conv_backward(&mut self, plan: &Plan, node: NodeId, gradient: GradSource, target: GradTarget, then: &Then) {
        let kernels = Arc::clone(&self.kernels);
        let conv = kernels.layer(node).backward.as_ref().expect("planned backward convolutions have a kernel");
        let (from, through) = match gradient {
            GradSource::Plain(buffer) => (buffer, None),
            GradSource::ThroughNorm { value, gradient } => (gradient, Some(value)),
        };
        let sums = match then {
            Then::Sums(value) => std::slice::from_ref(value),
            Then::Join(join) => &join.sums,
            Then::Nothing => &[],
        };
        let mut below = self.take_below(plan, sums);
        let ranges = [
            Some(self.gradient_range(from)),
            Some(self.gradient_range(target.buffer)),
            through.and_then(|value| self.base_range(value)),
            below[0].range(),
            below[1].range(),
        ];
        let parts = cut(&mut self.arena, ranges);
        let [Some(from), Some(to), values, a, b] = parts else { unreachable!("gradients have a place") };
        let source = match (through, values) {
            (Some(value), Some(values)) => passage(plan, &self.norms, &self.identity, value, values).of(from),
            _ => Source::Plain(from),
        };
        let gather = match then {
            Then::Sums(value) => {
                let (norm, activation) = norm_of(plan, *value).expect("sums are of norms");
                let Below { sums, .. } = &mut below[0];
                Gather::Sums {
                    values: a.expect("norms read stored values"),
                    norm: self.norms[norm].tables(),
                    activation,
                    centre: &self.norms[norm].centre,
                    sum: &mut sums.sum,
                    product: &mut sums.product,
                }
            }
            Then::Join(join) => {
                let mask = &self.masks[join.joined.index()];
                Gather::Join(join_gradient(mask, &self.norms, &mut below, [a, b]))
            }
            Then::Nothing => Gather::Nothing,
        };
        let sink = Sink { out: to, accumulate: target.accumulate, bias: None, gather };
        conv.run(&mut self.workers, &mut self.scratch, self.images, source, sink);
        if let (Then::Sums(_), Some((norm, _))) = (then, &below[0].norm) {
            self.norms[*norm].passed = true;
        }
        self.put_below(below);
    }

    fn mul_backward(
        &mut self,
        plan: &Plan,
        (source, gate): (ValueId, ValueId),
        gradient: BufferId,
        (source_target, gate_target): (Option<GradTarget>, Option<GradTarget>),
    ) {
        let (extent, gate_pixels) = (self.extent(source), plan.value(gate).dims.pixels());
        let gradient = self.gradient_range(gradient);
        let (values, gate) = (self.stored_range(source), self.stored_range(gate));
        // One factor's gradient at a time if both go to the same buffer.
        let apart = match (source_target, gate_target) {
            (Some(source), Some(gate)) => source.buffer != gate.buffer,
            _ => true,
        };
        let rounds = if apart {
            [(source_target, gate_target), (None, None)]
        } else {
            [(source_target, None), (None, gate_target)]
        };
        for (source_target, gate_target) in rounds {
            if source_target.is_none() && gate_target.is_none() {
                continue;
            }
            let range = |target: Option<GradTarget>| target.map(|target| self.gradient_range(target.buffer));
            let ranges = [
                Some(values.clone()),
                (gate != values).then(|| gate.clone()),
                Some(gradient.clone()),
                range(source_target),
                range(gate_target),
            ];
            let [values, gate, gradient, to, to_gate] = cut(&mut self.arena, ranges);
            let values = &*values.unwrap_or_default();
            let gate = gate.map_or(values, |gate| gate);
            let with_flag = |to, target: Option<GradTarget>| Option::zip(to, target.map(|target| target.accumulate));
            k::multiply_backward(
                self.isa,
                &mut self.workers,
                extent,
                (values, gate, gate_pixels),
                gradient.unwrap_or_default(),
                [with_flag(to, source_target), with_flag(to_gate, gate_target)],
            );
        }
    }
}
