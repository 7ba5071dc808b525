//! The backward pass, step by step: from the logit gradient to the affine gradient.

use crate::kernels::{pool_shape, shortcut_shape};
use crate::network::{Identity, Network, views};
use crate::norms::{Norm, Sums};
use flipcast_graph::{
    Activation, BackwardStep, BufferId, GradSource, GradTarget, NodeId, Plan, Storage, ValueId,
};
use flipcast_kernels as k;
use flipcast_kernels::{Carried, Gather, JoinedNorm, NormGradient, Passage, Sink, Source};
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
            BackwardStep::Join {
                joined,
                activation,
                gradient,
                sums,
            } => {
                self.join_backward(plan, *joined, *activation, *gradient, sums);
            }
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
                sums,
            } => {
                self.conv_backward(plan, *node, *gradient, *target, *sums);
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

    fn join_backward(
        &mut self,
        plan: &Plan,
        joined: ValueId,
        activation: Activation,
        gradient: BufferId,
        sums: &[ValueId],
    ) {
        let extent = self.extent(joined);
        let (out, gradient) = (self.stored_range(joined), self.gradient_range(gradient));
        let norm_at = |i: usize| {
            sums.get(i)
                .and_then(|&value| norm_of(plan, value))
                .map(|(norm, _)| norm)
        };
        let values = |net: &Self, i: usize| sums.get(i).and_then(|&value| net.base_range(value));
        let (values_a, values_b) = (values(self, 0), values(self, 1));
        let mut taken =
            [0, 1].map(|i| norm_at(i).map(|norm| std::mem::take(&mut self.norms[norm].sums)));
        {
            let [sums_a, sums_b] = &mut taken;
            let norms = &self.norms;
            let mut run = |out: &[f32], gradient: &mut [f32], norms| {
                let (workers, scratch) = (&mut self.workers, &mut self.scratch);
                k::join_backward(
                    self.isa, workers, scratch, extent, out, activation, gradient, norms,
                );
            };
            match (values_a, values_b) {
                (Some(a), Some(b)) => {
                    let [out, gradient, a, b] = views(&mut self.arena, [out, gradient, a, b]);
                    run(
                        out,
                        gradient,
                        [
                            joined_norm(norms, norm_at(0), sums_a, a),
                            joined_norm(norms, norm_at(1), sums_b, b),
                        ],
                    );
                }
                (Some(a), None) => {
                    let [out, gradient, a] = views(&mut self.arena, [out, gradient, a]);
                    run(
                        out,
                        gradient,
                        [joined_norm(norms, norm_at(0), sums_a, a), None],
                    );
                }
                _ => {
                    let [out, gradient] = views(&mut self.arena, [out, gradient]);
                    run(out, gradient, [None, None]);
                }
            }
        }
        for (i, sums) in taken.into_iter().enumerate() {
            if let (Some(norm), Some(sums)) = (norm_at(i), sums) {
                self.norms[norm].sums = sums;
                self.finish_norm(norm);
            }
        }
    }

    fn conv_backward(
        &mut self,
        plan: &Plan,
        node: NodeId,
        gradient: GradSource,
        target: GradTarget,
        sums: Option<ValueId>,
    ) {
        let kernels = Arc::clone(&self.kernels);
        let conv = kernels
            .layer(node)
            .backward
            .as_ref()
            .expect("planned backward convolutions have a kernel");
        let to = self.gradient_range(target.buffer);
        let (from, through) = match gradient {
            GradSource::Plain(buffer) => (self.gradient_range(buffer), None),
            GradSource::ThroughNorm { value, gradient } => {
                (self.gradient_range(gradient), Some(value))
            }
        };
        let below = sums.and_then(|value| {
            norm_of(plan, value).map(|(norm, activation)| (value, norm, activation))
        });
        let mut taken = below.map(|(_, norm, _)| std::mem::take(&mut self.norms[norm].sums));
        {
            let through_range = through.and_then(|value| self.base_range(value));
            let sums_range = below.and_then(|(value, ..)| self.base_range(value));
            let (norms, identity) = (&self.norms, &self.identity);
            let (workers, scratch, images) = (&mut self.workers, &mut self.scratch, self.images);
            let mut run = |source: Source, out: &mut [f32], values: Option<&[f32]>| {
                let gather = match (below, &mut taken, values) {
                    (Some((_, norm, activation)), Some(sums), Some(values)) => Gather::Sums {
                        values,
                        norm: norms[norm].tables(),
                        activation,
                        centre: &norms[norm].centre,
                        sum: &mut sums.sum,
                        product: &mut sums.product,
                    },
                    _ => Gather::Nothing,
                };
                let sink = Sink {
                    out,
                    accumulate: target.accumulate,
                    bias: None,
                    gather,
                };
                conv.run(workers, scratch, images, source, sink);
            };
            let arena = &mut self.arena;
            match (through_range, sums_range) {
                (Some(y), Some(below)) => {
                    let [from, to, y, below] = views(arena, [from, to, y, below]);
                    run(
                        gradient_source(plan, norms, identity, through, from, y),
                        to,
                        Some(below),
                    );
                }
                (Some(y), None) => {
                    let [from, to, y] = views(arena, [from, to, y]);
                    run(
                        gradient_source(plan, norms, identity, through, from, y),
                        to,
                        None,
                    );
                }
                (None, Some(below)) => {
                    let [from, to, below] = views(arena, [from, to, below]);
                    run(Source::Plain(from), to, Some(below));
                }
                (None, None) => {
                    let [from, to] = views(arena, [from, to]);
                    run(Source::Plain(from), to, None);
                }
            }
        }
        if let (Some((_, norm, _)), Some(sums)) = (below, taken) {
            self.norms[norm].sums = sums;
            self.finish_norm(norm);
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
        // One factor's gradient at a time: both may go to the same buffer.
        for (target, of_gate) in [(source_target, false), (gate_target, true)] {
            let Some(target) = target else { continue };
            let to = self.gradient_range(target.buffer);
            let run = |workers: &mut k::Workers,
                       values: &[f32],
                       gate: &[f32],
                       gradient: &[f32],
                       to: &mut [f32]| {
                let to = Some((to, target.accumulate));
                let (of_values, of_gate) = if of_gate { (None, to) } else { (to, None) };
                k::multiply_backward(
                    workers,
                    extent,
                    (values, gate, gate_pixels),
                    gradient,
                    of_values,
                    of_gate,
                );
            };
            if values == gate {
                let [values, gradient, to] =
                    views(&mut self.arena, [values.clone(), gradient.clone(), to]);
                run(&mut self.workers, values, values, gradient, to);
            } else {
                let ranges = [values.clone(), gate.clone(), gradient.clone(), to];
                let [values, gate, gradient, to] = views(&mut self.arena, ranges);
                run(&mut self.workers, values, gate, gradient, to);
            }
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

/// A norm directly below a join, with the numbers of its base.
fn joined_norm<'a>(
    norms: &'a [Norm],
    norm: Option<usize>,
    sums: &'a mut Option<Sums>,
    values: &'a [f32],
) -> Option<JoinedNorm<'a>> {
    let Sums { sum, product } = sums.as_mut()?;
    Some(JoinedNorm {
        values,
        centre: &norms[norm?].centre,
        sum,
        product,
    })
}

/// The gradient of the base of `through`, read from that of `through` itself.
fn gradient_source<'a>(
    plan: &Plan,
    norms: &'a [Norm],
    identity: &'a Identity,
    through: Option<ValueId>,
    gradient: &'a [f32],
    values: &'a [f32],
) -> Source<'a> {
    match through {
        Some(value) => passage(plan, norms, identity, value, values).of(gradient),
        None => Source::Plain(gradient),
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
                activation,
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
