use super::Size;

/// Why preprocessing was refused.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum PreprocessError {
    /// A side of an output size is out of range.
    #[error("`{field}` is {found} pixels, but 1 to {most} are allowed")]
    SideOutOfRange {
        /// The setting.
        field: &'static str,
        /// What it was set to.
        found: usize,
        /// The largest value allowed.
        most: usize,
    },
    /// A standard deviation or divisor that cannot be divided by.
    #[error("`{field}` holds {found}, but every entry must be finite and above 0")]
    BadScale {
        /// The setting.
        field: &'static str,
        /// The offending value.
        found: f32,
    },
    /// A mean or offset that is not a number.
    #[error("`{field}` holds {found}, but every entry must be finite")]
    BadOffset {
        /// The setting.
        field: &'static str,
        /// The offending value.
        found: f32,
    },
    /// A short-side resize leaves images of different shapes.
    #[error("`resize` sets the short side only, but `crop` is absent, so images would differ in shape")]
    ShapeLeftOpen,
    /// The float rule has one fixed filter and no crop.
    #[error("`resize` on float pixels goes with bilinear interpolation and no crop, but {found} was set")]
    FloatRule {
        /// The setting that contradicts it.
        found: &'static str,
    },
    /// `crop_pct` outside of (0, 1].
    #[error("`crop_pct` is {found}, but a fraction above 0 and up to 1 is allowed")]
    BadCropFraction {
        /// What was given.
        found: f64,
    },
    /// The image is so long and thin that resampling it would not fit in memory.
    #[error(
        "resizing {width} x {height} to {to_width} x {to_height} pixels is refused: a side is over 1048576 or one pass over 268435456 pixels"
    )]
    TooLong {
        /// Image width.
        width: usize,
        /// Image height.
        height: usize,
        /// Width after the resize.
        to_width: usize,
        /// Height after the resize.
        to_height: usize,
    },
    /// An image without pixels.
    #[error("the image is {width} x {height} pixels, but both sides must be at least 1")]
    NoPixels {
        /// Image width.
        width: usize,
        /// Image height.
        height: usize,
    },
    /// The caller's buffer does not hold one image.
    #[error("the buffer holds {found} values, but one image of {height} x {width} needs {expected}")]
    BufferSize {
        /// Values in the buffer.
        found: usize,
        /// Values needed.
        expected: usize,
        /// Output height.
        height: usize,
        /// Output width.
        width: usize,
    },
    /// A batch of images of different sizes.
    #[error("an image of a batch comes out as {}x{} pixels, but the first one as {}x{}", found.width, found.height, expected.width, expected.height)]
    OtherSize {
        /// Its size.
        found: Size,
        /// That of the first image.
        expected: Size,
    },
    /// Nothing says how bytes become numbers.
    #[error("`{missing}` is neither given nor known, but bytes need a mean and a standard deviation to become numbers")]
    NormaliseUnknown {
        /// The setting.
        missing: &'static str,
    },
    /// A batch without images.
    #[error("there are no images, but a batch has at least one")]
    NoImages,
}
