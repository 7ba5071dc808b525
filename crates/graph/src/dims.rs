use std::fmt;

/// The extents of one image's share of a value; the batch axis is implied. Memory is channels-last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Dims {
    /// Rows.
    pub height: usize,
    /// Columns.
    pub width: usize,
    /// Channels, the fastest axis.
    pub channels: usize,
}

impl Dims {
    /// `height` x `width` x `channels`.
    pub fn new(height: usize, width: usize, channels: usize) -> Self {
        Self { height, width, channels }
    }

    /// Pixels per image.
    pub fn pixels(self) -> usize {
        self.height * self.width
    }

    /// Values per image.
    pub fn len(self) -> usize {
        self.pixels() * self.channels
    }

    /// Whether an image has no values at all.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }
}

impl fmt::Display for Dims {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} x {} x {}", self.height, self.width, self.channels)
    }
}
