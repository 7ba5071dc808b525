//! Pointwise convolutions and their gradients in one kernel with the norms around them, where that is faster.

use crate::choices::{Choice, Choices};
use crate::device::DeviceSlice;
use crate::error::CudaError;
use crate::launch::norm::Statistics;
use crate::launch::norm_backward::{JoinGradient, NormGradient};
use crate::launch::pointwise::{self, Back, End, Forward};
use crate::network::CudaNetwork;
use crate::norms::mixture;
use crate::panels::Panels;
use crate::timer::Timer;
use flipcast_executor::NormMode;
use flipcast_graph::{
    BackwardStep, Dims, GradSource, GradTarget, JoinBackward, NodeId, NormKind, Plan, Step, Storage, Then, ValueId,
};
use std::sync::Arc;

/// Runs to time a way.
const RUNS: usize = 3;

/// How a step can run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// Kernel by kernel.
    Unfused,
    /// In one kernel with the norms around it.
    Fused,
    /// In one that keeps the weights in shared memory.
    Panels,
}

impl Way {
    const ALL: [Self; 3] = [Self::Unfused, Self::Fused, Self::Panels];
    const UNFUSED: [Self; 2] = [Self::Unfused, Self::Panels];

    fn name(self) -> &'static str {
        match self {
            // The name that stored choices have.
            Self::Unfused => "apart",
            Self::Fused => "fused",
            Self::Panels => "panels",
        }
    }
}

impl CudaNetwork {
    /// Finds out which steps run faster in one kernel, as far as that is not known. What lies in memory does not matter.
    pub(crate) fn tune_steps(&mut self) -> Result<(), CudaError> {
        let plan = Arc::clone(&self.plan);
        let timer = Timer::new(&self.device)?;
        let mut choices = Choices::load(&self.device, self.precision())?;
        let (mode, images) = (self.state.norm_mode(), self.images);
        self.state.set_norm_mode(NormMode::Batch)?;
        self.images = self.batch();
        for (index, step) in plan.forward().iter().enumerate() {
            let fusable = self.fusable(&plan, step).map(|key| (key, &Way::ALL[..]));
            let patched = || self.patched(step).map(|key| (key, &Way::UNFUSED[..]));
            if let Some((key, ways)) = fusable.or_else(patched) {
                let run = |net: &Self| net.forward_step(&plan, index, step);
                let panels = |net: &Self| net.panels(step);
                self.tune(&timer, &mut choices, (index, key, ways), run, panels)?;
            }
        }
        for (index, step) in plan.backward().iter().enumerate() {
            let index = plan.forward().len() + index;
            if let Some(key) = self.fusable_back(&plan, step) {
                let run = |net: &Self| net.backward_step(&plan, index, step);
                let panels = |net: &Self| net.panels_back(&plan, step);
                let of = (index, key, &Way::ALL[..]);
                self.tune(&timer, &mut choices, of, run, panels)?;
            }
        }
        self.images = images;
        self.state.set_norm_mode(mode)?;
        Ok(())
    }

    /// Lets a step run in a way; whether it can.
    fn take_way(
        &mut self,
        index: usize,
        way: Way,
        panels: impl Fn(&Self) -> Result<Option<Panels>, CudaError>,
    ) -> Result<bool, CudaError> {
        self.fused[index] = way == Way::Fused;
        self.panels[index] = match way {
            Way::Panels => panels(self)?,
            _ => None,
        };
        Ok(way != Way::Panels || self.panels[index].is_some())
    }

    /// Tries a step in every way that it can take, unless `choices` knows the one of its `key`.
    fn tune(
        &mut self,
        timer: &Timer,
        choices: &mut Choices,
        (index, key, ways): (usize, String, &[Way]),
        run: impl Fn(&Self) -> Result<(), CudaError>,
        panels: impl Fn(&Self) -> Result<Option<Panels>, CudaError>,
    ) -> Result<(), CudaError> {
        let known = choices.find(&key).map(|choice| choice.way.clone());
        let known = ways.iter().find(|way| known.as_deref() == Some(way.name()));
        if let Some(&way) = known
            && self.take_way(index, way, &panels)?
        {
            return Ok(());
        }
        let mut best = (Way::Unfused, f32::INFINITY);
        for &way in ways {
            if self.take_way(index, way, &panels)? {
                let time = timer.fastest(RUNS, || run(self))?;
                if time < best.1 {
                    best = (way, time);
                }
            }
        }
        self.take_way(index, best.0, &panels)?;
        let choice = Choice { way: best.0.name().to_owned(), milliseconds: best.1 };
        choices.keep(key, choice);
        Ok(())
    }

    /// How the convolution of `node` runs in one kernel with its norms, forward and backward, if it does.
    pub(crate) fn ways_of(&self, node: NodeId) -> [Option<&'static str>; 2] {
        let (forward, backward) = (self.plan.forward(), self.plan.backward());
        let there = forward.iter().position(|step| matches!(step, Step::Conv { node: own, .. } if *own == node));
        let back =
            backward.iter().position(|step| matches!(step, BackwardStep::Conv { node: own, .. } if *own == node));
        let indices = [there, back.map(|at| forward.len() + at)];
        indices.map(|index| match index? {
            index if self.panels[index].is_some() => Some("fused, weights kept"),
            index if self.fused[index] => Some("fused with its norms"),
            _ => None,
        })
    }

    /// Whether a value is normalised by a batch norm below an activation that the kernels know.
    pub(crate) fn knows_norm(&self, plan: &Plan, value: ValueId) -> bool {
        match plan.value(value).storage {
            Storage::Derived { norm: Some(norm), activation, .. } => {
                let kind = plan.norms()[norm.index()].layer.kind;
                kind == NormKind::Batch && pointwise::knows(activation)
            }
            _ => false,
        }
    }

    /// What the choice for a step depends on, if the kernels can run it.
    fn fusable(&self, plan: &Plan, step: &Step) -> Option<String> {
        let Step::Conv { node, source, statistics: Some(_), .. } = step else {
            return None;
        };
        let layer = self.layer(*node);
        let (ins, outs) = (layer.shape.in_channels, layer.shape.out_channels);
        let stored = matches!(plan.value(*source).storage, Storage::Buffer(_));
        let fits = layer.is_pointwise()
            && layer.bias.is_none()
            && pointwise::fits(self.precision(), outs, ins)
            && (stored || self.knows_norm(plan, *source));
        let batch = self.batch();
        fits.then(|| format!("{batch} {:?} way stored {stored}", layer.shape))
    }

    /// The same for a backward step.
    fn fusable_back(&self, plan: &Plan, step: &BackwardStep) -> Option<String> {
        let BackwardStep::Conv { node, gradient: GradSource::ThroughNorm { value, .. }, target, then } = step else {
            return None;
        };
        let layer = self.layer(*node);
        let (ins, outs) = (layer.shape.in_channels, layer.shape.out_channels);
        let (end, below) = match then {
            Then::Sums(value) => ("sums".to_owned(), self.knows_norm(plan, *value)),
            Then::Join(join) => (format!("join {}", join.sums.len()), true),
            _ => ("plain".to_owned(), true),
        };
        let fits = layer.is_pointwise()
            && pointwise::fits(self.precision(), ins, outs)
            && self.knows_norm(plan, *value)
            && below;
        let (batch, add) = (self.batch(), target.accumulate);
        fits.then(|| format!("{batch} {:?} way back {end} add {add}", layer.shape))
    }

    /// A pointwise convolution of `source`, with the norm on top of `target`.
    pub(crate) fn forward_of(&self, node: NodeId, [source, target]: [ValueId; 2], norm: usize) -> Forward {
        let (layer, norm) = (self.layer(node), &self.norms[norm]);
        let affine = self.memory.affine.slice();
        Forward {
            ins: layer.shape.in_channels,
            source: self.term(source),
            weights: layer.weights(),
            out: self.place(target, self.images),
            statistics: Statistics {
                extent: self.extent(target),
                values: None,
                workspace: self.memory.partials(),
                affine: [affine.part(norm.scale.clone()), affine.part(norm.shift.clone())],
                eps: norm.slot.layer.eps,
                tables: norm.tables(),
            },
        }
    }

    /// Runs it and makes the tables of the norm.
    pub(crate) fn fused_conv(&self, node: NodeId, values: [ValueId; 2], norm: usize) -> Result<(), CudaError> {
        let running = self.norms[norm].running();
        let running = running.expect("only batch norms are fused");
        let of = self.forward_of(node, values, norm);
        pointwise::forward(&self.kernels, of, running, mixture(self.state.statistics_of(norm)))
    }

    /// What passing a join's gradient on takes, and the norms joined there with what they normalised; `None` when there is
    /// nothing to do. `other` is a contribution that is still to be added.
    pub(crate) fn joined(
        &self,
        gradient: DeviceSlice,
        other: Option<DeviceSlice>,
        join: &JoinBackward,
    ) -> Option<(JoinGradient, Vec<(NormGradient, DeviceSlice)>)> {
        let mask = self.memory.masks[join.joined.index()].as_ref();
        if mask.is_none() && other.is_none() && join.sums.is_empty() {
            return None;
        }
        let below = |value: &ValueId| self.norm_below(*value).map(|(_, of, _, values)| (of, values));
        let of = JoinGradient {
            extent: self.extent(join.joined),
            gradient,
            other,
            mask: mask.map(|mask| mask.slice()),
            workspace: self.memory.partials(),
        };
        Some((of, join.sums.iter().filter_map(below).collect()))
    }

    /// Carries the gradient of a normalised value back through its pointwise convolution.
    pub(crate) fn fused_back(
        &self,
        node: NodeId,
        (value, gradient): (ValueId, DeviceSlice),
        target: GradTarget,
        then: &Then,
    ) -> Result<(), CudaError> {
        let layer = self.layer(node);
        let to = self.target(target);
        let shape = &layer.shape;
        let of = Back {
            extent: Dims::new(shape.input[0], shape.input[1], shape.in_channels).extent(self.images),
            outs: shape.out_channels,
            above: self.term(value),
            gradient,
            weights: layer.weights(),
            to,
            workspace: self.memory.partials(),
        };
        match then {
            Then::Sums(value) => match self.norm_below(*value) {
                Some((_, norm, activation, values)) => {
                    let end = End::Sums(norm, activation, values);
                    pointwise::back(&self.kernels, of, end)
                }
                None => unreachable!("`fusable_back` looked for the norm"),
            },
            Then::Join(join) => match self.joined(to.slice, None, join) {
                Some((joined, norms)) => pointwise::back(&self.kernels, of, End::Join(joined.mask, &norms)),
                None => pointwise::back(&self.kernels, of, End::Plain),
            },
            _ => pointwise::back(&self.kernels, of, End::Plain),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Way;
    use crate::launch::panel::CAPABILITY;
    use crate::{CudaNetwork, CudaOptions, Precision, report};
    use flipcast_executor::{Executor, NormMode};
    use flipcast_testkit::{Random, cases};

    /// Relative distance of two vectors.
    fn distance(found: &[f32], expected: &[f32]) -> f64 {
        let squares = |of: &mut dyn Iterator<Item = f64>| of.map(|x| x * x).sum::<f64>();
        let mut difference = found.iter().zip(expected).map(|(a, b)| f64::from(a - b));
        let apart = squares(&mut difference);
        (apart / squares(&mut expected.iter().map(|&x| f64::from(x)))).sqrt()
    }

    /// Logits and gradients of a network that runs every step it can in a way.
    fn run(net: &mut CudaNetwork, way: Way, case: &flipcast_testkit::Case) -> [Vec<f32>; 2] {
        let plan = std::sync::Arc::clone(&net.plan);
        let mut taken = 0;
        for (index, step) in plan.forward().iter().enumerate() {
            if net.fusable(&plan, step).is_some() || (way != Way::Fused && net.patched(step).is_some()) {
                let can = net.take_way(index, way, |net| net.panels(step)).unwrap();
                taken += usize::from(can);
            }
        }
        for (index, step) in plan.backward().iter().enumerate() {
            if net.fusable_back(&plan, step).is_some() {
                let index = plan.forward().len() + index;
                let can = net.take_way(index, way, |net| net.panels_back(&plan, step));
                taken += usize::from(can.unwrap());
            }
        }
        let can_all = way != Way::Panels || net.device.capability == CAPABILITY;
        assert!(taken > 0 || !can_all, "{}: no step can {way:?}", case.name);
        net.recordings.clear();
        let logits = net.forward(&case.batch()).unwrap().values().to_vec();
        let mut random = Random::new(71);
        let gradient: Vec<f32> = logits.iter().map(|_| random.normal() as f32).collect();
        let gradient = net.backward(&gradient).unwrap().to_vec();
        [logits, gradient]
    }

    /// All ways round factors, at different places. Bounds are those of the conformance suite.
    #[test]
    fn steps_give_the_same_in_every_way() {
        if !report().usable() {
            println!("skipped: nothing was compared, since this machine has no usable GPU");
            return;
        }
        let bounds = [(Precision::Tf32, [2e-3, 1e-1]), (Precision::Bf16, [3e-2, 3e-1])];
        for (precision, bounds) in bounds {
            for case in cases() {
                if !case.name.ends_with("_128") {
                    continue;
                }
                let options = CudaOptions { precision, ..CudaOptions::adapt(case.batch_size, case.height, case.width) };
                let mut net = CudaNetwork::new(&case.graph, &case.params, &options).unwrap();
                for mode in [NormMode::Batch, NormMode::Mixed { source_weight: 0.4 }] {
                    net.set_norm_mode(mode).unwrap();
                    let apart = run(&mut net, Way::Unfused, &case);
                    for way in [Way::Fused, Way::Panels] {
                        let other = run(&mut net, way, &case);
                        for ((found, expected), bound) in other.iter().zip(&apart).zip(bounds) {
                            let off = distance(found, expected);
                            println!("{precision:?} {} {mode:?} {way:?}: {off:.2e}", case.name);
                            assert!(off < bound, "{}: off by {off}, bound {bound}", case.name);
                        }
                    }
                }
            }
        }
    }
}
