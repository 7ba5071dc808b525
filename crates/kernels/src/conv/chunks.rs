//! How a batch is cut into pieces for the workers, by shape alone.

/// A chunk: rows of one image, or several whole images.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// Its first image.
    pub image: usize,
    /// Number of images.
    pub images: usize,
    /// Its first row of outputs.
    pub row: usize,
    /// Rows of each image.
    pub rows: usize,
}

impl Chunk {
    /// Rows over all its images.
    pub fn all_rows(&self) -> usize {
        self.images * self.rows
    }
}

/// Rows or images per chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunking {
    height: usize,
    rows: usize,
    images: usize,
}

impl Chunking {
    /// Chunks of about `rows` rows (a multiple of `granule`) of images of `height` rows, or of whole images when an
    /// image has fewer.
    pub fn new(height: usize, rows: usize, granule: usize) -> Self {
        let rows = rows.max(1);
        if rows >= height {
            return Self { height, rows: height, images: (rows / height).max(1) };
        }
        // Equal parts: the last chunk of an image should not be a sliver.
        let parts = height.div_ceil(rows.next_multiple_of(granule));
        Self { height, rows: height.div_ceil(parts).next_multiple_of(granule), images: 1 }
    }

    /// Most rows of an image in a chunk.
    pub fn rows(&self) -> usize {
        self.rows.min(self.height)
    }

    /// Most images in a chunk.
    pub fn images(&self) -> usize {
        self.images
    }

    fn per_image(&self) -> usize {
        self.height.div_ceil(self.rows)
    }

    /// Number of chunks of a batch.
    pub fn count(&self, images: usize) -> usize {
        images.div_ceil(self.images) * self.per_image()
    }

    /// The chunk at `index` of a batch of `images`.
    pub fn get(&self, index: usize, images: usize) -> Chunk {
        let image = index / self.per_image() * self.images;
        let row = index % self.per_image() * self.rows;
        Chunk { image, images: self.images.min(images - image), row, rows: self.rows.min(self.height - row) }
    }
}
