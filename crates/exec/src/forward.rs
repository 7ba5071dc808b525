//! The forward pass, step by step.

use crate::NormStatistics;
use crate::network::Network;
use crate::places::{cut, source_of, views};
use flipcast_graph::{Activation, NodeId, NormId, NormKind, Step, ValueId};
use flipcast_kernels as k;
use flipcast_kernels::{Factors, Gather, LayerNorm, Sink};
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

impl Network {
    pub(crate) fn run_forward(&mut self, batch: &[f32]) {
        self.prepare_running_norms();
        self.run_steps(0..self.plan.forward().len(), batch);
    }

    /// Makes the tables of norms that need nothing from the batch.
    pub(crate) fn prepare_running_norms(&mut self) {
        for norm in 0..self.norms.len() {
            if self.norms[norm].slot.layer.kind == NormKind::Batch
                && self.state.statistics_of(norm) == NormStatistics::Running
            {
                self.prepare_norm(norm);
            }
        }
    }

    /// Runs some of the forward steps.
    pub(crate) fn run_steps(&mut self, steps: Range<usize>, batch: &[f32]) {
        let plan = Arc::clone(&self.plan);
        for index in steps {
            let step = &plan.forward()[index];
            let start = self.times.as_ref().map(|_| Instant::now());
            self.forward_step(step, batch);
            if let (Some(start), Some(times)) = (start, &mut self.times) {
                times.forward[index] += start.elapsed();
            }
        }
    }

    fn forward_step(&mut self, step: &Step, batch: &[f32]) {
        let images = self.images;
        match *step {
            Step::Conv { node, source, target, statistics } => self.conv([source, target], node, statistics, batch),
            Step::Statistics { norm, source } => self.statistics(norm, source),
            Step::Join { ref terms, activation, target } => self.join(terms, activation, target, batch),
            Step::MaxPool { pool, source, target } | Step::AvgPool { pool, source, target } => {
                let shape = self.plan.pool_shape(pool, source, target);
                // Only max pools keep choices.
                let mut choices = std::mem::take(&mut self.choices[target.index()]);
                let noted = (!choices.is_empty()).then_some(choices.as_mut_slice());
                let (source, out, team) = self.read(source, target, batch);
                k::pool(team, images, shape, source, out, noted);
                self.choices[target.index()] = choices;
            }
            Step::GlobalAvgPool { source, target } => {
                let extent = self.extent(source);
                let (source, out, team) = self.read(source, target, batch);
                k::global_avg_pool(team, extent, source, out);
            }
            Step::Mul { source, gate, target } => {
                let (extent, gate_pixels) = (self.extent(source), self.plan.value(gate).dims.pixels());
                if source == gate {
                    let ([values, out], team) = self.stored([source, target]);
                    k::multiply(team, extent, Factors { values, gate: values, gate_pixels }, out);
                } else {
                    let ([values, gate, out], team) = self.stored([source, gate, target]);
                    k::multiply(team, extent, Factors { values, gate, gate_pixels }, out);
                }
            }
            Step::Flatten { source, target } => {
                let extent = self.extent(source);
                let ([values, out], team) = self.stored([source, target]);
                k::flatten(team, extent, values, out);
            }
            Step::ShortcutA { stride, source, target } => {
                let shape = self.plan.shortcut_shape(source, target, stride);
                let ([values, out], team) = self.stored([source, target]);
                k::shortcut_a(team, images, shape, values, out);
            }
            Step::LayerNorm { norm, source, target } => {
                let extent = self.extent(source);
                let eps = self.norms[norm.index()].slot.layer.eps;
                let ranges = [self.stored_range(source), self.stored_range(target)];
                let [values, out] = views(&mut self.arena, ranges);
                let entry = &self.state.affine_table().entries()[norm.index()];
                let (scale, shift) = (&self.state.affine()[entry.scale()], &self.state.affine()[entry.shift()]);
                k::layer_norm(&mut self.team, extent, LayerNorm { values, scale, shift, eps }, out);
            }
            Step::Pick { node, ref sources, target } => self.pick_step(node, sources, target),
            Step::Attention { node, source, target }
            | Step::Arrange { node, source, target }
            | Step::AddPosition { node, source, target }
            | Step::Scale { node, source, target } => self.token_step(node, source, target),
        }
    }

    fn conv(&mut self, [source, target]: [ValueId; 2], node: NodeId, statistics: Option<NormId>, batch: &[f32]) {
        let (kernels, images) = (Arc::clone(&self.kernels), self.images);
        let layer = kernels.layer(node);
        // Running statistics need nothing from the batch.
        let gathered = statistics.filter(|norm| self.state.statistics_of(norm.index()) != NormStatistics::Running);
        let mut taken = gathered.map(|norm| std::mem::take(&mut self.norms[norm.index()].batch));
        let gather = match &mut taken {
            Some(batch) => Gather::Statistics { mean: &mut batch.mean, variance: &mut batch.variance },
            None => Gather::Nothing,
        };
        let (source, out, team) = self.read(source, target, batch);
        let sink = Sink { out, accumulate: false, bias: layer.bias.as_deref(), gather };
        layer.forward.run(team, images, source, sink);
        if let (Some(norm), Some(batch)) = (gathered, taken) {
            self.norms[norm.index()].batch = batch;
            self.prepare_norm(norm.index());
        }
    }

    fn statistics(&mut self, norm: NormId, source: ValueId) {
        let kind = self.norms[norm.index()].slot.layer.kind;
        if kind == NormKind::Batch && self.state.statistics_of(norm.index()) == NormStatistics::Running {
            return;
        }
        let (extent, range) = (self.extent(source), self.stored_range(source));
        let batch = &mut self.norms[norm.index()].batch;
        let gather = if kind == NormKind::Batch { k::statistics } else { k::per_image_statistics };
        gather(&mut self.team, extent, &self.arena[range], &mut batch.mean, &mut batch.variance);
        self.prepare_norm(norm.index());
    }

    fn prepare_norm(&mut self, norm: usize) {
        let entry = &self.state.affine_table().entries()[norm];
        let (scale, shift) = (entry.scale(), entry.shift());
        self.norms[norm].prepare(
            self.images,
            self.state.statistics_of(norm),
            &self.state.affine()[scale],
            &self.state.affine()[shift],
        );
    }

    fn join(&mut self, terms: &[ValueId], activation: Activation, target: ValueId, batch: &[f32]) {
        let extent = self.extent(target);
        let first = self.base_range(terms[0]);
        let second = terms.get(1).and_then(|&term| self.base_range(term));
        // Terms of one base, and the batch, cannot be cut out twice.
        let repeated = second.is_some() && second == first;
        let ranges = [first, second.filter(|_| !repeated), Some(self.stored_range(target))];
        let [first, second, out] = cut(&mut self.arena, ranges);
        let first = first.map_or(batch, |base| base);
        let second = if repeated { first } else { second.map_or(batch, |base| base) };
        let source = |term: usize, base| source_of(&self.plan, &self.norms, &self.identity, terms[term], base);
        let out = out.unwrap_or_default();
        let mask = &mut self.masks[target.index()];
        let mask = (!mask.is_empty()).then_some(mask.as_mut_slice());
        match terms.len() {
            1 => k::join(&mut self.team, extent, &[source(0, first)], activation, out, mask),
            _ => k::join(&mut self.team, extent, &[source(0, first), source(1, second)], activation, out, mask),
        }
    }

    /// Writes out a value of the last forward pass, derived or not.
    pub(crate) fn read_value(&mut self, value: ValueId, to: &mut [f32]) {
        let extent = self.extent(value);
        let Some(range) = self.base_range(value) else {
            return;
        };
        let source = source_of(&self.plan, &self.norms, &self.identity, value, &self.arena[range]);
        k::join(&mut self.team, extent, &[source], Activation::Identity, to, None);
    }
}
