//! The backward pass, step by step: from the logit gradient to the affine gradient.

use crate::device::DeviceSlice;
use crate::error::CudaError;
use crate::gemm::Direction;
use crate::launch::layer_norm::LayerNormGradient;
use crate::launch::norm_backward::{self as norm, NormGradient};
use crate::launch::pool::{self, PoolKind};
use crate::launch::{Target, elementwise, layer_norm, tokens};
use crate::network::CudaNetwork;
use crate::norms::of_batch;
use flipcast_graph::PoolShape;
use flipcast_graph::{
    Activation, BackwardStep, BufferId, GradSource, GradTarget, JoinBackward, NodeId, NormKind, Plan, Storage, Then,
    ValueId,
};
use std::sync::Arc;

/// The steps of `plan`, backward ones after forward ones, that are max pools followed by the sums of the batch norm below them,
/// where nothing else needs the gradient in between. The pool's step then gathers the sums, and that gradient is never stored.
pub(crate) fn sums_of_max_pools(plan: &Plan) -> Vec<bool> {
    let (forward, backward) = (plan.forward().len(), plan.backward());
    let mut found = vec![false; forward + backward.len()];
    for (at, pair) in backward.windows(2).enumerate() {
        let [BackwardStep::MaxPool { source, target, .. }, BackwardStep::NormSums { value, gradient }] = pair else {
            continue;
        };
        let batch = match plan.value(*value).storage {
            Storage::Derived { norm: Some(norm), .. } => plan.norms()[norm.index()].layer.kind == NormKind::Batch,
            _ => false,
        };
        let read_later = || {
            let mut rest = backward[at + 2..].iter();
            rest.any(|step| step.gradients().contains(gradient))
        };
        let own = value == source && *gradient == target.buffer && !target.accumulate;
        if batch && own && !read_later() {
            found[forward + at..forward + at + 2].fill(true);
        }
    }
    found
}

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
        Target { slice: self.gradient_of(target.buffer), accumulate: target.accumulate }
    }

    pub(crate) fn backward_step(&self, plan: &Plan, index: usize, step: &BackwardStep) -> Result<(), CudaError> {
        let (kernels, images) = (&self.kernels, self.images);
        match step {
            // Done by the step before it.
            BackwardStep::NormSums { .. } if self.fused[index] => Ok(()),
            BackwardStep::NormSums { value, gradient } => self.norm_sums(*value, self.gradient_of(*gradient)),
            BackwardStep::ThroughNorm { value, gradient, target } => {
                let (from, to) = (self.gradient_of(*gradient), self.target(*target));
                norm::through(kernels, self.extent(*value), self.term(*value), from, to)
            }
            BackwardStep::Join { gradient, join } => self.join_backward(self.gradient_of(*gradient), None, join),
            BackwardStep::Copy { gradient, target, .. } => {
                let (from, to) = (self.gradient_of(*gradient), self.target(*target));
                elementwise::accumulate(kernels, from, to.slice, to.accumulate)
            }
            BackwardStep::Conv { node, gradient: GradSource::ThroughNorm { value, gradient }, target, then }
                if self.fused[index] || self.panels[index].is_some() =>
            {
                let of = (*value, self.gradient_of(*gradient));
                match &self.panels[index] {
                    Some(panels) => self.panel_back(panels, *node, of, *target, then),
                    None => self.fused_back(*node, of, *target, then),
                }
            }
            BackwardStep::Conv { node, gradient, target, then } => self.conv_backward(*node, *gradient, *target, then),
            BackwardStep::MaxPool { forward, pool, gradient, source, .. } if self.fused[index] => {
                let shape = plan.pool_shape(*pool, *source, *forward);
                let from = self.gradient_of(*gradient);
                self.max_pool_sums(*source, shape, self.max_pool(*forward), from)
            }
            BackwardStep::MaxPool { forward, pool, gradient, source, target } => {
                let shape = plan.pool_shape(*pool, *source, *forward);
                let kind = self.max_pool(*forward);
                let from = self.gradient_of(*gradient);
                pool::pool_backward(kernels, images, shape, kind, from, self.target(*target))
            }
            BackwardStep::AvgPool { forward, pool, gradient, source, target } => {
                let shape = plan.pool_shape(*pool, *source, *forward);
                let from = self.gradient_of(*gradient);
                let to = self.target(*target);
                pool::pool_backward(kernels, images, shape, PoolKind::Mean, from, to)
            }
            BackwardStep::GlobalAvgPool { gradient, source, target } => {
                let from = self.gradient_of(*gradient);
                pool::global_mean_backward(kernels, self.extent(*source), from, self.target(*target))
            }
            BackwardStep::Mul { source, gate, gradient, source_target, gate_target } => {
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
            BackwardStep::Flatten { source, gradient, target } => {
                let from = self.gradient_of(*gradient);
                tokens::flatten_backward(kernels, self.extent(*source), from, self.target(*target))
            }
            BackwardStep::ShortcutA { stride, source, forward, gradient, target } => {
                let shape = plan.shortcut_shape(*source, *forward, *stride);
                let from = self.gradient_of(*gradient);
                tokens::shortcut_a_backward(kernels, images, shape, from, self.target(*target))
            }
            BackwardStep::LayerNorm { norm, source, gradient, target } => {
                let norm = &self.norms[norm.index()];
                let of = LayerNormGradient {
                    values: self.place(*source, images),
                    gradient: self.gradient_of(*gradient),
                    scale: self.memory.affine.slice().part(norm.scale.clone()),
                    target: target.map(|target| self.target(target)),
                    partials: self.memory.partials(),
                    affine: self.memory.gradient.slice().part(norm.scale.start..norm.shift.end),
                };
                let shape = self.layer_norm_shape(*source, norm.slot.layer.eps);
                layer_norm::backward(kernels, shape, of)
            }
            BackwardStep::Attention { node, source, gradient, target }
            | BackwardStep::Scale { node, source, gradient, target } => {
                let from = self.gradient_of(*gradient);
                self.token_backward(*node, Some(*source), from, self.target(*target))
            }
            BackwardStep::Pick { node, input, gradient, target } => {
                self.pick_backward(*node, *input, self.gradient_of(*gradient), self.target(*target))
            }
            BackwardStep::Arrange { node, gradient, target } => {
                let from = self.gradient_of(*gradient);
                self.token_backward(*node, None, from, self.target(*target))
            }
        }
    }

    /// The norm below a derived value, with where its gradients go; the activation on top; what it normalised.
    pub(crate) fn norm_below(&self, value: ValueId) -> Option<(usize, NormGradient, Activation, DeviceSlice)> {
        let Storage::Derived { base, norm: Some(norm), activation } = self.plan.value(value).storage else {
            return None;
        };
        let index = norm.index();
        let norm = &self.norms[index];
        let extent = self.extent(value);
        let gradient = self.memory.gradient.slice();
        let of = NormGradient {
            extent,
            tables: norm.tables(),
            workspace: self.memory.partials(),
            affine: [gradient.part(norm.scale.clone()), gradient.part(norm.shift.clone())],
            of_batch: of_batch(self.state.statistics_of(index), extent.images * extent.pixels),
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

    /// The sums of the norm of `source`, from the gradient of the max pool that alone reads it.
    fn max_pool_sums(
        &self,
        source: ValueId,
        shape: PoolShape,
        kind: PoolKind,
        gradient: DeviceSlice,
    ) -> Result<(), CudaError> {
        let (Some((_, of, ..)), PoolKind::Max(choices)) = (self.norm_below(source), kind) else {
            unreachable!("`sums_of_max_pools` looked for the norm");
        };
        let term = self.term(source);
        pool::max_pool_sums(&self.kernels, of, shape, choices, gradient, term)
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
        let (kernels, batch, workspaces) = (&self.kernels, self.batch(), self.memory.workspaces());
        let layer = self.layer(node);
        let from = match gradient {
            GradSource::Plain(buffer) => self.buffer(buffer, batch),
            GradSource::ThroughNorm { value, gradient } => {
                let extent = self.extent(value);
                let to = workspaces.source.first(extent.len());
                let gradient = self.gradient_of(gradient);
                norm::through(kernels, extent, self.term(value), gradient, to.into())?;
                self.whole(to, value)
            }
        };
        let whole = self.buffer(target.buffer, batch);
        let given = self.gradient_of(target.buffer);
        // A library that cannot add writes beside, and whoever reads next adds.
        let beside = target.accumulate && !layer.accumulates();
        let workspace = workspaces.result.cast(whole.element);
        let to = Target {
            slice: if beside { workspace.first(whole.len) } else { whole },
            accumulate: target.accumulate && !beside,
        };
        layer.run_backward(kernels, workspaces, batch, layer.chosen(Direction::Backward), from, to)?;
        let other = beside.then(|| workspace.first(given.len));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CudaOptions, Precision, report};
    use flipcast_executor::{Executor, NormMode};
    use flipcast_graph::{PlanOptions, Purpose};
    use flipcast_testkit::{Case, Random, cases};

    fn marked(case: &Case) -> usize {
        let options = PlanOptions {
            batch: case.batch_size,
            height: case.height,
            width: case.width,
            purpose: Purpose::Adapt,
            taps: Vec::new(),
        };
        let plan = Plan::new(&case.graph, options).unwrap();
        let found = sums_of_max_pools(&plan);
        found.iter().filter(|found| **found).count()
    }

    #[test]
    fn a_max_pool_gathers_sums_where_nothing_else_needs_its_gradient() {
        let of = |name: &str| {
            let case = cases().into_iter().find(|case| case.name == name);
            marked(&case.expect("the case exists"))
        };
        assert_eq!(of("max_pool3x3_s2_odd"), 2);
        assert_eq!(of("max_pool_of_norm"), 2);
        assert_eq!(of("max_pool_overlapping"), 0, "others read what it pools");
        assert_eq!(of("avg_pool2x2"), 0);
    }

    /// The gradient for a batch of `images`.
    fn gradient(net: &mut CudaNetwork, case: &Case, images: usize) -> Vec<f32> {
        net.recordings.clear();
        let batch = case.random_batch(images, 72);
        let logits = net.forward(&batch).unwrap().values().len();
        let mut random = Random::new(73);
        let above: Vec<f32> = (0..logits).map(|_| random.normal() as f32).collect();
        net.backward(&above).unwrap().to_vec()
    }

    /// Sums in another order, and in 16 bits a gradient that was rounded where windows share a pixel. Measured 1.8e-7 and 2.5e-3.
    #[test]
    fn sums_of_a_max_pool_equal_those_of_its_stored_gradient() {
        if !report().usable() {
            println!("skipped: nothing was compared, since this machine has no usable GPU");
            return;
        }
        for (precision, bound) in [(Precision::F32, 6e-7), (Precision::Bf16, 8e-3)] {
            for case in cases().iter().filter(|case| marked(case) > 0) {
                let options = CudaOptions { precision, ..CudaOptions::adapt(case.batch_size, case.height, case.width) };
                let mut net = CudaNetwork::new(&case.graph, &case.params, &options).unwrap();
                net.set_norm_mode(NormMode::Batch).unwrap();
                let (found, fused) = (sums_of_max_pools(&net.plan), net.fused.clone());
                let both = fused.iter().zip(&found);
                let apart: Vec<bool> = both.map(|(fused, found)| *fused && !found).collect();
                for images in [case.batch_size, case.batch_size - 1] {
                    net.fused.clone_from(&fused);
                    let direct = gradient(&mut net, case, images);
                    net.fused.clone_from(&apart);
                    let stored = gradient(&mut net, case, images);
                    let largest = stored.iter().fold(0.0f32, |a, b| a.max(b.abs()));
                    let apart = direct.iter().zip(&stored).map(|(a, b)| (a - b).abs());
                    let off = apart.fold(0.0, f32::max) / largest;
                    println!("{precision:?} {} of {images}: {off:.1e}", case.name);
                    assert!(off <= bound, "{}: off by {off}, bound {bound}", case.name);
                }
            }
        }
    }
}
