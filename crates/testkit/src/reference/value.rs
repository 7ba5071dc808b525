use flipcast_graph::Dims;

/// A node's value for a whole batch, channels-last like a [`Batch`](flipcast_tensor::Batch).
#[derive(Clone, Debug, PartialEq)]
pub struct ReferenceValue {
    /// Extents per image.
    pub dims: Dims,
    /// All values, image after image.
    pub values: Vec<f64>,
}

impl ReferenceValue {
    /// A value of `images` images, computed element by element from image, row, column and channel.
    pub(super) fn from_fn(
        images: usize,
        dims: Dims,
        mut element: impl FnMut(usize, usize, usize, usize) -> f64,
    ) -> Self {
        let mut values = Vec::with_capacity(images * dims.len());
        for n in 0..images {
            for y in 0..dims.height {
                for x in 0..dims.width {
                    for c in 0..dims.channels {
                        values.push(element(n, y, x, c));
                    }
                }
            }
        }
        Self { dims, values }
    }

    /// Zeros for `images` images.
    pub(super) fn zeros(images: usize, dims: Dims) -> Self {
        Self { dims, values: vec![0.0; images * dims.len()] }
    }

    /// The same extents with every element replaced.
    pub(super) fn map(&self, element: impl Fn(f64) -> f64) -> Self {
        Self { dims: self.dims, values: self.values.iter().map(|&v| element(v)).collect() }
    }

    /// Number of images.
    pub fn images(&self) -> usize {
        self.values.len() / self.dims.len()
    }

    /// The element at image `n`, row `y`, column `x`, channel `c`.
    pub fn at(&self, n: usize, y: usize, x: usize, c: usize) -> f64 {
        self.pixel(n, y, x)[c]
    }

    /// All channels of one pixel.
    pub fn pixel(&self, n: usize, y: usize, x: usize) -> &[f64] {
        let start = self.start(n, y, x);
        &self.values[start..start + self.dims.channels]
    }

    /// Image, row, column and channel of the element at `index`.
    pub(super) fn position(&self, index: usize) -> [usize; 4] {
        let (pixel, c) = (index / self.dims.channels, index % self.dims.channels);
        let (row, x) = (pixel / self.dims.width, pixel % self.dims.width);
        [row / self.dims.height, row % self.dims.height, x, c]
    }

    /// All channels of one pixel, to change in place.
    pub(super) fn pixel_mut(&mut self, n: usize, y: usize, x: usize) -> &mut [f64] {
        let start = self.start(n, y, x);
        &mut self.values[start..start + self.dims.channels]
    }

    fn start(&self, n: usize, y: usize, x: usize) -> usize {
        ((n * self.dims.height + y) * self.dims.width + x) * self.dims.channels
    }
}
