//! Extents of layers in a plan, as the kernels of every executor take them.

use crate::{Dims, Graph, NodeId, Op, Plan, Pool, ValueId};

/// Extents of a tensor in a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Images.
    pub images: usize,
    /// Pixels per image.
    pub pixels: usize,
    /// Channels per pixel.
    pub channels: usize,
}

impl Extent {
    /// Values in the whole batch.
    #[inline]
    pub fn len(self) -> usize {
        self.images * self.pixels * self.channels
    }

    /// Whether there are none.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }
}

impl Dims {
    /// The extents of a batch of `images` values of these dimensions.
    pub fn extent(self, images: usize) -> Extent {
        Extent { images, pixels: self.pixels(), channels: self.channels }
    }
}

/// Extents and settings of a convolution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ConvShape {
    /// Rows and columns of the input.
    pub input: [usize; 2],
    /// Channels of the input.
    pub in_channels: usize,
    /// Rows and columns of the output.
    pub output: [usize; 2],
    /// Channels of the output.
    pub out_channels: usize,
    /// Rows and columns of the filter.
    pub kernel: [usize; 2],
    /// Step between outputs.
    pub stride: usize,
    /// Zeros above and left of the input.
    pub padding: [usize; 2],
    /// Distance between filter taps.
    pub dilation: usize,
    /// Groups of channels.
    pub groups: usize,
}

/// A convolution or linear layer and the parameters it takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConvSpec {
    /// Its extents; a linear layer is a convolution of one tap.
    pub shape: ConvShape,
    /// Extents of its weight tensor.
    pub weight_extents: Vec<usize>,
    /// Whether it adds a bias per output channel.
    pub has_bias: bool,
}

/// Extents of a pooling layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolShape {
    /// Rows and columns of the input.
    pub input: [usize; 2],
    /// Rows and columns of the output.
    pub output: [usize; 2],
    /// Channels.
    pub channels: usize,
    /// Side of the window; at most 15, so that a tap fits a byte.
    pub kernel: usize,
    /// Step between windows.
    pub stride: usize,
    /// Padding on every side.
    pub padding: usize,
}

impl PoolShape {
    /// Values of one image before pooling.
    #[inline]
    pub fn in_len(&self) -> usize {
        self.input[0] * self.input[1] * self.channels
    }

    /// Values of one image after pooling.
    #[inline]
    pub fn out_len(&self) -> usize {
        self.output[0] * self.output[1] * self.channels
    }

    /// Positions along an axis of the taps of output `at` that lie inside the image: first tap, first position, count.
    #[inline]
    pub fn taps(&self, at: usize, axis: usize) -> (usize, usize, usize) {
        let start = (at * self.stride) as isize - self.padding as isize;
        let skip = (-start).max(0) as usize;
        let first = start.max(0) as usize;
        let end = (start + self.kernel as isize).clamp(0, self.input[axis] as isize) as usize;
        (skip, first, end.saturating_sub(first))
    }
}

/// Extents of a strided shortcut, which keeps every `stride`-th pixel and puts zero channels around.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShortcutShape {
    /// Rows and columns of the input.
    pub input: [usize; 2],
    /// Rows and columns of the output.
    pub output: [usize; 2],
    /// Channels of the input and of the output.
    pub channels: [usize; 2],
    /// Step between kept pixels.
    pub stride: usize,
}

impl ShortcutShape {
    /// Values of one image before and after.
    #[inline]
    pub fn lens(&self) -> [usize; 2] {
        [self.input[0] * self.input[1] * self.channels[0], self.output[0] * self.output[1] * self.channels[1]]
    }

    /// Starts of a kept pixel's channels in the input and in the output, of one image.
    #[inline]
    pub fn pairs(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        let front = (self.channels[1] - self.channels[0]) / 2;
        (0..self.output[0]).flat_map(move |y| {
            (0..self.output[1]).map(move |x| {
                let from = (y * self.stride * self.input[1] + x * self.stride) * self.channels[0];
                (from, (y * self.output[1] + x) * self.channels[1] + front)
            })
        })
    }
}

impl Plan {
    /// The convolution or linear layer `node`, which reads `source` and writes `target`.
    ///
    /// # Panics
    /// If the plan belongs to another graph.
    pub fn conv_spec(&self, graph: &Graph, node: NodeId, source: ValueId, target: ValueId) -> ConvSpec {
        let (input, output) = (self.value(source).dims, self.value(target).dims);
        let mut shape = ConvShape {
            input: [input.height, input.width],
            in_channels: input.channels,
            output: [output.height, output.width],
            out_channels: output.channels,
            kernel: [1, 1],
            stride: 1,
            padding: [0, 0],
            dilation: 1,
            groups: 1,
        };
        let mut weight_extents = vec![output.channels, input.channels];
        let op = &graph.node(node).op;
        let Op::Conv2d(conv) = op else {
            return ConvSpec { shape, weight_extents, has_bias: matches!(op, Op::Linear { .. }) };
        };
        let (padding, _) = conv.resolve(input).expect("the plan inferred its dimensions from this");
        shape.kernel = conv.kernel;
        shape.stride = conv.stride;
        shape.padding = padding;
        shape.dilation = conv.dilation;
        shape.groups = conv.groups;
        weight_extents[1] /= conv.groups;
        weight_extents.extend(conv.kernel);
        ConvSpec { shape, weight_extents, has_bias: conv.bias }
    }

    /// The extents of a pooling layer from `source` to `target`.
    pub fn pool_shape(&self, pool: Pool, source: ValueId, target: ValueId) -> PoolShape {
        let (input, output) = (self.value(source).dims, self.value(target).dims);
        PoolShape {
            input: [input.height, input.width],
            output: [output.height, output.width],
            channels: input.channels,
            kernel: pool.kernel,
            stride: pool.stride,
            padding: pool.padding,
        }
    }

    /// The extents of a strided shortcut from `source` to `target`.
    pub fn shortcut_shape(&self, source: ValueId, target: ValueId, stride: usize) -> ShortcutShape {
        let (input, output) = (self.value(source).dims, self.value(target).dims);
        ShortcutShape {
            input: [input.height, input.width],
            output: [output.height, output.width],
            channels: [input.channels, output.channels],
            stride,
        }
    }
}
