//! Steps that run past weights in shared memory: the third way besides kernel by kernel and fused tiles.

use crate::device::{DeviceMemory, DeviceSlice};
use crate::error::CudaError;
use crate::launch::panel::{self, Back, CAPABILITY, Layout};
use crate::layers::Layer;
use crate::network::CudaNetwork;
use crate::norms::mixture;
use crate::precision::{Element, Precision};
use flipcast_graph::{Activation, BackwardStep, Dims, GradSource, GradTarget, NodeId, Plan, Step, Then, ValueId};

/// What a step needs for it.
#[derive(Debug)]
pub(crate) struct Panels {
    layout: Layout,
    /// Weights in the kernels' order: a convolution's for good, a gradient's made anew every time.
    weights: DeviceMemory,
    /// What the norm above adds to a gradient.
    constant: Option<DeviceMemory>,
}

impl CudaNetwork {
    /// How the weights of a convolution whose result is normalised can stay, if they can.
    fn layout_of(&self, step: &Step) -> Option<Layout> {
        let Step::Conv { node, source, statistics: Some(_), .. } = step else {
            return None;
        };
        let layer = self.layer(*node);
        let shape = &layer.shape;
        if self.device.capability != CAPABILITY || layer.bias.is_some() {
            return None;
        }
        if layer.is_pointwise() {
            Layout::forward(&self.kernels, shape.in_channels, shape.out_channels)
        } else if self.term(*source).is_plain() {
            Layout::patches(&self.kernels, shape)
        } else {
            None
        }
    }

    /// What the choice for a convolution of images depends on, if its weights can stay.
    pub(crate) fn patched(&self, step: &Step) -> Option<String> {
        let Step::Conv { node, .. } = step else {
            return None;
        };
        let layer = self.layer(*node);
        let fits = !layer.is_pointwise() && self.precision() != Precision::F32 && self.layout_of(step).is_some();
        fits.then(|| format!("{} {:?} way patches", self.batch(), layer.shape))
    }

    /// What a convolution that [`Self::fusable`] or [`Self::patched`] found needs, if its weights fit.
    pub(crate) fn panels(&self, step: &Step) -> Result<Option<Panels>, CudaError> {
        let (Step::Conv { node, .. }, Some(layout)) = (step, self.layout_of(step)) else {
            return Ok(None);
        };
        let layer = self.layer(*node);
        let (ins, outs) = (patch_len(layer), layer.shape.out_channels);
        let weights = self.panel_memory(ins * outs)?;
        panel::pack(&self.kernels, layer.weights(), weights.slice(), [ins, outs])?;
        Ok(Some(Panels { layout, weights, constant: None }))
    }

    /// What a gradient that [`Self::fusable_back`] found needs: no activation above, and no join below.
    pub(crate) fn panels_back(&self, plan: &Plan, step: &BackwardStep) -> Result<Option<Panels>, CudaError> {
        let BackwardStep::Conv { node, gradient: GradSource::ThroughNorm { value, .. }, then, .. } = step else {
            return Ok(None);
        };
        let source = source_of(plan, *node);
        let below = match then {
            Then::Sums(value) => *value == source,
            Then::Join(_) => false,
            _ => true,
        };
        let linear = self.term(*value).activation == Activation::Identity;
        let term = self.term(source);
        let known = term.is_plain() || self.knows_norm(plan, source);
        let layer = self.layer(*node);
        let (few, wide) = (layer.shape.in_channels, layer.shape.out_channels);
        let fits = below && linear && known && self.device.capability == CAPABILITY;
        let layout = Layout::back(&self.kernels, wide, few);
        let Some(layout) = layout.filter(|_| fits) else {
            return Ok(None);
        };
        let constant = self.device.allocate("a gradient's constants", Element::F32, few)?;
        Ok(Some(Panels { layout, weights: self.panel_memory(panel::packed_len(wide, few))?, constant: Some(constant) }))
    }

    fn panel_memory(&self, len: usize) -> Result<DeviceMemory, CudaError> {
        let element = self.precision().element();
        self.device.allocate("packed weights", element, len)
    }

    /// Runs a convolution of `source` and makes the tables of the norm on top.
    pub(crate) fn panel_conv(
        &self,
        panels: &Panels,
        node: NodeId,
        [source, target]: [ValueId; 2],
        norm: usize,
    ) -> Result<(), CudaError> {
        let mut of = self.forward_of(node, [source, target], norm);
        of.weights = panels.weights.slice();
        let running = self.norms[norm].running();
        let running = running.expect("only batch norms are fused");
        let (kernels, layer) = (&self.kernels, self.layer(node));
        let (layout, mixture) = (panels.layout, mixture(self.state.statistics_of(norm)));
        if layer.is_pointwise() {
            return panel::forward(kernels, layout, of, running, mixture);
        }
        of.ins = patch_len(layer);
        panel::patches(kernels, layout, &layer.shape, of, running, mixture)
    }

    /// Carries the gradient of a normalised value back through its convolution.
    pub(crate) fn panel_back(
        &self,
        panels: &Panels,
        node: NodeId,
        (value, gradient): (ValueId, DeviceSlice),
        target: GradTarget,
        then: &Then,
    ) -> Result<(), CudaError> {
        let (layer, source) = (self.layer(node), source_of(&self.plan, node));
        let shape = &layer.shape;
        let dims = Dims::new(shape.input[0], shape.input[1], shape.in_channels);
        let tables = self.term(value).tables;
        let constant = panels.constant.as_ref();
        let of = Back {
            extent: dims.extent(self.images),
            source: self.term(source),
            gradient,
            above: tables.expect("only gradients of norms are carried this way"),
            weights: layer.weights(),
            packed: panels.weights.slice(),
            constant: constant.expect("a gradient has room for it").slice(),
            to: self.target(target),
            below: match then {
                Then::Sums(value) => self.norm_below(*value).map(|(_, norm, ..)| norm),
                _ => None,
            },
            workspace: self.memory.partials(),
        };
        panel::back(&self.kernels, panels.layout, of)
    }
}

/// Elements that a filter multiplies.
fn patch_len(layer: &Layer) -> usize {
    layer.shape.kernel.iter().product::<usize>() * layer.shape.in_channels
}

/// What a planned convolution reads.
fn source_of(plan: &Plan, node: NodeId) -> ValueId {
    let mut sources = plan.forward().iter().filter_map(|step| match step {
        Step::Conv { node: own, source, .. } if *own == node => Some(*source),
        _ => None,
    });
    sources.next().expect("what has a gradient was planned")
}
