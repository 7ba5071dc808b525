use crate::embed::EmbedError;

/// Embeddings of images: one row of finite `f32` per image, and how many threads may work on them.
#[derive(Clone, Debug, PartialEq)]
pub struct Points {
    values: Vec<f32>,
    dims: usize,
    threads: usize,
}

impl Points {
    /// Rows of `dims` values each; every core may work on them.
    ///
    /// # Errors
    /// When there is no whole row, or a value is NaN or infinite.
    pub fn new(values: Vec<f32>, dims: usize) -> Result<Self, EmbedError> {
        if dims == 0 || values.is_empty() || !values.len().is_multiple_of(dims) {
            return Err(EmbedError::Length { found: values.len(), dims });
        }
        if let Some(index) = values.iter().position(|value| !value.is_finite()) {
            return Err(EmbedError::NotFinite { index, found: f64::from(values[index]) });
        }
        Ok(Self { values, dims, threads: 0 })
    }

    /// The same points for at most `threads` threads; 0 means one per core. Results do not depend on it.
    #[must_use]
    pub fn with_threads(self, threads: usize) -> Self {
        Self { threads, ..self }
    }

    /// Most threads that may work on the points; 0 means one per core.
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// Number of points.
    pub fn count(&self) -> usize {
        self.values.len() / self.dims
    }

    /// Values per point.
    pub fn dims(&self) -> usize {
        self.dims
    }

    /// One point.
    ///
    /// # Panics
    /// When there is no such point.
    pub fn point(&self, index: usize) -> &[f32] {
        &self.values[index * self.dims..][..self.dims]
    }

    /// All points, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[f32]> {
        self.values.chunks_exact(self.dims)
    }

    /// Refuses labels that are not one per point.
    pub(crate) fn check_labels(&self, labels: &[usize]) -> Result<(), EmbedError> {
        if labels.len() == self.count() {
            Ok(())
        } else {
            Err(EmbedError::LabelCount { found: labels.len(), points: self.count() })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flipcast_ground::Hint;

    #[test]
    fn broken_rows_are_refused() {
        for (values, dims) in [(vec![], 2), (vec![1.0; 3], 2), (vec![1.0], 0)] {
            let found = values.len();
            assert_eq!(Points::new(values, dims), Err(EmbedError::Length { found, dims }));
        }
    }

    #[test]
    fn values_that_are_not_finite_are_refused() {
        let error = Points::new(vec![0.0, f32::INFINITY], 2).unwrap_err();
        assert!(matches!(error, EmbedError::NotFinite { index: 1, .. }));
        assert!(error.hint().is_some());
    }
}
