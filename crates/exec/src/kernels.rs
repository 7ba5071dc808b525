//! Everything chosen and packed once: a kernel per layer, and how much scratch the largest of them needs.

use crate::tokens::TokenLayer;
use crate::weights::{ConvKey, Direction, PackedConvs};
use crate::{ExecError, Isa, NetworkOptions};
use flipcast_executor::param;
use flipcast_graph::{Dims, Graph, NodeId, Op, Plan, Step, ValueId};
use flipcast_kernels::{Conv, ScratchSize, extent_scratch, pool_scratch};
use flipcast_tensor::Tensor;
use std::collections::HashMap;
use std::sync::Arc;

/// A convolution or linear layer.
#[derive(Debug)]
pub(crate) struct Layer {
    pub forward: Arc<Conv>,
    pub backward: Option<Arc<Conv>>,
    pub bias: Option<Vec<f32>>,
}

/// The layers, by node.
#[derive(Debug)]
pub(crate) struct Kernels {
    layers: Vec<Option<Layer>>,
    token_layers: Vec<Option<TokenLayer>>,
}

impl Kernels {
    pub fn new(
        graph: &Graph,
        plan: &Plan,
        params: &HashMap<String, Tensor>,
        packed: &PackedConvs,
        isa: Isa,
        options: &NetworkOptions,
    ) -> Result<Self, ExecError> {
        let exactness = options.exactness;
        let mut layers: Vec<Option<Layer>> = graph.nodes().iter().map(|_| None).collect();
        let mut token_layers: Vec<Option<TokenLayer>> = graph.nodes().iter().map(|_| None).collect();
        let (mut wanted, mut biases) = (Vec::new(), HashMap::new());
        for step in plan.forward() {
            let Step::Conv { node, source, target, .. } = step else {
                if let (Step::Pick { node, sources, target }, dims) = (step, |value: &ValueId| plan.value(*value).dims)
                    && let Op::PickChannels(runs) = &graph.node(*node).op
                {
                    let from: Vec<Dims> = sources.iter().map(dims).collect();
                    token_layers[node.index()] = Some(TokenLayer::pick(runs, &from, dims(target)));
                } else if let Some((node, source, target)) = step.token_place() {
                    let dims = [source, target].map(|value| plan.value(value).dims);
                    let how = (isa, exactness);
                    token_layers[node.index()] = TokenLayer::new(graph, node, dims, params, how)?;
                }
                continue;
            };
            let spec = plan.conv_spec(graph, *node, *source, *target);
            let (shape, name) = (spec.shape, &graph.node(*node).name);
            let weights = param(params, &format!("{name}.weight"), &spec.weight_extents)?;
            let key = |direction| (ConvKey { node: *node, shape, direction, isa, exactness }, weights);
            wanted.push(key(Direction::Forward));
            if plan.undoes(*node) {
                wanted.push(key(Direction::Backward));
            }
            if spec.has_bias {
                biases.insert(*node, param(params, &format!("{name}.bias"), &[shape.out_channels])?.to_vec());
            }
        }
        for ((key, _), conv) in wanted.iter().zip(packed.get_all(&wanted, options.threads)) {
            let layer = &mut layers[key.node.index()];
            match key.direction {
                Direction::Forward => {
                    *layer = Some(Layer { forward: conv, backward: None, bias: biases.remove(&key.node) })
                }
                Direction::Backward => layer.as_mut().expect("forward comes first").backward = Some(conv),
            }
        }
        Ok(Self { layers, token_layers })
    }

    pub fn layer(&self, node: NodeId) -> &Layer {
        self.layers[node.index()].as_ref().expect("planned convolutions have a kernel")
    }

    pub fn token_layer(&self, node: NodeId) -> &TokenLayer {
        self.token_layers[node.index()].as_ref().expect("planned layers are prepared")
    }

    /// Scratch for the neediest step of `plan`.
    pub fn scratch(&self, plan: &Plan) -> ScratchSize {
        let images = plan.options().batch;
        let convs = self.layers.iter().flatten().flat_map(|layer| [Some(&layer.forward), layer.backward.as_ref()]);
        let convs = convs.flatten().map(|conv| conv.scratch(images));
        let attentions = self.token_layers.iter().flatten().filter_map(|layer| match layer {
            TokenLayer::Attention(attention) => Some(attention.scratch()),
            TokenLayer::Arrange(_) | TokenLayer::Pick(_) | TokenLayer::Position(_) | TokenLayer::Scale(_) => None,
        });
        let passes = plan.values().iter().map(|value| extent_scratch(value.dims.extent(images)));
        let pools = plan.forward().iter().filter_map(|step| match step {
            Step::MaxPool { pool, source, target } | Step::AvgPool { pool, source, target } => {
                Some(pool_scratch(&plan.pool_shape(*pool, *source, *target)))
            }
            _ => None,
        });
        convs.chain(attentions).chain(passes).chain(pools).fold(ScratchSize::default(), ScratchSize::max)
    }

    /// Bytes of packed weights.
    pub fn weight_bytes(&self) -> usize {
        let layers = self.layers.iter().flatten();
        layers
            .map(|layer| {
                let backward = layer.backward.as_ref();
                layer.forward.weight_bytes() + backward.map_or(0, |conv| conv.weight_bytes())
            })
            .sum()
    }

    /// Which algorithm every layer uses, forward and backward.
    pub fn algorithms(&self) -> impl Iterator<Item = (usize, &'static str, Option<&'static str>)> + '_ {
        self.layers.iter().enumerate().filter_map(|(node, layer)| {
            let layer = layer.as_ref()?;
            Some((node, layer.forward.algorithm(), layer.backward.as_ref().map(|conv| conv.algorithm())))
        })
    }
}
