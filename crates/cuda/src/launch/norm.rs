//! Batch and group norms, and joins of what they normalise.

use super::rows::RowGrid;
use super::{Call, Queue, activation_code, expect_len};
use crate::device::DeviceSlice;
use crate::error::CudaError;
use crate::module::Arg;
use flipcast_graph::Activation;
use flipcast_graph::Extent;

/// Blocks per multiprocessor: as many as fit at once for a reduction, many for an element-wise pass.
const STATISTICS_WAVES: usize = 4;
pub(super) const PASS_WAVES: usize = 16;
/// Channels and slices of a block that merges what others left, as in `rows.cuh`.
pub(super) const MERGED: usize = 8;
pub(super) const SLICES: u32 = 128;
/// Rows of a norm's tables, in the order of `norm.cu`.
const TABLES: usize = 9;
const CENTRE: usize = 0;
const VARIANCE: usize = 1;
const SCALE: usize = 3;
const SHIFT: usize = 4;

/// The tables of one norm: nine rows of `len` floats.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tables {
    pub slice: DeviceSlice,
    pub len: usize,
    /// Whether every image has its own.
    pub per_image: bool,
}

impl Tables {
    /// Floats for tables of `len` entries.
    pub fn floats(len: usize) -> usize {
        TABLES * len
    }

    fn row(&self, which: usize) -> DeviceSlice {
        self.slice.part(which * self.len..(which + 1) * self.len)
    }

    /// The means that were used.
    pub fn centre(&self) -> DeviceSlice {
        self.row(CENTRE)
    }

    /// The variances that were used.
    pub fn variance(&self) -> DeviceSlice {
        self.row(VARIANCE)
    }

    pub(super) fn pixels(tables: Option<Self>, pixels: usize) -> Arg {
        match tables {
            Some(tables) if tables.per_image => Arg::count(pixels),
            _ => Arg::I32(0),
        }
    }
}

/// A stored value, or `activation(norm(stored value))`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Term {
    pub values: DeviceSlice,
    pub tables: Option<Tables>,
    pub activation: Activation,
}

impl Term {
    /// A stored value.
    pub fn plain(values: DeviceSlice) -> Self {
        Self { values, tables: None, activation: Activation::Identity }
    }

    /// Whether it is what is stored.
    pub fn is_plain(&self) -> bool {
        self.tables.is_none() && self.activation == Activation::Identity
    }

    /// The five arguments of a kernel's source.
    pub fn args(&self, pixels: usize) -> [Arg; 5] {
        [
            Arg::Slice(self.values),
            Arg::optional(self.tables.map(|tables| tables.row(SCALE))),
            Arg::optional(self.tables.map(|tables| tables.row(SHIFT))),
            Arg::I32(activation_code(self.activation)),
            Tables::pixels(self.tables, pixels),
        ]
    }
}

/// `out = activation(sum of terms)`; `mask` notes where the slope is one.
pub(crate) fn join(
    queue: &dyn Queue,
    extent: Extent,
    terms: &[Term],
    activation: Activation,
    out: DeviceSlice,
    mask: Option<DeviceSlice>,
) -> Result<(), CudaError> {
    let mut slices = vec![out];
    slices.extend(terms.iter().map(|term| term.values));
    let rows = extent.images * extent.pixels;
    let grid = RowGrid::new(queue, [1, rows, extent.channels], PASS_WAVES, &slices);
    let absent = [Arg::Null, Arg::Null, Arg::Null, Arg::I32(0), Arg::I32(0)];
    let of = |at: usize| terms.get(at).map_or(absent, |term| term.args(extent.pixels));
    let call =
        terms.iter().fold(Call::new(queue, "join"), |call, term| call.expect("a term", term.values, extent.len()));
    call.args(&of(0))
        .args(&of(1))
        .activation(activation)
        .slice("the result", out, extent.len())
        .args(&[Arg::optional(mask)])
        .counts([rows, extent.channels])
        .launch_rows(&grid, 0)
}

/// Bytes of a join's mask.
pub(crate) fn mask_len(extent: Extent) -> usize {
    // A bit per value where threads take eight channels, else a byte.
    if extent.channels.is_multiple_of(8) { extent.len() / 8 } else { extent.len() }
}

/// Floats of partial sums that a reduction over `extent` may leave.
pub(crate) fn partials_len(queue: &dyn Queue, extent: Extent) -> usize {
    let blocks = STATISTICS_WAVES * queue.multiprocessors() + extent.images;
    3 * blocks * extent.channels + blocks
}

/// Where a reduction leaves its partial results.
pub(super) fn partials(
    name: &'static str,
    workspace: DeviceSlice,
    grid: &RowGrid,
    channels: usize,
    kinds: usize,
) -> Result<[DeviceSlice; 2], CudaError> {
    let slots = grid.parts() * grid.grid[2] as usize;
    let sums = kinds * channels * slots;
    expect_len(name, "the partial sums", workspace, sums + slots)?;
    Ok([workspace.first(sums), workspace.part(sums..sums + slots)])
}

/// What makes a norm's tables.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Statistics {
    pub extent: Extent,
    /// What is normalised; `None` when only running statistics count.
    pub values: Option<DeviceSlice>,
    pub workspace: DeviceSlice,
    /// Scale and shift.
    pub affine: [DeviceSlice; 2],
    pub eps: f32,
    pub tables: Tables,
}

/// Tables of a batch norm. Of the statistics, `source_weight` are the running ones, mean and variance.
pub(crate) fn batch_tables(
    queue: &dyn Queue,
    of: Statistics,
    running: [DeviceSlice; 2],
    source_weight: f32,
    unbiased: bool,
) -> Result<(), CudaError> {
    let channels = of.extent.channels;
    let (mut parts, mut places) = (0, [of.workspace.first(0); 2]);
    if let Some(values) = of.values {
        let grid = gather(queue, of, values, 1)?;
        parts = grid.parts();
        places = partials("statistics", of.workspace, &grid, channels, 2)?;
    }
    batch_finish(queue, of, running, (source_weight, unbiased), (places, parts))
}

/// The same from what so many blocks gathered: means, then sums of squared distances from them, and counts.
pub(super) fn batch_finish(
    queue: &dyn Queue,
    of: Statistics,
    running: [DeviceSlice; 2],
    (source_weight, unbiased): (f32, bool),
    (places, parts): ([DeviceSlice; 2], usize),
) -> Result<(), CudaError> {
    let channels = of.extent.channels;
    Call::new(queue, "batch_tables")
        .slices(places)
        .counts([parts])
        .slices(running)
        .slices(of.affine)
        .floats([of.eps, source_weight])
        .flag(unbiased)
        .slices([of.tables.slice])
        .counts([channels])
        .launch([channels.div_ceil(MERGED) as u32, 1, 1], [MERGED as u32, SLICES, 1], 0)
}

/// Tables of a group norm.
pub(crate) fn group_tables(queue: &dyn Queue, of: Statistics, groups: usize) -> Result<(), CudaError> {
    let Extent { images, channels, .. } = of.extent;
    let Some(values) = of.values else {
        return Ok(());
    };
    let grid = gather(queue, of, values, images)?;
    let places = partials("statistics", of.workspace, &grid, channels, 2)?;
    Call::new(queue, "group_tables")
        .slices(places)
        .counts([grid.parts()])
        .slices(of.affine)
        .floats([of.eps])
        .slices([of.tables.slice])
        .counts([of.tables.len, channels])
        .launch([images as u32, groups as u32, 1], [128, 1, 1], 0)
}

fn gather(queue: &dyn Queue, of: Statistics, values: DeviceSlice, images: usize) -> Result<RowGrid, CudaError> {
    let extent = of.extent;
    let rows = extent.images * extent.pixels / images;
    let grid = RowGrid::reducing(queue, [images, rows, extent.channels], STATISTICS_WAVES, &[values]);
    let places = partials("statistics", of.workspace, &grid, extent.channels, 2)?;
    Call::new(queue, "statistics")
        .slice("the input", values, extent.len())
        .slices(places)
        .counts([rows, extent.channels])
        .launch_rows(&grid, grid.shared(2))?;
    Ok(grid)
}
