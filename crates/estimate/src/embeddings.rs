use crate::EstimateError;
use crate::outputs::check_rows;

/// Penultimate activations of a set of images, one row per image: at least one row, at least one value, all finite.
#[derive(Clone, Debug, PartialEq)]
pub struct Embeddings {
    values: Vec<f32>,
    dims: usize,
}

impl Embeddings {
    /// Takes row-major values; refuses NaN, infinity, incomplete rows, no dimensions and no images.
    pub fn new(values: Vec<f32>, dims: usize) -> Result<Self, EstimateError> {
        check_rows("embedding values", &values, dims)?;
        Ok(Self { values, dims })
    }

    /// Number of images.
    pub fn images(&self) -> usize {
        self.values.len() / self.dims
    }

    /// Values of one image.
    pub fn dims(&self) -> usize {
        self.dims
    }

    /// The values of each image in turn.
    pub fn rows(&self) -> std::slice::ChunksExact<'_, f32> {
        self.values.chunks_exact(self.dims)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_values_are_refused() {
        assert!(Embeddings::new(vec![], 2).is_err());
        assert!(Embeddings::new(vec![1.0], 0).is_err());
        assert!(Embeddings::new(vec![1.0; 5], 2).is_err());
        assert!(Embeddings::new(vec![1.0, f32::NAN], 2).is_err());
        let embeddings = Embeddings::new(vec![1.0; 6], 2).unwrap();
        assert_eq!((embeddings.images(), embeddings.dims()), (3, 2));
    }
}
