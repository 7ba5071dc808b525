//! How a batch is cut into pieces for the workers, by shape alone.

/// A chunk: rows of one image, or several whole images.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Chunk {
    pub image: usize,
    pub images: usize,
    pub row: usize,
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
pub(crate) struct Chunking {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_cover_every_row_once() {
        for (height, rows, granule, images) in
            [(7, 32, 4, 5), (14, 4, 4, 3), (13, 5, 2, 2), (1, 1, 1, 4), (56, 8, 4, 2), (6, 4, 4, 1)]
        {
            let chunking = Chunking::new(height, rows, granule);
            let mut seen = vec![0; height * images];
            for index in 0..chunking.count(images) {
                let chunk = chunking.get(index, images);
                assert_eq!(chunk.row % granule, 0);
                for image in chunk.image..chunk.image + chunk.images {
                    for row in chunk.row..chunk.row + chunk.rows {
                        seen[image * height + row] += 1;
                    }
                }
            }
            assert!(seen.iter().all(|&count| count == 1), "{height} {rows} {granule} {images}");
        }
    }
}
