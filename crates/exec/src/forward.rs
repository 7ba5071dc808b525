//! The forward pass, step by step.

use crate::NormMode;
use crate::network::Network;
use crate::places::{source_of, views};
use flipcast_graph::{Activation, NormId, NormKind, Plan, Step, ValueId};
use flipcast_kernels as k;
use flipcast_kernels::{Gather, Sink, Source};
use std::sync::Arc;
use std::time::Instant;

impl Network {
    pub(crate) fn run_forward(&mut self, batch: &[f32]) {
        let plan = Arc::clone(&self.plan);
        if self.mode == NormMode::Running {
            for norm in 0..self.norms.len() {
                if self.norms[norm].slot.layer.kind == NormKind::Batch {
                    self.prepare_norm(norm);
                }
            }
        }
        for (index, step) in plan.forward().iter().enumerate() {
            let start = self.times.as_ref().map(|_| Instant::now());
            self.forward_step(&plan, step, batch);
            if let (Some(start), Some(times)) = (start, &mut self.times) {
                times.forward[index] += start.elapsed();
            }
        }
    }

    fn forward_step(&mut self, plan: &Plan, step: &Step, batch: &[f32]) {
        match step {
            Step::Conv { node, source, target, statistics } => {
                self.conv(plan, *node, *source, *target, *statistics, batch);
            }
            Step::Statistics { norm, source } => self.statistics(*norm, *source),
            Step::Join { terms, activation, target } => self.join(plan, terms, *activation, *target, batch),
            Step::MaxPool { pool, source, target } => {
                let shape = plan.pool_shape(*pool, *source, *target);
                let mut choices = std::mem::take(&mut self.choices[target.index()]);
                self.with_source(plan, *source, *target, batch, |net, source, out| {
                    let images = net.images;
                    k::max_pool(net.isa, net.workers, net.scratch, images, shape, source, (out, &mut choices));
                });
                self.choices[target.index()] = choices;
            }
            Step::AvgPool { pool, source, target } => {
                let shape = plan.pool_shape(*pool, *source, *target);
                self.with_source(plan, *source, *target, batch, |net, source, out| {
                    k::avg_pool(net.isa, net.workers, net.scratch, net.images, shape, source, out);
                });
            }
            Step::GlobalAvgPool { source, target } => {
                let extent = self.extent(*source);
                self.with_source(plan, *source, *target, batch, |net, source, out| {
                    k::global_avg_pool(net.isa, net.workers, net.scratch, extent, source, out);
                });
            }
            Step::Mul { source, gate, target } => {
                let (extent, gate_pixels) = (self.extent(*source), plan.value(*gate).dims.pixels());
                let ranges = [self.stored_range(*source), self.stored_range(*gate), self.stored_range(*target)];
                if source == gate {
                    let [values, _, out] = ranges;
                    let [values, out] = views(&mut self.arena, [values, out]);
                    k::multiply(&mut self.workers, extent, values, values, gate_pixels, out);
                } else {
                    let [values, gate, out] = views(&mut self.arena, ranges);
                    k::multiply(&mut self.workers, extent, values, gate, gate_pixels, out);
                }
            }
            Step::Flatten { source, target } => {
                let extent = self.extent(*source);
                let ranges = [self.stored_range(*source), self.stored_range(*target)];
                let [values, out] = views(&mut self.arena, ranges);
                k::flatten(&mut self.workers, extent, values, out);
            }
            Step::ShortcutA { stride, source, target } => {
                let shape = plan.shortcut_shape(*source, *target, *stride);
                let ranges = [self.stored_range(*source), self.stored_range(*target)];
                let [values, out] = views(&mut self.arena, ranges);
                k::shortcut_a(&mut self.workers, self.images, shape, values, out);
            }
            Step::LayerNorm { norm, source, target } => {
                let extent = self.extent(*source);
                let eps = self.norms[norm.index()].slot.layer.eps;
                let ranges = [self.stored_range(*source), self.stored_range(*target)];
                let [values, out] = views(&mut self.arena, ranges);
                let entry = &self.table.entries()[norm.index()];
                let (scale, shift) = (&self.affine[entry.scale()], &self.affine[entry.shift()]);
                k::layer_norm(self.isa, &mut self.workers, extent, values, (scale, shift, eps), out);
            }
            _ => self.token_step(step),
        }
    }

    fn conv(
        &mut self,
        plan: &Plan,
        node: flipcast_graph::NodeId,
        source: ValueId,
        target: ValueId,
        statistics: Option<NormId>,
        batch: &[f32],
    ) {
        let kernels = Arc::clone(&self.kernels);
        let layer = kernels.layer(node);
        // Running statistics need nothing from the batch.
        let gathered = statistics.filter(|_| self.mode != NormMode::Running);
        let mut taken = gathered.map(|norm| std::mem::take(&mut self.norms[norm.index()].batch));
        self.with_source(plan, source, target, batch, |net, source, out| {
            let gather = match &mut taken {
                Some(batch) => Gather::Statistics { mean: &mut batch.mean, variance: &mut batch.variance },
                None => Gather::Nothing,
            };
            let sink = Sink { out, accumulate: false, bias: layer.bias.as_deref(), gather };
            layer.forward.run(net.workers, net.scratch, net.images, source, sink);
        });
        if let (Some(norm), Some(batch)) = (gathered, taken) {
            self.norms[norm.index()].batch = batch;
            self.prepare_norm(norm.index());
        }
    }

    fn statistics(&mut self, norm: NormId, source: ValueId) {
        let kind = self.norms[norm.index()].slot.layer.kind;
        if kind == NormKind::Batch && self.mode == NormMode::Running {
            return;
        }
        let (extent, range) = (self.extent(source), self.stored_range(source));
        let batch = &mut self.norms[norm.index()].batch;
        let (mean, variance) = (&mut batch.mean, &mut batch.variance);
        let (workers, scratch) = (&mut self.workers, &mut self.scratch);
        match kind {
            NormKind::Batch => k::statistics(self.isa, workers, scratch, extent, &self.arena[range], mean, variance),
            _ => k::per_image_statistics(self.isa, workers, scratch, extent, &self.arena[range], mean, variance),
        }
        self.prepare_norm(norm.index());
    }

    fn prepare_norm(&mut self, norm: usize) {
        let entry = &self.table.entries()[norm];
        let (scale, shift) = (entry.scale(), entry.shift());
        self.norms[norm].prepare(self.images, self.mode, &self.affine[scale], &self.affine[shift]);
    }

    fn join(&mut self, plan: &Plan, terms: &[ValueId], activation: Activation, target: ValueId, batch: &[f32]) {
        let extent = self.extent(target);
        let out = self.stored_range(target);
        let bases = [self.base_range(terms[0]), terms.get(1).and_then(|&term| self.base_range(term))];
        let (norms, identity) = (&self.norms, &self.identity);
        let source = |term: usize, base| source_of(plan, norms, identity, terms[term], base);
        let (isa, workers, scratch) = (self.isa, &mut self.workers, &mut self.scratch);
        let mask = &mut self.masks[target.index()];
        let mut run = |sources: &[Source], out: &mut [f32]| {
            let mask = (!mask.is_empty()).then_some(mask.as_mut_slice());
            k::join(isa, workers, scratch, extent, sources, activation, out, mask);
        };
        match (terms.len(), bases) {
            (1, [None, _]) => run(&[source(0, batch)], &mut self.arena[out]),
            (1, [Some(a), _]) => {
                let [a, out] = views(&mut self.arena, [a, out]);
                run(&[source(0, a)], out);
            }
            (_, [None, None]) => run(&[source(0, batch), source(1, batch)], &mut self.arena[out]),
            (_, [Some(a), None]) => {
                let [a, out] = views(&mut self.arena, [a, out]);
                run(&[source(0, a), source(1, batch)], out);
            }
            (_, [None, Some(b)]) => {
                let [b, out] = views(&mut self.arena, [b, out]);
                run(&[source(0, batch), source(1, b)], out);
            }
            (_, [Some(a), Some(b)]) if a == b => {
                let [a, out] = views(&mut self.arena, [a, out]);
                run(&[source(0, a), source(1, a)], out);
            }
            (_, [Some(a), Some(b)]) => {
                let [a, b, out] = views(&mut self.arena, [a, b, out]);
                run(&[source(0, a), source(1, b)], out);
            }
        }
    }

    /// Calls `f` with the source of a value and the stored target.
    fn with_source(
        &mut self,
        plan: &Plan,
        source: ValueId,
        target: ValueId,
        batch: &[f32],
        f: impl FnOnce(&mut Team, Source, &mut [f32]),
    ) {
        let (base, out) = (self.base_range(source), self.stored_range(target));
        let mut team =
            Team { isa: self.isa, workers: &mut self.workers, scratch: &mut self.scratch, images: self.images };
        match base {
            None => {
                let source = source_of(plan, &self.norms, &self.identity, source, batch);
                f(&mut team, source, &mut self.arena[out]);
            }
            Some(base) => {
                let [base, out] = views(&mut self.arena, [base, out]);
                let source = source_of(plan, &self.norms, &self.identity, source, base);
                f(&mut team, source, out);
            }
        }
    }

    /// Writes out a value of the last forward pass, derived or not.
    pub(crate) fn read_value(&mut self, value: ValueId, to: &mut [f32]) {
        let plan = Arc::clone(&self.plan);
        let extent = self.extent(value);
        let Some(range) = self.base_range(value) else {
            return;
        };
        let source = source_of(&plan, &self.norms, &self.identity, value, &self.arena[range]);
        k::join(self.isa, &mut self.workers, &mut self.scratch, extent, &[source], Activation::Identity, to, None);
    }
}

/// Who works, and where.
pub(crate) struct Team<'a> {
    pub isa: k::Isa,
    pub workers: &'a mut k::Workers,
    pub scratch: &'a mut k::Scratch,
    pub images: usize,
}
