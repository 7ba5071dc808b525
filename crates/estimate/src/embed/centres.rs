use crate::embed::EmbedError;

/// Means of groups of points: one row of finite `f64` per group.
#[derive(Clone, Debug, PartialEq)]
pub struct Centres {
    values: Vec<f64>,
    dims: usize,
}

impl Centres {
    /// Rows of `dims` values each.
    ///
    /// # Errors
    /// When there is no whole row, or a value is NaN or infinite.
    pub fn new(values: Vec<f64>, dims: usize) -> Result<Self, EmbedError> {
        if dims == 0 || values.is_empty() || !values.len().is_multiple_of(dims) {
            return Err(EmbedError::Length { found: values.len(), dims });
        }
        if let Some(index) = values.iter().position(|value| !value.is_finite()) {
            return Err(EmbedError::NotFinite { index, found: values[index] });
        }
        Ok(Self { values, dims })
    }

    /// Number of centres.
    pub fn count(&self) -> usize {
        self.values.len() / self.dims
    }

    /// Values per centre.
    pub fn dims(&self) -> usize {
        self.dims
    }

    /// One centre.
    ///
    /// # Panics
    /// When there is no such centre.
    pub fn centre(&self, index: usize) -> &[f64] {
        &self.values[index * self.dims..][..self.dims]
    }

    /// All centres, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[f64]> {
        self.values.chunks_exact(self.dims)
    }

    /// One centre, to be moved to finite coordinates.
    pub(crate) fn centre_mut(&mut self, index: usize) -> &mut [f64] {
        &mut self.values[index * self.dims..][..self.dims]
    }
}
