use crate::buffers::{Memory, allocate};
use crate::choose::Chooser;
use crate::cudnn::Dnn;
use crate::device::{Device, DeviceSlice};
use crate::error::CudaError;
use crate::gate;
use crate::gemm::{Blas, Direction};
use crate::graphs::Recording;
use crate::launch::preprocess::InputLayout;
use crate::layers::Layer;
use crate::module::Kernels;
use crate::norms::Norm;
use crate::precision::Precision;
use crate::prepare;
use crate::profile::Profile;
use crate::tokens::TokenLayer;
use flipcast_executor::{ExecError, ExecutorState, param};
use flipcast_graph::Extent;
use flipcast_graph::{BufferId, Graph, NormKind, Op, Plan, PlanOptions, Purpose, Step, Storage, ValueId};
use flipcast_tensor::Tensor;
use std::collections::HashMap;
use std::sync::Arc;

/// How to make a [`CudaNetwork`].
#[derive(Clone, Debug)]
pub struct CudaOptions {
    /// Which GPU.
    pub device: usize,
    /// How numbers are stored and multiplied.
    pub precision: Precision,
    /// Largest batch.
    pub batch: usize,
    /// Rows of an image.
    pub height: usize,
    /// Columns of an image.
    pub width: usize,
    /// Forward only, or both ways.
    pub purpose: Purpose,
    /// Nodes to read after a forward pass, besides `embedding` and `logits`.
    pub taps: Vec<String>,
}

impl CudaOptions {
    /// Adapts batches of `batch` images of `height` x `width` on the first GPU.
    pub fn adapt(batch: usize, height: usize, width: usize) -> Self {
        Self {
            device: 0,
            precision: Precision::default(),
            batch,
            height,
            width,
            purpose: Purpose::Adapt,
            taps: Vec::new(),
        }
    }
}

/// What was recorded, by what it depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct RecordingKey {
    pub pass: Pass,
    /// The norm mode: its kind and the bits of its weight.
    pub mode: (u8, u32),
    pub images: usize,
}

/// Which part of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Pass {
    Forward,
    Backward,
    /// Both with a loss and an optimizer in between.
    Step,
}

/// A network on an NVIDIA GPU.
#[derive(Debug)]
pub struct CudaNetwork {
    pub(crate) graph: Graph,
    pub(crate) plan: Arc<Plan>,
    pub(crate) state: ExecutorState,
    /// What was recorded; dropped before what it refers to. `None` after a first run without recording.
    pub(crate) recordings: HashMap<RecordingKey, Option<Recording>>,
    /// What the runs of steps on the device remember.
    pub(crate) runs: Vec<crate::step::RunMemory>,
    pub(crate) layers: Vec<Option<Layer>>,
    /// Steps that run in one kernel with the norms around them, backward steps after forward ones.
    pub(crate) fused: Vec<bool>,
    /// The same for steps whose weights stay in shared memory.
    pub(crate) panels: Vec<Option<crate::panels::Panels>>,
    pub(crate) token_layers: Vec<Option<TokenLayer>>,
    pub(crate) norms: Vec<Norm>,
    pub(crate) kernels: Kernels,
    pub(crate) memory: Memory,
    pub(crate) gradient: Vec<f32>,
    pub(crate) images: usize,
    /// How the first layer reads the batch.
    pub(crate) input: InputLayout,
    pub(crate) profile: Option<Profile>,
    pub(crate) device: Arc<Device>,
}

impl CudaNetwork {
    /// Plans `graph` as `options` ask, uploads the weights in `params`, and finds the fastest way to run every layer.
    pub fn new(graph: &Graph, params: &HashMap<String, Tensor>, options: &CudaOptions) -> Result<Self, CudaError> {
        let plan = Plan::new(
            graph,
            PlanOptions {
                batch: options.batch,
                height: options.height,
                width: options.width,
                purpose: options.purpose,
                taps: options.taps.clone(),
            },
        );
        let plan = plan.map_err(ExecError::from)?;
        let state = ExecutorState::new(graph, params)?;
        let device = Device::open(options.device)?;
        device.enter()?;
        let _loading = gate::load();
        let kernels = Kernels::new(&device, options.precision)?;
        let input = prepare::input_layout(graph, &plan, options.precision);
        let memory = allocate(graph, &plan, &kernels, options, input)?;
        let mut norms = Vec::new();
        for (slot, entry) in plan.norms().iter().zip(state.affine_table().entries()) {
            let mut running = Vec::new();
            if slot.layer.kind == NormKind::Batch {
                for suffix in ["running_mean", "running_var"] {
                    let name = format!("{}.{suffix}", graph.node(slot.node).name);
                    running.extend_from_slice(param(params, &name, &[slot.layer.channels])?);
                }
            }
            norms.push(Norm::new(&device, *slot, entry, options.batch, running)?);
        }
        let blas = Blas::new(&device, memory.workspace.slice())?;
        let dnn = Dnn::new(&device)?;
        let mut layers: Vec<Option<Layer>> = graph.nodes().iter().map(|_| None).collect();
        let mut token_layers: Vec<Option<TokenLayer>> = graph.nodes().iter().map(|_| None).collect();
        let workspaces = memory.workspaces();
        let mut chooser = Chooser::new(&device, &kernels, (&blas, &dnn), workspaces, options.batch)?;
        for step in plan.forward() {
            if let Step::Conv { node, source, target, .. } = step {
                let mut layer = prepare::layer(graph, &plan, params, (*node, *source, *target), &kernels, input)?;
                layer.forward = Some(chooser.choose(&layer, Direction::Forward)?);
                if plan.undoes(*node) {
                    layer.backward = Some(chooser.choose(&layer, Direction::Backward)?);
                }
                layers[node.index()] = Some(layer);
            } else if let Step::Pick { node, sources, target } = step
                && let Op::PickChannels(runs) = &graph.node(*node).op
            {
                let dims = |value: &ValueId| plan.value(*value).dims;
                let from: Vec<_> = sources.iter().map(dims).collect();
                token_layers[node.index()] = Some(TokenLayer::pick(runs, &from, dims(target), &kernels)?);
            } else if let Some((node, source, target)) = step.token_place() {
                let dims = [source, target].map(|value| plan.value(value).dims);
                token_layers[node.index()] = TokenLayer::new(graph, node, dims, params, &kernels, options)?;
            }
        }
        drop(chooser);
        let mut net = Self {
            graph: graph.clone(),
            recordings: HashMap::new(),
            runs: Vec::new(),
            layers,
            fused: crate::backward::sums_of_max_pools(&plan),
            panels: (0..plan.forward().len() + plan.backward().len()).map(|_| None).collect(),
            token_layers,
            norms,
            kernels,
            memory,
            gradient: vec![0.0; state.affine().len()],
            images: 0,
            input,
            profile: None,
            device,
            state,
            plan: Arc::new(plan),
        };
        net.tune_steps()?;
        net.device.synchronize()?;
        Ok(net)
    }

    /// The plan it runs by.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The precision it runs in.
    pub fn precision(&self) -> Precision {
        self.kernels.precision
    }

    /// The name of its GPU.
    pub fn device_name(&self) -> &str {
        &self.device.name
    }

    /// Whether any norm has running statistics. Without one, norm modes make no difference.
    pub fn has_batch_norm(&self) -> bool {
        self.graph.has_batch_norm()
    }

    /// Names of the convolutions and linear layers with the ways chosen for them and their milliseconds, forward and backward.
    pub fn algorithms(&self) -> Vec<(String, String, Option<String>)> {
        let tell = |chosen: Option<&crate::layers::Chosen>, way: Option<&str>| {
            let chosen = chosen?;
            Some(match way {
                Some(way) => way.to_owned(),
                None => format!("{} ({:.3} ms)", chosen.name(), chosen.milliseconds),
            })
        };
        let steps = self.plan.forward().iter().filter_map(|step| match step {
            Step::Conv { node, .. } => Some(*node),
            _ => None,
        });
        steps
            .map(|node| {
                let (layer, ways) = (self.layer(node), self.ways_of(node));
                let forward = tell(layer.forward.as_ref(), ways[0]).unwrap_or_default();
                let name = self.graph.node(node).name.clone();
                (name, forward, tell(layer.backward.as_ref(), ways[1]))
            })
            .collect()
    }

    /// Bytes of weights on the device.
    pub fn weight_bytes(&self) -> usize {
        self.layers.iter().flatten().map(Layer::bytes).sum()
    }

    /// Bytes of the arena of activations and gradients.
    pub fn arena_bytes(&self) -> usize {
        self.memory.arena.slice().bytes()
    }
}

/// What steps share: where things lie.
impl CudaNetwork {
    pub(crate) fn extent(&self, value: ValueId) -> Extent {
        self.plan.value(value).dims.extent(self.images)
    }

    /// Where `buffer` lies, for `images` images.
    pub(crate) fn buffer(&self, buffer: BufferId, images: usize) -> DeviceSlice {
        self.memory.arena.slice().part(self.plan.range(buffer, images))
    }

    /// Where a stored value lies, for `images` images.
    pub(crate) fn place(&self, value: ValueId, images: usize) -> DeviceSlice {
        match self.plan.value(value).storage {
            Storage::Buffer(buffer) => self.buffer(buffer, images),
            _ => self.memory.input.slice(),
        }
    }

    pub(crate) fn layer(&self, node: flipcast_graph::NodeId) -> &Layer {
        self.layers[node.index()].as_ref().expect("planned convolutions have a layer")
    }

    pub(crate) fn batch(&self) -> usize {
        self.plan.options().batch
    }
}
