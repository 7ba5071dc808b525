use crate::Shape;

/// A dense host tensor of `f32` values in row-major order.
///
/// ```
/// use flipcast_tensor::Tensor;
///
/// let tensor = Tensor::new([2, 3], vec![1.0; 6])?;
/// assert_eq!(tensor.shape().extents(), [2, 3]);
/// assert!(Tensor::new([2, 3], vec![1.0; 5]).is_err(), "a tensor holds as many values as its shape says");
/// # Ok::<(), flipcast_tensor::TensorError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    shape: Shape,
    values: Vec<f32>,
}

/// Why a [`Tensor`] could not be made.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum TensorError {
    /// Shape and data disagree.
    #[error("shape {shape} needs {expected} values, found {found}")]
    LengthMismatch {
        /// The declared shape.
        shape: Shape,
        /// Values the shape asks for.
        expected: usize,
        /// Values that were given.
        found: usize,
    },
    /// The element count does not fit the address space.
    #[error("shape {shape} has more elements than memory can hold")]
    TooLarge {
        /// The declared shape.
        shape: Shape,
    },
}

impl Tensor {
    /// A tensor of `shape` holding `values`, which must be exactly as many as the shape says.
    pub fn new(shape: impl Into<Shape>, values: Vec<f32>) -> Result<Self, TensorError> {
        let shape = shape.into().expect_len(values.len())?;
        Ok(Self { shape, values })
    }

    /// A tensor of zeros.
    ///
    /// # Panics
    /// If the element count overflows, which a shape of our own never does.
    pub fn zeros(shape: impl Into<Shape>) -> Self {
        let shape = shape.into();
        let len = shape.checked_len().expect("shapes built in code are small");
        Self { shape, values: vec![0.0; len] }
    }

    /// The extents.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// The values in row-major order.
    pub fn values(&self) -> &[f32] {
        &self.values
    }

    /// The values in row-major order, to change in place.
    pub fn values_mut(&mut self) -> &mut [f32] {
        &mut self.values
    }

    /// Gives up the shape and returns the values.
    pub fn into_values(self) -> Vec<f32> {
        self.values
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_length_is_refused() {
        let error = Tensor::new([2, 3], vec![0.0; 5]).unwrap_err();
        assert_eq!(error.to_string(), "shape [2, 3] needs 6 values, found 5");
    }
}
