//! Pointwise convolutions and their gradients past weights that stay in shared memory, on GPUs that multiply by warpgroups: see
//! `panel.cuh`.

use super::norm::{self, Tables, Term};
use super::norm_backward::{NormGradient, batch_finish};
use super::pointwise::Forward;
use super::{Call, Queue, Target, activation_code, expect_len};
use crate::device::DeviceSlice;
use crate::error::CudaError;
use crate::module::Arg;
use flipcast_graph::{ConvShape, Extent};

/// Compute capability of the GPUs that can.
pub(crate) const CAPABILITY: i32 = 90;
/// Bytes of a panel, channels of a group, bytes of a slice, and rows of a warp and of a tile, as in `panel.cuh`.
const PANEL: usize = 8192;
const SIDE: usize = 64;
const SLICE: usize = 128;
const DOWN: usize = 16;
const TILE: usize = 64;
/// Kinds of sums that a warp keeps per channel.
const FORWARD_KINDS: usize = 3;
const BACK_KINDS: usize = 2;
/// Columns of a block of `panel_pull`, and its blocks that scale.
const EDGE: usize = 16;
const SCALING: usize = 4;

/// How blocks share a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// Slices of a row that a lane keeps while channels pass by; `None` when it is the other way round.
    slices: Option<usize>,
    /// Channels of a block, its warps, and its bytes of shared memory.
    columns: usize,
    warps: usize,
    shared: usize,
}

impl Layout {
    /// For a convolution, if weights fit.
    pub fn forward(queue: &dyn Queue, ins: usize, outs: usize) -> Option<Self> {
        Self::widen(queue, ins, outs).or_else(|| Self::narrow(queue, [ins, 0], outs, FORWARD_KINDS))
    }

    /// For a convolution of images, if it reads lines of 64 bytes and its weights fit: stride 1 and no padding.
    pub fn patches(queue: &dyn Queue, shape: &ConvShape) -> Option<Self> {
        let plain = shape.stride == 1 && shape.padding == [0, 0] && shape.dilation == 1 && shape.groups == 1;
        let element = queue.precision().element().bytes();
        let line = shape.kernel[1] * shape.in_channels;
        let pieces = [line * element, shape.in_channels * element];
        let even = pieces[0].is_multiple_of(SLICE / 2) && pieces[1].is_multiple_of(16);
        let patch = shape.kernel[0] * line;
        let layout = Self::narrow(queue, [patch, 0], shape.out_channels, FORWARD_KINDS);
        layout.filter(|_| plain && even)
    }

    /// For the gradient of one from `few` channels to `wide`.
    pub fn back(queue: &dyn Queue, wide: usize, few: usize) -> Option<Self> {
        let layout = Self::narrow(queue, [wide, few], few, BACK_KINDS)?;
        (pull_shared(wide) <= queue.shared_bytes()).then_some(layout)
    }

    /// Two groups at a time, as many channels to a block as fit.
    fn widen(queue: &dyn Queue, ins: usize, outs: usize) -> Option<Self> {
        let bytes = ins * queue.precision().element().bytes();
        let (slices, groups) = (bytes / SLICE, 2 * SIDE);
        if !bytes.is_multiple_of(SLICE) || ![1, 2, 4].contains(&slices) {
            return None;
        }
        // Registers allow no more.
        let warps = if slices > 2 { 8 } else { 12 };
        let shares = 1..=outs / groups;
        let layouts = shares.filter(|share| outs.is_multiple_of(share * groups));
        let mut layouts = layouts.map(|share| {
            let columns = outs / share;
            let floats = warps * (DOWN * (groups + 16) + FORWARD_KINDS * columns) + 2 * ins;
            Self { slices: Some(slices), columns, warps, shared: columns / SIDE * slices * PANEL + 4 * floats }
        });
        layouts.find(|layout| layout.shared <= queue.shared_bytes())
    }

    /// One group to a block, as many warps as fit.
    fn narrow(queue: &dyn Queue, ins: [usize; 2], outs: usize, kinds: usize) -> Option<Self> {
        let [bytes, more] = ins.map(|ins| ins * queue.precision().element().bytes());
        let fits = bytes.is_multiple_of(2 * SLICE) && more.is_multiple_of(SLICE) && outs.is_multiple_of(SIDE);
        let normed = if more > 0 { ins[1] } else { ins[0] };
        let layouts = [16, 12, 8].map(|warps| Self {
            slices: None,
            columns: SIDE,
            warps,
            shared: (bytes + more) / SLICE * PANEL + 4 * (warps * (DOWN * (SIDE + 16) + kinds * SIDE) + 2 * normed),
        });
        let mut layouts = layouts.into_iter().filter(|_| fits);
        layouts.find(|layout| layout.shared <= queue.shared_bytes())
    }

    /// Blocks along channels and down the rows: one per multiprocessor.
    fn grid(&self, queue: &dyn Queue, rows: usize, outs: usize) -> [u32; 3] {
        let across = outs / self.columns;
        let tiles = rows.div_ceil(TILE * self.warps / 4);
        let down = (queue.multiprocessors() / across).clamp(1, tiles.max(1));
        [across as u32, down as u32, 1]
    }

    fn block(&self) -> [u32; 3] {
        [32 * self.warps as u32, 1, 1]
    }
}

/// Puts the weights of a convolution, `[out][in]`, into the order of the kernels.
pub(crate) fn pack(
    queue: &dyn Queue,
    weights: DeviceSlice,
    packed: DeviceSlice,
    [ins, outs]: [usize; 2],
) -> Result<(), CudaError> {
    Call::new(queue, "panel_pack")
        .slice("the weights", weights, ins * outs)
        .slice("the packed weights", packed, ins * outs)
        .counts([ins, outs])
        .launch([(ins * outs).div_ceil(256) as u32, 1, 1], [256, 1, 1], 0)
}

/// Runs a pointwise convolution whose weights are packed, and makes the tables of the norm on top of it.
pub(crate) fn forward(
    queue: &dyn Queue,
    layout: Layout,
    of: Forward,
    running: [DeviceSlice; 2],
    mixture: (f32, bool),
) -> Result<(), CudaError> {
    let from = of.source;
    let normed = if from.tables.is_some() { "normed" } else { "stored" };
    let name = match layout.slices {
        Some(slices) => format!("widen_{normed}_{slices}"),
        None => format!("narrow_{normed}"),
    };
    let extent = of.statistics.extent;
    let rows = extent.images * extent.pixels;
    expect_len("panel_forward", "the input", from.values, rows * of.ins)?;
    let more = [Arg::optional(from.tables.map(|tables| tables.slice)), Arg::I32(activation_code(from.activation))];
    let columns = [Arg::count(layout.columns)];
    run(queue, layout, &name, of, [&more, &columns], running, mixture)
}

/// The same for a convolution of images. `of.ins` counts the elements of a patch.
pub(crate) fn patches(
    queue: &dyn Queue,
    layout: Layout,
    shape: &ConvShape,
    of: Forward,
    running: [DeviceSlice; 2],
    mixture: (f32, bool),
) -> Result<(), CudaError> {
    let [height, width] = shape.input;
    let (line, channels) = (width * shape.in_channels, shape.in_channels);
    let images = of.statistics.extent.images;
    let values = of.source.values;
    expect_len("narrow_patches", "the images", values, images * height * line)?;
    let pack = SLICE / 2 / queue.precision().element().bytes();
    let more = [
        shape.output[0] * shape.output[1],
        shape.output[1],
        height * line,
        line,
        channels,
        shape.kernel[1] * channels / pack,
    ];
    let more = more.map(Arg::count);
    run(queue, layout, "narrow_patches", of, [&[], &more], running, mixture)
}

/// Queues a kernel that has its own arguments after the values and at the end.
fn run(
    queue: &dyn Queue,
    layout: Layout,
    name: &str,
    of: Forward,
    [after_values, at_end]: [&[Arg]; 2],
    running: [DeviceSlice; 2],
    mixture: (f32, bool),
) -> Result<(), CudaError> {
    let extent = of.statistics.extent;
    let (rows, outs) = (extent.images * extent.pixels, extent.channels);
    let grid = layout.grid(queue, rows, outs);
    let parts = grid[1] as usize;
    let sums = 2 * parts * outs;
    let workspace = of.statistics.workspace;
    expect_len("panel_forward", "the sums", workspace, sums + parts)?;
    let places = [workspace.first(sums), workspace.part(sums..sums + parts)];
    Call::new(queue, "panel_forward")
        .slices([of.source.values])
        .args(after_values)
        .slice("the weights", of.weights, outs * of.ins)
        .slice("the result", of.out, rows * outs)
        .slices(places)
        .counts([rows, of.ins, outs])
        .args(at_end)
        .launch_variant(name, grid, layout.block(), layout.shared)?;
    norm::batch_finish(queue, of.statistics, running, mixture, (places, parts))
}

/// A gradient on its way through a norm and the pointwise convolution below it, from many channels to few.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Back {
    /// Of what the convolution read.
    pub extent: Extent,
    pub source: Term,
    /// Of the result of the convolution, with the tables of its norm.
    pub gradient: DeviceSlice,
    pub above: Tables,
    /// Of the convolution, `[out][in]`.
    pub weights: DeviceSlice,
    /// Memory for what [`packed_len`] says, and for a float per channel.
    pub packed: DeviceSlice,
    pub constant: DeviceSlice,
    pub to: Target,
    /// The norm of the source, if the result is the whole gradient of it.
    pub below: Option<NormGradient>,
    pub workspace: DeviceSlice,
}

/// Elements of the weights that [`back`] makes.
pub(crate) fn packed_len(wide: usize, few: usize) -> usize {
    (wide + few) * few
}

/// Carries a gradient back.
pub(crate) fn back(queue: &dyn Queue, layout: Layout, of: Back) -> Result<(), CudaError> {
    let (rows, few) = (of.extent.images * of.extent.pixels, of.extent.channels);
    let wide = of.above.len;
    let grid = layout.grid(queue, rows, few);
    let parts = grid[1] as usize;
    let edges = few / EDGE;
    Call::new(queue, "panel_pull")
        .slice("the weights", of.weights, wide * few)
        .slices([of.above.slice])
        .slice("the packed weights", of.packed, packed_len(wide, few))
        .slice("the constants", of.constant, few)
        .counts([wide, few])
        .launch([edges as u32, (edges + SCALING) as u32, 1], [(EDGE * EDGE) as u32, 1, 1], pull_shared(wide))?;
    let kernel = match (of.below, of.source.tables) {
        (Some(_), _) => "narrow_back_sums",
        (None, Some(_)) => "narrow_back_normed",
        (None, None) => "narrow_back_stored",
    };
    Call::new(queue, kernel)
        .slice("the gradient", of.gradient, rows * wide)
        .slice("the input", of.source.values, rows * few)
        .args(&[Arg::optional(of.source.tables.map(|tables| tables.slice))])
        .activation(of.source.activation)
        .slices([of.packed, of.constant])
        .slice("the result", of.to.slice, rows * few)
        .flag(of.to.accumulate)
        .slice("the sums", of.workspace, BACK_KINDS * parts * few)
        .counts([rows, wide, few])
        .launch(grid, layout.block(), layout.shared)?;
    match of.below {
        Some(norm) => {
            let len = parts * few;
            let places = [of.workspace.first(len), of.workspace.part(len..2 * len)];
            batch_finish(queue, norm, places, parts)
        }
        None => Ok(()),
    }
}

/// Two blocks of columns of the weights.
fn pull_shared(wide: usize) -> usize {
    4 * 2 * EDGE * wide
}
