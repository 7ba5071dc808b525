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

    /// The mean of the images at `rows`, of at least one.
    ///
    /// # Panics
    /// If there is no such image.
    pub fn mean_of(&self, rows: &[usize]) -> Vec<f32> {
        let mut sums = vec![0.0; self.dims];
        for &row in rows {
            let values = &self.values[row * self.dims..][..self.dims];
            sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += f64::from(*value));
        }
        sums.into_iter().map(|sum| (sum / rows.len().max(1) as f64) as f32).collect()
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
        let embeddings = Embeddings::new(vec![1.0, 2.0, 3.0, 4.0, 5.0, 9.0], 2).unwrap();
        assert_eq!(embeddings.mean_of(&[0, 2]), [3.0, 5.5]);
    }
}
