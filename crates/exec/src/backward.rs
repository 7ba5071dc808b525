//! The backward pass, step by step: from the logit gradient to the affine gradient.

use crate::network::Network;
use crate::norm_backward::{Below, join_gradient, norm_of, passage};
use crate::places::cut;
use flipcast_graph::{BackwardStep, BufferId, GradSource, GradTarget, NodeId, Then, ValueId};
use flipcast_kernels as k;
use flipcast_kernels::{Factors, Gather, Sink, Source, Target};
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
            self.backward_step(step);
            if let (Some(start), Some(times)) = (start, &mut self.times) {
                times.backward[index] += start.elapsed();
            }
        }
    }

    fn backward_step(&mut self, step: &BackwardStep) {
        let images = self.images;
        match *step {
            BackwardStep::NormSums { value, gradient } => self.norm_sums(value, gradient),
            BackwardStep::ThroughNorm { value, gradient, target } => self.through_norm(value, gradient, target),
            BackwardStep::Join { gradient, ref join } => self.join_backward(gradient, join),
            BackwardStep::Copy { gradient, target, .. } => {
                if gradient == target.buffer {
                    let range = self.gradient_range(gradient);
                    self.arena[range].iter_mut().for_each(|x| *x += *x);
                } else {
                    let (from, to, team) = self.gradients(gradient, target);
                    k::accumulate(team, from, to);
                }
            }
            BackwardStep::Conv { node, gradient, target, ref then } => {
                self.conv_backward(node, gradient, target, then);
            }
            BackwardStep::MaxPool { forward, pool, gradient, source, target }
            | BackwardStep::AvgPool { forward, pool, gradient, source, target } => {
                let shape = self.plan.pool_shape(pool, source, forward);
                let choices = std::mem::take(&mut self.choices[forward.index()]);
                let noted = (!choices.is_empty()).then_some(choices.as_slice());
                let (from, to, team) = self.gradients(gradient, target);
                k::pool_backward(team, images, shape, from, noted, to);
                self.choices[forward.index()] = choices;
            }
            BackwardStep::GlobalAvgPool { gradient, source, target } => {
                let extent = self.extent(source);
                let (from, to, team) = self.gradients(gradient, target);
                k::global_avg_pool_backward(team, extent, from, to);
            }
            BackwardStep::Mul { source, gate, gradient, source_target, gate_target } => {
                self.mul_backward([source, gate], gradient, [source_target, gate_target]);
            }
            BackwardStep::Flatten { source, gradient, target } => {
                let extent = self.extent(source);
                let (from, to, team) = self.gradients(gradient, target);
                k::flatten_backward(team, extent, from, to);
            }
            BackwardStep::ShortcutA { stride, source, forward, gradient, target } => {
                let shape = self.plan.shortcut_shape(source, forward, stride);
                let (from, to, team) = self.gradients(gradient, target);
                k::shortcut_a_backward(team, images, shape, from, to);
            }
            BackwardStep::LayerNorm { norm, source, gradient, target } => {
                self.layer_norm_backward(norm.index(), source, gradient, target);
            }
            BackwardStep::Attention { node, source, gradient, target } => {
                self.attention_backward(node, source, gradient, target);
            }
            BackwardStep::Arrange { node, gradient, target } => self.arrange_backward(node, gradient, target),
            BackwardStep::Pick { node, input, gradient, target } => self.pick_backward(node, input, gradient, target),
            BackwardStep::Scale { node, source, gradient, target } => {
                self.scale_backward(node, source, gradient, target);
            }
        }
    }

    fn conv_backward(&mut self, node: NodeId, gradient: GradSource, target: GradTarget, then: &Then) {
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
        let mut below = self.take_below(sums);
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
            (Some(value), Some(values)) => passage(&self.plan, &self.norms, &self.identity, value, values).source(from),
            _ => Source::Plain(from),
        };
        let gather = match then {
            Then::Sums(value) => {
                let (norm, activation) = norm_of(&self.plan, *value).expect("sums are of norms");
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
        conv.run(&mut self.team, self.images, source, sink);
        if let (Then::Sums(_), Some((norm, _))) = (then, &below[0].norm) {
            self.norms[*norm].passed = true;
        }
        self.put_below(below);
    }

    fn mul_backward(
        &mut self,
        [source, gate]: [ValueId; 2],
        gradient: BufferId,
        [source_target, gate_target]: [Option<GradTarget>; 2],
    ) {
        let (extent, gate_pixels) = (self.extent(source), self.plan.value(gate).dims.pixels());
        let gradient = self.gradient_range(gradient);
        let (values, gate) = (self.stored_range(source), self.stored_range(gate));
        // One factor's gradient at a time if both go to the same buffer.
        let same_buffer = matches!((source_target, gate_target), (Some(a), Some(b)) if a.buffer == b.buffer);
        let rounds = if same_buffer {
            [[source_target, None], [None, gate_target]]
        } else {
            [[source_target, gate_target], [None, None]]
        };
        for targets in rounds.into_iter().filter(|targets| targets.iter().any(Option::is_some)) {
            let [to_values, to_gate] = targets.map(|target| target.map(|target| self.gradient_range(target.buffer)));
            let other = (gate != values).then(|| gate.clone());
            let ranges = [Some(values.clone()), other, Some(gradient.clone()), to_values, to_gate];
            let [values, gate, gradient, to_values, to_gate] = cut(&mut self.arena, ranges);
            let values = &*values.unwrap_or_default();
            let factors = Factors { values, gate: gate.map_or(values, |gate| gate), gate_pixels };
            let [source_target, gate_target] = targets;
            let to = [(to_values, source_target), (to_gate, gate_target)].map(|(values, target)| {
                let (values, target) = (values?, target?);
                Some(Target { values, accumulate: target.accumulate })
            });
            k::multiply_backward(&mut self.team, extent, factors, gradient.unwrap_or_default(), to);
        }
    }
}
