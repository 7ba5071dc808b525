//! The backward pass, step by step: from the logit gradient to the affine gradient.

use crate::device::DeviceSlice;
use crate::error::CudaError;
use crate::forward::{pool_shape, shortcut_shape};
use crate::launch::layer_norm::LayerNormGradient;
use crate::launch::norm_backward::{self as norm, NormGradient};
use crate::launch::pool::{self, PoolKind};
use crate::launch::{Target, elementwise, layer_norm, tokens};
use crate::network::CudaNetwork;
use crate::norms::of_batch;
use flipcast_graph::{
    Activation, BackwardStep, BufferId, GradSource, GradTarget, JoinBackward, NodeId, NormKind,
    Plan, Storage, Then, ValueId,
};
use std::sync::Arc;

impl CudaNetwork {
    /// Queues the whole pass; the logit gradient lies in its buffer.
    pub(crate) fn queue_backward(&self) -> Result<(), CudaError> {
        let plan = Arc::clone(&self.plan);
        self.device.fill_zero(self.memory.gradient.slice())?;
        let forward = plan.forward().len();
        for (index, step) in plan.backward().iter().enumerate() {
            let index = forward + index;
            self.timed(index, || self.backward_step(&plan, index, step))?;
        }
        Ok(())
    }

    fn gradient_of(&self, buffer: BufferId) -> DeviceSlice {
        self.buffer(buffer, self.images)
    }

    pub(crate) fn target(&self, target: GradTarget) -> Target {
        Target {
            slice: self.gradient_of(target.buffer),
            accumulate: target.accumulate,
        }
    }

    pub(crate) fn backward_step(
        &self,
        plan: &Plan,
        index: usize,
        step: &BackwardStep,
    ) -> Result<(), CudaError> {
        let (kernels, images) = (&self.kernels, self.images);
        match step {
            BackwardStep::NormSums { value, gradient } => {
                self.norm_sums(*value, self.gradient_of(*gradient))
            }
            BackwardStep::ThroughNorm {
                value,
                gradient,
                target,
            } => {
                let (from, to) = (self.gradient_of(*gradient), self.target(*target));
                norm::through(kernels, self.extent(*value), self.term(*value), from, to)
            }
            BackwardStep::Join { gradient, join } => {
                self.join_backward(self.gradient_of(*gradient), None, join)
            }
            BackwardStep::Copy {
                gradient, target, ..
            } => {
                let (from, to) = (self.gradient_of(*gradient), self.target(*target));
                elementwise::accumulate(kernels, from, to.slice, to.accumulate)
            }
            BackwardStep::Conv {
                node,
                gradient: GradSource::ThroughNorm { value, gradient },
                target,
                then,
            } if self.fused[index] => {
                let gradient = self.gradient_of(*gradient);
                self.fused_back(*node, (*value, gradient), *target, then)
            }
            BackwardStep::Conv {
                node,
                gradient,
                target,
                then,
            } => self.conv_backward(*node, *gradient, *target, then),
            BackwardStep::MaxPool {
                forward,
                pool,
                gradient,
                source,
                target,
            } => {
                let shape = pool_shape(plan, *pool, *source, *forward);
                let kind = self.max_pool(*forward);
                let from = self.gradient_of(*gradient);
                pool::pool_backward(kernels, images, shape, kind, from, self.target(*target))
            }
            BackwardStep::AvgPool {
                forward,
                pool,
                gradient,
                source,
                target,
            } => {
                let shape = pool_shape(plan, *pool, *source, *forward);
                let from = self.gradient_of(*gradient);
                let to = self.target(*target);
                pool::pool_backward(kernels, images, shape, PoolKind::Mean, from, to)
            }
            BackwardStep::GlobalAvgPool {
                gradient,
                source,
                target,
            } => {
                let from = self.gradient_of(*gradient);
                pool::global_mean_backward(
                    kernels,
                    self.extent(*source),
                    from,
                    self.target(*target),
                )
            }
            BackwardStep::Mul {
                source,
                gate,
                gradient,
                source_target,
                gate_target,
            } => {
                let extent = self.extent(*source);
                let pixels = plan.value(*gate).dims.pixels();
                let from = self.gradient_of(*gradient);
                if let Some(target) = source_target {
                    let gate = (self.place(*gate, images), pixels);
                    tokens::multiply(kernels, extent, from, gate, self.target(*target))?;
                }
                if let Some(target) = gate_target {
                    let values = self.place(*source, images);
                    let to = self.target(*target);
                    tokens::multiply_backward_gate(kernels, extent, from, values, pixels, to)?;
                }
                Ok(())
            }
            BackwardStep::Flatten {
                source,
                gradient,
                target,
            } => {
                let from = self.gradient_of(*gradient);
                tokens::flatten_backward(kernels, self.extent(*source), from, self.target(*target))
            }
            BackwardStep::ShortcutA {
                stride,
                source,
                forward,
                gradient,
                target,
            } => {
                let shape = shortcut_shape(plan, *source, *forward, *stride);
                let from = self.gradient_of(*gradient);
                tokens::shortcut_a_backward(kernels, images, shape, from, self.target(*target))
            }
            BackwardStep::LayerNorm {
                norm,
                source,
                gradient,
                target,
            } => {
                let norm = &self.norms[norm.index()];
                let of = LayerNormGradient {
                    values: self.place(*source, images),
                    gradient: self.gradient_of(*gradient),
                    scale: self.memory.affine.slice().part(norm.scale.clone()),
                    target: target.map(|target| self.target(target)),
                    partials: self.memory.partials(),
                    affine: self
                        .memory
                        .gradient
                        .slice()
                        .part(norm.scale.start..norm.shift.end),
                };
                let shape = self.layer_norm_shape(*source, norm.slot.layer.eps);
                layer_norm::backward(kernels, shape, of)
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
            } => {
                let from = self.gradient_of(*gradient);
                self.token_backward(*node, Some(*source), from, self.target(*target))
            }
            BackwardStep::Arrange {
                node,
                gradient,
                target,
            } => {
                let from = self.gradient_of(*gradient);
                self.token_backward(*node, None, from, self.target(*target))
            }
            _ => unreachable!("every planned step is implemented"),
        }
    }

    /// The norm below a derived value, with where its gradients go; the activation on top; what it normalised.
    pub(crate) fn norm_below(
        &self,
        value: ValueId,
    ) -> Option<(usize, NormGradient, Activation, DeviceSlice)> {
        let Storage::Derived {
            base,
            norm: Some(norm),
            activation,
        } = self.plan.value(value).storage
        else {
            return None;
        };
        let index = norm.index();
        let norm = &self.norms[index];
        let extent = self.extent(value);
        let gradient = self.memory.gradient.slice();
        let of = NormGradient {
            extent,
            tables: norm.tables(),
            room: self.memory.partials(),
            affine: [
                gradient.part(norm.scale.clone()),
                gradient.part(norm.shift.clone()),
            ],
            of_batch: of_batch(self.mode, extent.images * extent.pixels),
        };
        Some((index, of, activation, self.place(base, self.images)))
    }

    fn norm_sums(&self, value: ValueId, gradient: DeviceSlice) -> Result<(), CudaError> {
        let Some((index, of, activation, values)) = self.norm_below(value) else {
            return Ok(());
        };
        let norm = &self.norms[index];
        match norm.slot.layer.kind {
            NormKind::Group { groups } => {
                let scale = self.memory.affine.slice().part(norm.scale.clone());
                let more = (groups, scale, self.memory.merged());
                norm::group_sums(&self.kernels, of, gradient, values, activation, more)
            }
            _ => norm::batch_sums(&self.kernels, of, gradient, values, activation),
        }
    }

    /// Passes a join's gradient on, in place; `other` is a contribution that is still to be added.
    fn join_backward(
        &self,
        gradient: DeviceSlice,
        other: Option<DeviceSlice>,
        join: &JoinBackward,
    ) -> Result<(), CudaError> {
        match self.joined(gradient, other, join) {
            Some((of, norms)) => norm::join_backward(&self.kernels, of, &norms),
            None => Ok(()),
        }
    }

    fn conv_backward(
        &self,
        node: NodeId,
        gradient: GradSource,
        target: GradTarget,
        then: &Then,
    ) -> Result<(), CudaError> {
        let (kernels, batch, rooms) = (&self.kernels, self.batch(), self.memory.rooms());
        let layer = self.layer(node);
        let from = match gradient {
            GradSource::Plain(buffer) => self.buffer(buffer, batch),
            GradSource::ThroughNorm { value, gradient } => {
                let extent = self.extent(value);
                let to = rooms.source.first(extent.len());
                let gradient = self.gradient_of(gradient);
                norm::through(kernels, extent, self.term(value), gradient, to.into())?;
                self.whole(to, value)
            }
        };
        let whole = self.buffer(target.buffer, batch);
        let given = self.gradient_of(target.buffer);
        // A library that cannot add writes beside, and whoever reads next adds.
        let beside = target.accumulate && !layer.accumulates();
        let room = rooms.result.cast(whole.element);
        let to = Target {
            slice: if beside { room.first(whole.len) } else { whole },
            accumulate: target.accumulate && !beside,
        };
        layer.run_back(kernels, rooms, batch, from, to)?;
        let other = beside.then(|| room.first(given.len));
        match then {
            Then::Join(join) => return self.join_backward(given, other, join),
            _ => {
                if let Some(other) = other {
                    elementwise::accumulate(kernels, other, given, true)?;
                }
            }
        }
        match then {
            Then::Sums(value) => self.norm_sums(*value, given),
            _ => Ok(()),
        }
    }
}
