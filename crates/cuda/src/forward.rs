//! The forward pass, step by step.

use crate::device::DeviceSlice;
use crate::error::CudaError;
use crate::gemm::Direction;
use crate::launch::norm::{self, Statistics, Term};
use crate::launch::pool::{self, PoolKind};
use crate::launch::{elementwise, layer_norm, preprocess, tokens};
use crate::network::CudaNetwork;
use crate::norms::mixture;
use crate::precision::Element;
use flipcast_executor::NormStatistics;
use flipcast_graph::{Activation, NormKind, Plan, Step, Storage, ValueId};
use std::sync::Arc;

impl CudaNetwork {
    /// Queues the whole pass, from the staged batch to the logits.
    pub(crate) fn queue_forward(&self) -> Result<(), CudaError> {
        let plan = Arc::clone(&self.plan);
        self.queue_input()?;
        for norm in 0..self.norms.len() {
            if self.norms[norm].slot.layer.kind == NormKind::Batch
                && self.state.statistics_of(norm) == NormStatistics::Running
            {
                self.prepare_norm(norm, None)?;
            }
        }
        for (index, step) in plan.forward().iter().enumerate() {
            self.timed(index, || self.forward_step(&plan, index, step))?;
        }
        self.queue_logits()
    }

    fn queue_input(&self) -> Result<(), CudaError> {
        let dims = self.image_extents();
        let (from, to) = (self.memory.staged.slice(), self.memory.input.slice());
        preprocess::spread_input(&self.kernels, self.images, dims, self.input, from, to)
    }

    /// Where the logits lie as 32-bit floats.
    pub(crate) fn logits(&self) -> DeviceSlice {
        self.memory.logits.slice().first(self.images * self.graph.num_classes())
    }

    /// The layer that writes the logits in 32 bits, if one does.
    fn writes_logits(&self, step: &Step) -> bool {
        match step {
            Step::Conv { node, target, .. } => {
                *target == self.plan.logits() && self.layer(*node).result == Element::F32
            }
            _ => false,
        }
    }

    fn queue_logits(&self) -> Result<(), CudaError> {
        if self.plan.forward().iter().any(|step| self.writes_logits(step)) {
            return Ok(());
        }
        let stored = self.place(self.plan.logits(), self.images);
        elementwise::widen(&self.kernels, stored, self.logits())
    }

    /// How a value is read.
    pub(crate) fn term(&self, value: ValueId) -> Term {
        match self.plan.value(value).storage {
            Storage::Derived { base, norm, activation } => Term {
                values: self.place(base, self.images),
                tables: norm.map(|norm| self.norms[norm.index()].tables()),
                activation,
            },
            _ => Term::plain(self.place(value, self.images)),
        }
    }

    pub(crate) fn forward_step(&self, plan: &Plan, index: usize, step: &Step) -> Result<(), CudaError> {
        let (kernels, images) = (&self.kernels, self.images);
        match step {
            Step::Conv { node, source, target, statistics } => {
                if let Some(norm) = statistics
                    && self.state.statistics_of(norm.index()) != NormStatistics::Running
                {
                    let values = [*source, *target];
                    if let Some(panels) = &self.panels[index] {
                        return self.panel_conv(panels, *node, values, norm.index());
                    }
                    if self.fused[index] {
                        return self.fused_conv(*node, values, norm.index());
                    }
                }
                let layer = self.layer(*node);
                let workspaces = self.memory.workspaces();
                let mut term = self.term(*source);
                if !term.is_plain() && !layer.reads_derived() {
                    let extent = self.extent(*source);
                    let workspace = workspaces.source.first(extent.len());
                    norm::join(kernels, extent, &[term], Activation::Identity, workspace, None)?;
                    term = Term::plain(workspaces.source);
                }
                let out = if self.writes_logits(step) {
                    self.memory.logits.slice()
                } else {
                    self.place(*target, self.batch())
                };
                // The whole planned batch: images beyond the given ones are computed and never read.
                term.values = self.whole(term.values, *source);
                layer.run_forward(kernels, workspaces, self.batch(), layer.chosen(Direction::Forward), term, out)?;
                match statistics {
                    Some(norm) if self.state.statistics_of(norm.index()) != NormStatistics::Running => {
                        self.prepare_norm(norm.index(), Some(self.place(*target, images)))
                    }
                    _ => Ok(()),
                }
            }
            Step::Statistics { norm, source } => {
                let kind = self.norms[norm.index()].slot.layer.kind;
                if kind == NormKind::Batch && self.state.statistics_of(norm.index()) == NormStatistics::Running {
                    return Ok(());
                }
                self.prepare_norm(norm.index(), Some(self.place(*source, images)))
            }
            Step::Join { terms, activation, target } => {
                let terms: Vec<Term> = terms.iter().map(|&term| self.term(term)).collect();
                let mask = self.memory.masks[target.index()].as_ref().map(|mask| mask.slice());
                let out = self.place(*target, images);
                norm::join(kernels, self.extent(*target), &terms, *activation, out, mask)
            }
            Step::MaxPool { pool, source, target } => {
                let kind = self.max_pool(*target);
                let shape = plan.pool_shape(*pool, *source, *target);
                let out = self.place(*target, images);
                pool::pool(kernels, images, shape, kind, self.term(*source), out)
            }
            Step::AvgPool { pool, source, target } => {
                let shape = plan.pool_shape(*pool, *source, *target);
                let out = self.place(*target, images);
                pool::pool(kernels, images, shape, PoolKind::Mean, self.term(*source), out)
            }
            Step::GlobalAvgPool { source, target } => {
                let out = self.place(*target, images);
                pool::global_mean(kernels, self.extent(*source), self.term(*source), out)
            }
            Step::Mul { source, gate, target } => {
                let gate_pixels = plan.value(*gate).dims.pixels();
                let gate = (self.place(*gate, images), gate_pixels);
                let (values, out) = (self.place(*source, images), self.place(*target, images));
                tokens::multiply(kernels, self.extent(*source), values, gate, out.into())
            }
            Step::Flatten { source, target } => {
                let (values, out) = (self.place(*source, images), self.place(*target, images));
                tokens::flatten(kernels, self.extent(*source), values, out)
            }
            Step::ShortcutA { stride, source, target } => {
                let shape = plan.shortcut_shape(*source, *target, *stride);
                let (values, out) = (self.place(*source, images), self.place(*target, images));
                tokens::shortcut_a(kernels, images, shape, values, out)
            }
            Step::Pick { node, sources, target } => self.pick_step(*node, sources, *target),
            Step::LayerNorm { norm, source, target } => {
                let norm = &self.norms[norm.index()];
                let affine = self.memory.affine.slice();
                let of = [affine.part(norm.scale.clone()), affine.part(norm.shift.clone())];
                let (values, out) = (self.place(*source, images), self.place(*target, images));
                layer_norm::forward(kernels, self.layer_norm_shape(*source, norm.slot.layer.eps), values, of, out)
            }
            _ => {
                let place = step.token_place().expect("every planned step is implemented");
                self.token_step(step, place)
            }
        }
    }

    /// A conv's operand for the whole planned batch, from the one for the given images.
    pub(crate) fn whole(&self, given: DeviceSlice, value: ValueId) -> DeviceSlice {
        let len = self.batch() * self.plan.value(value).dims.len();
        DeviceSlice { len: len.max(given.len), ..given }
    }

    pub(crate) fn layer_norm_shape(&self, source: ValueId, eps: f32) -> layer_norm::LayerNormShape {
        let extent = self.extent(source);
        layer_norm::LayerNormShape { tokens: extent.images * extent.pixels, channels: extent.channels, eps }
    }

    pub(crate) fn max_pool(&self, target: ValueId) -> PoolKind {
        let choices = self.memory.choices[target.index()].as_ref();
        PoolKind::Max(choices.expect("max pools keep their choices").slice())
    }

    /// Makes a norm's tables from the statistics of `values` as the mode asks.
    fn prepare_norm(&self, index: usize, values: Option<DeviceSlice>) -> Result<(), CudaError> {
        let norm = &self.norms[index];
        let affine = self.memory.affine.slice();
        let of = Statistics {
            extent: norm.slot.dims.extent(self.images),
            values,
            workspace: self.memory.partials(),
            affine: [affine.part(norm.scale.clone()), affine.part(norm.shift.clone())],
            eps: norm.slot.layer.eps,
            tables: norm.tables(),
        };
        match (norm.slot.layer.kind, norm.running()) {
            (NormKind::Group { groups }, _) => norm::group_tables(&self.kernels, of, groups),
            (_, Some(running)) => {
                let (source_weight, unbiased) = mixture(self.state.statistics_of(index));
                norm::batch_tables(&self.kernels, of, running, source_weight, unbiased)
            }
            _ => Ok(()),
        }
    }

    /// A value of the last forward pass, derived or not.
    pub(crate) fn read_value(&self, value: ValueId) -> Result<Vec<f32>, CudaError> {
        let step = self.plan.forward().iter().find(|step| step.target() == Some(value));
        if step.is_some_and(|step| self.writes_logits(step)) {
            return self.device.read(self.logits());
        }
        let extent = self.extent(value);
        let workspace = self.memory.workspaces().source.first(extent.len());
        norm::join(&self.kernels, extent, &[self.term(value)], Activation::Identity, workspace, None)?;
        self.device.read(workspace)
    }
}
