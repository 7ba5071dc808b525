use crate::{Activation, Arrangement, Attention, ChannelRun, Dims};

/// What a node computes. Names of parameters derive from the node's name, as in PyTorch: `<node>.weight`.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// The batch of images.
    Input {
        /// Channels per pixel.
        channels: usize,
    },
    /// Two-dimensional convolution.
    Conv2d(Conv2d),
    /// Batch, group or layer norm: the layers whose scale and shift adapt.
    Norm(NormLayer),
    /// An element-wise function.
    Activation(Activation),
    /// Largest value of each window; padding never wins.
    MaxPool(Pool),
    /// Mean of each window.
    AvgPool(Pool),
    /// Mean over all pixels, leaving one.
    GlobalAvgPool,
    /// Sum of two values of the same extents.
    Add,
    /// Product of a value and a gate, which may have one pixel and is then repeated over all.
    Mul,
    /// Fully connected layer on every pixel.
    Linear {
        /// Inputs.
        inputs: usize,
        /// Outputs.
        outputs: usize,
    },
    /// Fully connected layer on every pixel, without a bias.
    Projection {
        /// Inputs.
        inputs: usize,
        /// Outputs.
        outputs: usize,
    },
    /// Multi-head self-attention, projections excluded.
    Attention(Attention),
    /// Tokens moved, left out or put in.
    Arrange(Arrangement),
    /// Channels picked from values of the same rows and columns, one run after the other: concatenating, splitting and shuffling.
    /// No channel of an input is picked twice.
    PickChannels(Vec<ChannelRun>),
    /// Sum with a learned value per token and channel, the node's only parameter, which has the node's name.
    AddPosition {
        /// Tokens of an image.
        tokens: usize,
    },
    /// Product with a learned factor per channel, the node's only parameter, which has the node's name.
    Scale,
    /// All values of an image in PyTorch's order (channel, row, column) as the channels of one pixel.
    Flatten,
    /// Pixels and channels exchanged: every channel becomes a pixel, and every pixel a channel.
    Transpose {
        /// Pixels of the input.
        pixels: usize,
        /// Rows of the result, a divisor of the channels of the input.
        rows: usize,
    },
    /// Shortcut type A of CIFAR ResNets: every `stride`-th pixel, channels padded with zeros on both sides.
    ShortcutA {
        /// Step between kept pixels.
        stride: usize,
        /// Channels of the result; the surplus is split evenly, the smaller half in front.
        channels: usize,
    },
}

/// A convolution's settings. Weights are `[out, in / groups, kernel, kernel]`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Conv2d {
    /// Channels of the input.
    pub in_channels: usize,
    /// Channels of the output.
    pub out_channels: usize,
    /// Rows and columns of the filter.
    pub kernel: [usize; 2],
    /// Step between outputs.
    pub stride: usize,
    /// Zeros around the input.
    pub padding: Padding,
    /// Distance between filter taps.
    pub dilation: usize,
    /// Independent groups of channels; `in_channels` of them make it depthwise.
    pub groups: usize,
    /// Whether a bias per output channel is added.
    pub bias: bool,
}

impl Conv2d {
    /// A square convolution without bias: stride 1, no padding, one group.
    pub fn new(in_channels: usize, out_channels: usize, kernel: usize) -> Self {
        Self {
            in_channels,
            out_channels,
            kernel: [kernel, kernel],
            stride: 1,
            padding: Padding::same_on_all_sides(0),
            dilation: 1,
            groups: 1,
            bias: false,
        }
    }

    /// Sets the stride.
    pub fn stride(mut self, stride: usize) -> Self {
        self.stride = stride;
        self
    }

    /// Pads all four sides by `pixels`.
    pub fn padding(mut self, pixels: usize) -> Self {
        self.padding = Padding::same_on_all_sides(pixels);
        self
    }

    /// Pads as TensorFlow's SAME rule.
    pub fn pad_same(mut self) -> Self {
        self.padding = Padding::Same;
        self
    }

    /// Sets the distance between filter taps.
    pub fn dilation(mut self, dilation: usize) -> Self {
        self.dilation = dilation;
        self
    }

    /// Splits the channels into `groups`.
    pub fn groups(mut self, groups: usize) -> Self {
        self.groups = groups;
        self
    }

    /// Adds a bias.
    pub fn with_bias(mut self) -> Self {
        self.bias = true;
        self
    }

    /// Rows above and columns left of an input of `dims` that count as zeros, and the output's extents.
    /// `None` when the filter does not fit.
    pub fn resolve(&self, dims: Dims) -> Option<([usize; 2], Dims)> {
        let (top, height) =
            self.padding.resolve(Window::new(self.kernel[0], self.stride, self.dilation), dims.height, 0)?;
        let (left, width) =
            self.padding.resolve(Window::new(self.kernel[1], self.stride, self.dilation), dims.width, 1)?;
        Some(([top, left], Dims::new(height, width, self.out_channels)))
    }
}

/// Zeros around an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Padding {
    /// Pixels before and after, for rows and for columns.
    Explicit {
        /// Rows above and below.
        rows: [usize; 2],
        /// Columns left and right.
        columns: [usize; 2],
    },
    /// TensorFlow's SAME: `ceil(size / stride)` outputs, surplus padding after the image.
    Same,
}

/// A filter along one axis.
#[derive(Clone, Copy)]
struct Window {
    reach: usize,
    stride: usize,
}

impl Window {
    fn new(kernel: usize, stride: usize, dilation: usize) -> Self {
        let reach = (kernel.max(1) - 1) * dilation + 1;
        Self { reach, stride }
    }
}

impl Padding {
    /// `pixels` zeros on every side.
    pub fn same_on_all_sides(pixels: usize) -> Self {
        Self::Explicit { rows: [pixels; 2], columns: [pixels; 2] }
    }

    /// Zeros before an axis of `size`, and the number of outputs along it.
    fn resolve(self, window: Window, size: usize, axis: usize) -> Option<(usize, usize)> {
        let Window { reach, stride } = window;
        match self {
            Self::Explicit { rows, columns } => {
                let [before, after] = if axis == 0 { rows } else { columns };
                let surplus = (size + before + after).checked_sub(reach)?;
                Some((before, surplus / stride + 1))
            }
            Self::Same => {
                let outputs = size.div_ceil(stride);
                let total = ((outputs.checked_sub(1)?) * stride + reach).saturating_sub(size);
                Some((total / 2, outputs))
            }
        }
    }
}

/// A pooling window. Average pooling counts padded zeros, as PyTorch does by default.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pool {
    /// Side of the window.
    pub kernel: usize,
    /// Step between windows.
    pub stride: usize,
    /// Padding on every side.
    pub padding: usize,
    /// Whether a last window that reaches beyond the padding counts too, as with PyTorch's `ceil_mode`; max pools alone.
    pub ceil: bool,
}

impl Pool {
    /// A window that stays within its padding.
    pub fn new(kernel: usize, stride: usize, padding: usize) -> Self {
        Self { kernel, stride, padding, ceil: false }
    }

    /// Extents after pooling `dims`, or `None` when the window does not fit.
    pub fn resolve(self, dims: Dims) -> Option<Dims> {
        let along = |size: usize| {
            let moves = (size + 2 * self.padding).checked_sub(self.kernel)?;
            let surplus = self.ceil && !moves.is_multiple_of(self.stride);
            let outputs = moves / self.stride + 1;
            // A window must start on the image or on the padding before it.
            Some(outputs + usize::from(surplus && outputs * self.stride < size + self.padding))
        };
        Some(Dims::new(along(dims.height)?, along(dims.width)?, dims.channels))
    }
}

/// Which values share a mean and a variance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NormKind {
    /// All pixels of the batch, per channel; also has running statistics.
    Batch,
    /// All pixels of an image and a group of channels.
    Group {
        /// Number of groups.
        groups: usize,
    },
    /// The channels of one pixel.
    Layer,
}

/// A normalisation layer with scale (`weight`) and shift (`bias`) per channel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NormLayer {
    /// What is averaged over.
    pub kind: NormKind,
    /// Channels.
    pub channels: usize,
    /// Added to the variance.
    pub eps: f32,
}
