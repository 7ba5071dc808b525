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

/// Which algorithms may be chosen. The choice depends on the shape alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Exactness {
    /// Also Winograd, whose rounding errors are about three times those of a direct sum.
    #[default]
    Fast,
    /// Only direct sums of products.
    Direct,
    /// Direct sums in double precision: many times slower, to tell rounding from mistakes.
    Double,
}
