/// An 8-bit RGB image, rows from the top, three bytes a pixel.
///
/// ```
/// use flipcast_images::Image;
///
/// let image = Image::new(2, 1, vec![255, 0, 0, 0, 0, 255]).expect("three bytes a pixel");
/// assert_eq!(&image.rgb()[3..], [0, 0, 255]);
/// assert!(Image::new(2, 1, vec![0; 5]).is_none());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    width: usize,
    height: usize,
    rgb: Vec<u8>,
}

impl Image {
    /// An image of `width` x `height` from `rgb`, or `None` when the byte count is not `3 * width * height`.
    pub fn new(width: usize, height: usize, rgb: Vec<u8>) -> Option<Self> {
        let expected = width.checked_mul(height)?.checked_mul(3)?;
        (rgb.len() == expected).then_some(Self { width, height, rgb })
    }

    /// Pixels across.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Pixels down.
    pub fn height(&self) -> usize {
        self.height
    }

    /// The bytes: `rgb[3 * (y * width + x) + channel]`.
    pub fn rgb(&self) -> &[u8] {
        &self.rgb
    }

    /// The bytes, to change in place.
    pub fn rgb_mut(&mut self) -> &mut [u8] {
        &mut self.rgb
    }

    /// Gives up the size and returns the bytes.
    pub fn into_rgb(self) -> Vec<u8> {
        self.rgb
    }
}
