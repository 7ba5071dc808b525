//! Self-attention.

use super::{Call, Queue, Target, expect_len, wide};
use crate::device::DeviceSlice;
use crate::error::CudaError;
use crate::module::Arg;
use crate::precision::Precision;
use flipcast_graph::{Attention, Dims};

/// Widest head of the kernels without tensor cores.
const WIDEST_HEAD: usize = 128;
/// Tokens of a block there.
const BLOCK: usize = 32;
/// Tokens of a warp on tensor cores, and most warps of a block.
const TILE: usize = 16;
const WARPS: usize = 4;

/// What a layer's settings and weights come to for an input of some extents.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AttentionTables {
    /// Tokens of an image group after group; none if there is one group of all of them in order.
    pub order: Option<Vec<i32>>,
    /// `[head][query][key]` of a group.
    pub bias: Option<Vec<f32>>,
    /// The region of every entry of the order.
    pub regions: Option<Vec<u8>>,
    /// Tokens per image and per group.
    pub tokens: usize,
    pub group: usize,
}

impl AttentionTables {
    /// The tables for an input of `dims`, or `None` when windows do not tile it. `table` holds the learned bias.
    pub fn new(attention: &Attention, dims: Dims, table: &[f32]) -> Option<Self> {
        let groups = attention.groups(dims)?;
        let order = || groups.tokens.iter().map(|&token| token.cast_signed()).collect();
        Some(Self {
            order: attention.window().map(|_| order()),
            bias: attention.spread_bias(table),
            regions: groups.regions.clone(),
            tokens: dims.pixels(),
            group: groups.size,
        })
    }
}

/// A layer whose tables are on the device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AttentionLayer {
    pub order: Option<DeviceSlice>,
    pub bias: Option<DeviceSlice>,
    pub regions: Option<DeviceSlice>,
    pub tokens: usize,
    pub group: usize,
    pub heads: usize,
    pub head_channels: usize,
    pub scale: f32,
}

/// What the forward pass leaves for the backward pass.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeptAttention {
    /// The result, as many elements as it has: its own place may be needed for something else by then.
    pub output: DeviceSlice,
    /// [`AttentionLayer::rows`] floats.
    pub log_sums: DeviceSlice,
}

/// What [`AttentionLayer::backward`] reads and writes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AttentionGradient {
    /// Queries, keys and values.
    pub values: DeviceSlice,
    pub kept: KeptAttention,
    /// Gradient of the result.
    pub gradient: DeviceSlice,
    /// [`AttentionLayer::rows`] floats of scratch.
    pub pulls: DeviceSlice,
    /// Gradient of queries, keys and values.
    pub target: Target,
}

impl AttentionLayer {
    /// Softmaxes over all images: one per token and head.
    pub fn rows(&self, images: usize) -> usize {
        images * self.tokens * self.heads
    }

    /// Elements of the result.
    pub fn len(&self, images: usize) -> usize {
        self.rows(images) * self.head_channels
    }

    /// `out = softmax(scale * q k' + bias + mask) v`.
    pub fn forward(
        &self,
        queue: &dyn Queue,
        images: usize,
        values: DeviceSlice,
        out: DeviceSlice,
        kept: Option<KeptAttention>,
    ) -> Result<(), CudaError> {
        self.check(images, values)?;
        let (mut output, mut log_sums) = (None, None);
        if let Some(kept) = kept {
            self.check_kept(images, kept)?;
            (output, log_sums) = (Some(kept.output), Some(kept.log_sums));
        }
        let call = Call::new(queue, "attention_forward")
            .slices([values])
            .args(&self.tables())
            .slice("the result", out, self.len(images))
            .args(&[output, log_sums].map(Arg::optional))
            .args(&self.extents());
        let places = [Some(values), Some(out), output];
        let tensor = self.shared_tensor(queue, &places);
        // Queries, keys and values of a block.
        let plain = 4 * BLOCK * (3 * self.head_channels + 2);
        self.launch(call, images, "attention_forward", tensor, plain)
    }

    /// The gradient of queries, keys and values.
    pub fn backward(&self, queue: &dyn Queue, images: usize, of: AttentionGradient) -> Result<(), CudaError> {
        self.check(images, of.values)?;
        self.check_kept(images, of.kept)?;
        let all = [of.values, of.kept.output, of.gradient, of.target.slice].map(Some);
        let tensor = self.shared_tensor(queue, &all);
        let plain = 4 * BLOCK * (4 * self.head_channels + 2);
        // The gradients of keys and values need no result.
        let output = [Arg::Slice(of.kept.output)];
        for (kernel, output) in [("attention_backward_queries", output.as_slice()), ("attention_backward_keys", &[])] {
            let call = Call::new(queue, kernel)
                .slices([of.values])
                .args(&self.tables())
                .args(output)
                .slice("the gradient", of.gradient, self.len(images))
                .slices([of.kept.log_sums])
                .slice("the scratch", of.pulls, self.rows(images))
                .slice("the result", of.target.slice, 3 * self.len(images))
                .args(&self.extents())
                .flag(of.target.accumulate);
            self.launch(call, images, kernel, tensor, plain)?;
        }
        Ok(())
    }

    fn check(&self, images: usize, values: DeviceSlice) -> Result<(), CudaError> {
        let refuse = |what, found, expected: String| CudaError::Argument { kernel: "attention", what, found, expected };
        if self.head_channels == 0 || self.head_channels > WIDEST_HEAD {
            let expected = format!("from 1 to {WIDEST_HEAD}");
            return Err(refuse("the width of a head", self.head_channels, expected));
        }
        if self.group == 0 || !self.tokens.is_multiple_of(self.group) {
            let expected = format!("a divisor of {} tokens", self.tokens);
            return Err(refuse("the size of a group", self.group, expected));
        }
        for table in [self.order, self.regions].into_iter().flatten() {
            expect_len("attention", "a table", table, self.tokens)?;
        }
        if let Some(bias) = self.bias {
            let len = self.heads * self.group * self.group;
            expect_len("attention", "the bias", bias, len)?;
        }
        expect_len("attention", "the input", values, 3 * self.len(images))
    }

    fn check_kept(&self, images: usize, kept: KeptAttention) -> Result<(), CudaError> {
        expect_len("attention", "the kept result", kept.output, self.len(images))?;
        expect_len("attention", "the kept sums", kept.log_sums, self.rows(images))
    }

    fn tables(&self) -> [Arg; 3] {
        [self.order, self.bias, self.regions].map(Arg::optional)
    }

    fn extents(&self) -> [Arg; 6] {
        [
            Arg::count(self.tokens),
            Arg::count(self.group),
            Arg::count(self.tokens / self.group),
            Arg::count(self.heads),
            Arg::count(self.head_channels),
            Arg::F32(self.scale),
        ]
    }

    /// Bytes of shared memory on tensor cores, or `None` when they cannot be used.
    fn shared_tensor(&self, queue: &dyn Queue, places: &[Option<DeviceSlice>]) -> Option<usize> {
        let precision = queue.precision();
        let places: Vec<DeviceSlice> = places.iter().copied().flatten().collect();
        let rows = self.group.next_multiple_of(TILE);
        let bytes = 2 * rows * (self.head_channels * precision.element().bytes() + 16) + 8 * rows;
        let fits = precision != Precision::F32
            && self.scale > 0.0
            && (self.regions.is_none() || self.bias.is_some())
            && matches!(self.head_channels, 32 | 64)
            && wide(precision, self.head_channels, &places)
            && bytes <= queue.shared_bytes();
        fits.then_some(bytes)
    }

    fn launch(
        &self,
        call: Call<'_>,
        images: usize,
        name: &str,
        tensor: Option<usize>,
        plain: usize,
    ) -> Result<(), CudaError> {
        let units = (images * self.tokens / self.group * self.heads) as u32;
        match tensor {
            Some(shared) => {
                let tiles = self.group.div_ceil(TILE);
                let warps = tiles.min(WARPS) as u32;
                let name = format!("{name}_tensor_{}", self.head_channels);
                call.launch_variant(&name, [units, 1, 1], [32 * warps, 1, 1], shared)
            }
            None => {
                let grid = [units, self.group.div_ceil(BLOCK) as u32, 1];
                call.launch(grid, [256, 1, 1], plain)
            }
        }
    }
}
