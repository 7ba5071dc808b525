//! What a network allocates once.

use crate::device::{Device, DeviceMemory, DeviceSlice, Pinned};
use crate::error::CudaError;
use crate::launch::preprocess::{InputLayout, SOURCE_WORDS};
use crate::launch::{layer_norm, norm, pointwise};
use crate::layers::Workspaces;
use crate::module::Kernels;
use crate::network::CudaOptions;
use crate::precision::Element;
use flipcast_graph::{Activation, Graph, NormKind, Plan, Purpose, Step};
use flipcast_tensor::ByteScale;
use std::sync::Arc;

/// The device memory of a network, and the host memory it exchanges with.
#[derive(Debug)]
pub(crate) struct Memory {
    pub arena: DeviceMemory,
    source_workspace: DeviceMemory,
    result_workspace: DeviceMemory,
    pub workspace: DeviceMemory,
    partials: DeviceMemory,
    merged: DeviceMemory,
    /// Where the batch lies, as `launch::preprocess` tells it, and the batch as layers read it.
    pub staged: DeviceMemory,
    pub input: DeviceMemory,
    pub affine: DeviceMemory,
    pub gradient: DeviceMemory,
    pub logits: DeviceMemory,
    pub logit_gradient: DeviceMemory,
    /// Winning taps of max pools, and slopes of joins, by value.
    pub choices: Vec<Option<DeviceMemory>>,
    pub masks: Vec<Option<DeviceMemory>>,
    pub host_staged: Pinned,
    /// Where batches lie that are sent from the host, once there was one.
    pub sent: Option<Sent>,
    /// The set that the batch was taken from, until its pass is queued.
    pub held: Option<Arc<ImageMemory>>,
    /// What bytes of another library stand for, once there were some.
    pub foreign_scale: Option<(Arc<ByteScale>, DeviceMemory)>,
    pub host_affine: Pinned,
    pub host_gradient: Pinned,
    pub host_logits: Pinned,
}

/// Images on the device: floats, or bytes with 256 values per channel that they stand for.
#[derive(Debug)]
pub(crate) struct ImageMemory {
    pub pixels: DeviceMemory,
    pub scale: Option<DeviceMemory>,
}

/// Memory for batches that are sent, on both sides, and the scale of the last one's bytes.
#[derive(Debug)]
pub(crate) struct Sent {
    pub host: Pinned,
    pub images: ImageMemory,
    pub of: Option<Arc<ByteScale>>,
}

impl Memory {
    pub fn workspaces(&self) -> Workspaces {
        Workspaces {
            source: self.source_workspace.slice(),
            result: self.result_workspace.slice(),
            workspace: self.workspace.slice(),
        }
    }

    pub fn partials(&self) -> DeviceSlice {
        self.partials.slice()
    }

    pub fn merged(&self) -> DeviceSlice {
        self.merged.slice()
    }
}

/// Allocates everything whose size is known before the weights are.
pub(crate) fn allocate(
    graph: &Graph,
    plan: &Plan,
    kernels: &Kernels,
    options: &CudaOptions,
    input: InputLayout,
) -> Result<Memory, CudaError> {
    let (device, element) = (&kernels.device, options.precision.element());
    let batch = options.batch;
    let classes = graph.num_classes();
    let longest = plan.values().iter().map(|value| value.dims.len()).max().unwrap_or(0);
    let workspace_len = batch * longest.max(input.len());
    let (mut partials, mut merged) = (0, 0);
    for value in plan.values() {
        let extent = value.dims.extent(batch);
        partials = partials.max(norm::partials_len(kernels, extent)).max(pointwise::partials_len(extent));
    }
    for slot in plan.norms() {
        let shape = layer_norm::LayerNormShape {
            tokens: batch * slot.dims.pixels(),
            channels: slot.layer.channels,
            eps: slot.layer.eps,
        };
        match slot.layer.kind {
            NormKind::Layer => partials = partials.max(layer_norm::partials_len(kernels, shape)),
            NormKind::Batch => {}
            _ => merged = merged.max(2 * batch * slot.layer.channels),
        }
    }
    check_fits(device, plan, options, workspace_len)?;
    let mut choices: Vec<Option<DeviceMemory>> = plan.values().iter().map(|_| None).collect();
    let mut masks: Vec<Option<DeviceMemory>> = plan.values().iter().map(|_| None).collect();
    for step in plan.forward() {
        match step {
            Step::MaxPool { target, .. } => {
                let len = batch * plan.value(*target).dims.len();
                choices[target.index()] = Some(device.allocate("a max pool", Element::U8, len)?);
            }
            Step::Join { activation, target, .. }
                if *activation != Activation::Identity && options.purpose == Purpose::Adapt =>
            {
                let len = norm::mask_len(plan.value(*target).dims.extent(batch));
                masks[target.index()] = Some(device.allocate("a join", Element::U8, len)?);
            }
            _ => {}
        }
    }
    let affine = graph.affine_table().len();
    let floats = |what, len| device.allocate(what, Element::F32, len);
    let staged = SOURCE_WORDS + batch;
    Ok(Memory {
        arena: device.allocate("activations", element, plan.arena_len())?,
        source_workspace: device.allocate("normalised values", element, workspace_len)?,
        result_workspace: floats("partial gradients", workspace_len)?,
        workspace: device.allocate("convolutions", Element::U8, crate::gemm::WORKSPACE)?,
        partials: floats("partial sums", partials)?,
        merged: floats("partial sums", merged)?,
        staged: device.allocate("the batch", Element::I32, staged)?,
        input: device.allocate("the batch", element, batch * input.len())?,
        affine: floats("scales and shifts", affine)?,
        gradient: floats("scales and shifts", affine)?,
        logits: floats("logits", batch * classes)?,
        logit_gradient: floats("logits", batch * classes)?,
        choices,
        masks,
        host_staged: Pinned::new(device, staged)?,
        sent: None,
        held: None,
        foreign_scale: None,
        host_affine: Pinned::new(device, affine)?,
        host_gradient: Pinned::new(device, affine)?,
        host_logits: Pinned::new(device, batch * classes)?,
    })
}

/// Says at once what is needed when it cannot fit, and which batch would.
fn check_fits(device: &Device, plan: &Plan, options: &CudaOptions, workspace_len: usize) -> Result<(), CudaError> {
    let bytes = options.precision.element().bytes();
    let scaling = bytes * plan.arena_len() + (bytes + 4) * workspace_len;
    let needed = scaling + crate::gemm::WORKSPACE;
    let (free, total) = device.memory()?;
    if needed <= free {
        return Ok(());
    }
    let per_image = scaling / options.batch.max(1) + 1;
    let batch = free.saturating_sub(2 * crate::gemm::WORKSPACE) / per_image;
    Err(CudaError::OutOfMemory { what: "the network", needed, free, total, batch: (batch > 0).then_some(batch) })
}
