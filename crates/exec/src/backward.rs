//! The backward pass, step by step: from the logit gradient to the affine gradient.

use crate::kernels::{pool_shape, shortcut_shape};
use crate::network::{Identity, Network, cut, views};
use crate::norms::{Norm, Sums};
use flipcast_graph::{
    Activation, BackwardStep, BufferId, GradSource, GradTarget, JoinBackward, NodeId, Plan,
    Storage, Then, ValueId,
};
use flipcast_kernels as k;
use flipcast_kernels::{
    Carried, Gather, JoinGradient, JoinedNorm, NormGradient, Passage, Sink, Source,
};
use std::ops::Range;
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
            BackwardStep::ThroughNorm {
                value,
                gradient,
                target,
            } => {
                self.through_norm(plan, *value, *gradient, *target);
            }
            BackwardStep::Join { gradient, join } => self.join_backward(plan, *gradient, join),
            BackwardStep::Copy {
                gradient, target, ..
            } => {
                let (from, to) = (
                    self.gradient_range(*gradient),
                    self.gradient_range(target.buffer),
                );
                if from == to {
                    self.arena[to].iter_mut().for_each(|x| *x += *x);
                } else {
                    let [from, to] = views(&mut self.arena, [from, to]);
                    k::accumulate(&mut self.workers, from, to, target.accumulate);
                }
            }
            BackwardStep::Conv {
                node,
                gradient,
                target,
                then,
            } => {
                self.conv_backward(plan, *node, *gradient, *target, then);
            }
            BackwardStep::MaxPool {
                forward,
                pool,
                gradient,
                source,
                target,
            } => {
                let shape = pool_shape(plan, *pool, *source, *forward);
                let ranges = [
                    self.gradient_range(*gradient),
                    self.gradient_range(target.buffer),
                ];
                let [gradient, to] = views(&mut self.arena, ranges);
                let choices = &self.choices[forward.index()];
                let target = (to, target.accumulate);
                k::max_pool_backward(
                    self.isa,
                    &mut self.workers,
                    self.images,
                    shape,
                    (gradient, choices),
                    target,
                );
            }
            BackwardStep::AvgPool {
                forward,
                pool,
                gradient,
                source,
                target,
            } => {
                let shape = pool_shape(plan, *pool, *source, *forward);
                let ranges = [
                    self.gradient_range(*gradient),
                    self.gradient_range(target.buffer),
                ];
                let [gradient, to] = views(&mut self.arena, ranges);
                let target = (to, target.accumulate);
                k::avg_pool_backward(
                    self.isa,
                    &mut self.workers,
                    self.images,
                    shape,
                    gradient,
                    target,
                );
            }
            BackwardStep::GlobalAvgPool {
                gradient,
                source,
                target,
            } => {
                let extent = self.extent(*source);
                let ranges = [
                    self.gradient_range(*gradient),
                    self.gradient_range(target.buffer),
                ];
                let [gradient, to] = views(&mut self.arena, ranges);
                k::global_avg_pool_backward(
                    &mut self.workers,
                    extent,
                    gradient,
                    (to, target.accumulate),
                );
            }
            BackwardStep::Mul {
                source,
                gate,
                gradient,
                source_target,
                gate_target,
            } => {
                self.mul_backward(
                    plan,
                    (*source, *gate),
                    *gradient,
                    (*source_target, *gate_target),
                );
            }
            BackwardStep::Flatten {
                source,
                gradient,
                target,
            } => {
                let extent = self.extent(*source);
                let ranges = [
                    self.gradient_range(*gradient),
                    self.gradient_range(target.buffer),
                ];
                let [gradient, to] = views(&mut self.arena, ranges);
                k::flatten_backward(&mut self.workers, extent, gradient, to, target.accumulate);
            }
            BackwardStep::ShortcutA {
                stride,
                source,
                forward,
                gradient,
                target,
            } => {
                let shape = shortcut_shape(plan, *source, *forward, *stride);
                let ranges = [
                    self.gradient_range(*gradient),
                    self.gradient_range(target.buffer),
                ];
                let [gradient, to] = views(&mut self.arena, ranges);
                k::shortcut_a_backward(
                    &mut self.workers,
                    self.images,
                    shape,
                    gradient,
                    to,
                    target.accumulate,
                );
            }
            BackwardStep::LayerNorm {
                norm,
                source,
                gradient,
                target,
            } => {
                self.layer_norm_backward(norm.index(), *source, *gradient, *target);
            }
            BackwardStep::Attention {
                node,
                source,
                gradient,
                target,
            }
            | BackwardStep::Scale {
                node,
                source,
                gradient,
                target,
            } => self.token_backward(*node, Some(*source), *gradient, *target),
            BackwardStep::Arrange {
                node,
                gradient,
                target,
            } => self.token_backward(*node, None, *gradient, *target),
            _ => unreachable!("every planned step is implemented"),
        }
    }

    fn norm_sums(&mut self, plan: &Plan, value: ValueId, gradient: BufferId) {
        let Some((norm, activation)) = norm_of(plan, value) else {
            return;
        };
        let extent = self.extent(value);
        let values = self.base_range(value).expect("norms read stored values");
        let gradient = self.gradient_range(gradient);
        let mut sums = std::mem::take(&mut self.norms[norm].sums);
        let of = NormGradient {
            gradient: &self.arena[gradient],
            values: &self.arena[values],
            norm: self.norms[norm].tables(),
            activation,
            centre: &self.norms[norm].centre,
        };
        let (workers, scratch) = (&mut self.workers, &mut self.scratch);
        k::norm_sums(
            self.isa,
            workers,
            scratch,
            extent,
            of,
            &mut sums.sum,
            &mut sums.product,
        );
        self.norms[norm].sums = sums;
        self.norms[norm].passed = false;
        self.finish_norm(norm);
    }

    fn finish_norm(&mut self, norm: usize) {
        let entry = &self.table.entries()[norm];
        let (scale, shift) = (entry.scale(), entry.shift());
        // The shift's gradient follows the scale's directly.
        let (scale_gradient, shift_gradient) =
            self.gradient[scale.start..shift.end].split_at_mut(scale.len());
        self.norms[norm].finish(
            self.images,
            self.mode,
            &self.affine[scale],
            scale_gradient,
            shift_gradient,
        );
    }

    fn through_norm(
        &mut self,
        plan: &Plan,
        value: ValueId,
        gradient: BufferId,
        target: GradTarget,
    ) {
        let extent = self.extent(value);
        let values = self.base_range(value).expect("norms read stored values");
        let (from, to) = (
            self.gradient_range(gradient),
            self.gradient_range(target.buffer),
        );
        let (norms, identity) = (&self.norms, &self.identity);
        let passage = |values| passage(plan, norms, identity, value, values);
        let (isa, workers, scratch) = (self.isa, &mut self.workers, &mut self.scratch);
        if from == to {
            let [values, gradient] = views(&mut self.arena, [values, to]);
            k::through_norm(
                isa,
                workers,
                scratch,
                extent,
                passage(values),
                Carried::InPlace(gradient),
            );
        } else {
            let [values, gradient, to] = views(&mut self.arena, [values, from, to]);
            let carried = Carried::Into {
                gradient,
                target: to,
                accumulate: target.accumulate,
            };
            k::through_norm(isa, workers, scratch, extent, passage(values), carried);
        }
    }

    fn join_backward(&mut self, plan: &Plan, gradient: BufferId, join: &JoinBackward) {
        let extent = self.extent(join.joined);
        let gradient = self.gradient_range(gradient);
        let mut below = self.take_below(plan, &join.sums);
        let (isa, workers, scratch) = (self.isa, &mut self.workers, &mut self.scratch);
        let parts = cut(
            &mut self.arena,
            [Some(gradient), below[0].range(), below[1].range()],
        );
        let [Some(gradient), a, b] = parts else {
            unreachable!("a gradient has a place")
        };
        let through = join_gradient(
            &self.masks[join.joined.index()],
            &self.norms,
            &mut below,
            [a, b],
        );
        k::join_backward(isa, workers, scratch, extent, gradient, through);
        self.put_below(below);
    }

    fn conv_backward(
        &mut self,
        plan: &Plan,
        node: NodeId,
        gradient: GradSource,
        target: GradTarget,
        then: &Then,
    ) {
        let kernels = Arc::clone(&self.kernels);
        let conv = kernels
            .layer(node)
            .backward
            .as_ref()
            .expect("planned backward convolutions have a kernel");
        let (from, through) = match gradient {
            GradSource::Plain(buffer) => (buffer, None),
            GradSource::ThroughNorm { value, gradient } => (gradient, Some(value)),
        };
        let sums = match then {
            Then::Sums(value) => std::slice::from_ref(value),
            Then::Join(join) => &join.sums,
            _ => &[],
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
        let [Some(from), Some(to), values, a, b] = parts else {
            unreachable!("gradients have a place")
        };
        let source = match (through, values) {
            (Some(value), Some(values)) => {
                passage(plan, &self.norms, &self.identity, value, values).of(from)
            }
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
            _ => Gather::Nothing,
        };
        let sink = Sink {
            out: to,
            accumulate: target.accumulate,
            bias: None,
            gather,
        };
        conv.run(
            &mut self.workers,
            &mut self.scratch,
            self.images,
            source,
            sink,
        );
        if let (Then::Sums(_), Some((norm, _))) = (then, &below[0].norm) {
            self.norms[*norm].passed = true;
        }
        self.put_below(below);
    }

    /// Takes the sums of the norms below up to two values, to be filled.
    fn take_below(&mut self, plan: &Plan, values: &[ValueId]) -> [Below; 2] {
        std::array::from_fn(|i| {
            let Some(&value) = values.get(i) else {
                return Below::default();
            };
            let (norm, _) = norm_of(plan, value).expect("sums are of norms");
            let sums = std::mem::take(&mut self.norms[norm].sums);
            Below {
                norm: Some((
                    norm,
                    self.base_range(value).expect("norms read stored values"),
                )),
                sums,
            }
        })
    }

    /// Gives filled sums back and makes of them what a norm needs.
    fn put_below(&mut self, below: [Below; 2]) {
        for Below { norm, sums } in below {
            if let Some((norm, _)) = norm {
                self.norms[norm].sums = sums;
                self.finish_norm(norm);
            }
        }
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
            let range = |target: Option<GradTarget>| {
                target.map(|target| self.gradient_range(target.buffer))
            };
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
            let with_flag = |to, target: Option<GradTarget>| {
                Option::zip(to, target.map(|target| target.accumulate))
            };
            k::multiply_backward(
                self.isa,
                &mut self.workers,
                extent,
                (values, gate, gate_pixels),
                gradient.unwrap_or_default(),
                [
                    with_flag(to, source_target),
                    with_flag(to_gate, gate_target),
                ],
            );
        }
    }

    fn layer_norm_backward(
        &mut self,
        norm: usize,
        source: ValueId,
        gradient: BufferId,
        target: Option<GradTarget>,
    ) {
        let extent = self.extent(source);
        let eps = self.norms[norm].slot.layer.eps;
        let entry = &self.table.entries()[norm];
        let (scale, shift) = (entry.scale(), entry.shift());
        let (values, gradient) = (self.stored_range(source), self.gradient_range(gradient));
        let to = target.map(|target| (self.gradient_range(target.buffer), target.accumulate));
        let (scale_gradient, shift_gradient) =
            self.gradient[scale.start..shift.end].split_at_mut(scale.len());
        let (workers, scratch) = (&mut self.workers, &mut self.scratch);
        let mut run = |values: &[f32], gradient: &[f32], to| {
            let affine = (&self.affine[scale.clone()], eps);
            let gradients = (&mut *scale_gradient, &mut *shift_gradient);
            k::layer_norm_backward(
                self.isa,
                workers,
                scratch,
                extent,
                (values, gradient),
                affine,
                gradients,
                to,
            );
        };
        match to {
            Some((to, accumulate)) => {
                let [values, gradient, to] = views(&mut self.arena, [values, gradient, to]);
                run(values, gradient, Some((to, accumulate)));
            }
            None => {
                let [values, gradient] = views(&mut self.arena, [values, gradient]);
                run(values, gradient, None);
            }
        }
    }
}

/// The norm below a derived value, and the activation on top of it.
fn norm_of(plan: &Plan, value: ValueId) -> Option<(usize, Activation)> {
    match plan.value(value).storage {
        Storage::Derived {
            norm: Some(norm),
            activation,
            ..
        } => Some((norm.index(), activation)),
        _ => None,
    }
}

/// A norm whose sums are being gathered: its number, the place of its base, and the sums.
#[derive(Default)]
struct Below {
    norm: Option<(usize, Range<usize>)>,
    sums: Sums,
}

impl Below {
    fn range(&self) -> Option<Range<usize>> {
        self.norm.as_ref().map(|(_, range)| range.clone())
    }

    /// The norm as a join sees it, given the numbers of its base.
    fn joined<'a>(
        &'a mut self,
        norms: &'a [Norm],
        values: Option<&'a mut [f32]>,
    ) -> Option<JoinedNorm<'a>> {
        let (norm, _) = self.norm.as_ref()?;
        let Sums { sum, product } = &mut self.sums;
        Some(JoinedNorm {
            values: values?,
            centre: &norms[*norm].centre,
            sum,
            product,
        })
    }
}

/// What the gradient of a join passes, given the noted slopes and the numbers of the norms' bases.
fn join_gradient<'a>(
    mask: &'a [u8],
    norms: &'a [Norm],
    [first, second]: &'a mut [Below; 2],
    [a, b]: [Option<&'a mut [f32]>; 2],
) -> JoinGradient<'a> {
    let mask = (!mask.is_empty()).then_some(mask);
    JoinGradient {
        mask,
        norms: [first.joined(norms, a), second.joined(norms, b)],
    }
}

/// How a gradient passes from a derived value to its base.
fn passage<'a>(
    plan: &Plan,
    norms: &'a [Norm],
    identity: &'a Identity,
    value: ValueId,
    values: &'a [f32],
) -> Passage<'a> {
    let Storage::Derived {
        norm, activation, ..
    } = plan.value(value).storage
    else {
        unreachable!("gradients pass only derived values");
    };
    match norm {
        Some(norm) => {
            let norm = &norms[norm.index()];
            Passage {
                values,
                norm: norm.tables(),
                activation: if norm.passed {
                    Activation::Identity
                } else {
                    activation
                },
                through: norm.through(),
            }
        }
        None => Passage {
            values,
            norm: identity.tables(),
            activation,
            through: identity.through(),
        },
    }
}
