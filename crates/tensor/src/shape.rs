use crate::TensorError;
use std::fmt;

/// The extents of a tensor, outermost first. A scalar has no extents and one element.
///
/// ```
/// use flipcast_tensor::Shape;
///
/// let shape = Shape::from([64, 3, 7, 7]);
/// assert_eq!((shape.rank(), shape.checked_len()), (4, Some(9408)));
/// assert_eq!(shape.to_string(), "[64, 3, 7, 7]");
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Default)]
pub struct Shape(Vec<usize>);

impl Shape {
    /// A shape with these extents.
    pub fn new(extents: impl Into<Vec<usize>>) -> Self {
        Self(extents.into())
    }

    /// The extents, outermost first.
    pub fn extents(&self) -> &[usize] {
        &self.0
    }

    /// Number of axes.
    pub fn rank(&self) -> usize {
        self.0.len()
    }

    /// Number of elements, or `None` when the product does not fit a `usize`, as a lying file may declare.
    pub fn checked_len(&self) -> Option<usize> {
        self.0.iter().try_fold(1usize, |n, &extent| n.checked_mul(extent))
    }

    /// Refuses any number of elements but its own.
    pub(crate) fn expect_len(self, found: usize) -> Result<Self, TensorError> {
        match self.checked_len() {
            None => Err(TensorError::TooLarge { shape: self }),
            Some(expected) if expected != found => Err(TensorError::LengthMismatch { shape: self, expected, found }),
            Some(_) => Ok(self),
        }
    }
}

impl<const N: usize> From<[usize; N]> for Shape {
    fn from(extents: [usize; N]) -> Self {
        Self(extents.to_vec())
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

impl fmt::Debug for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scalar_has_one_element() {
        assert_eq!(Shape::new([]).checked_len(), Some(1));
    }

    #[test]
    fn an_overflowing_product_is_noticed() {
        assert_eq!(Shape::from([usize::MAX, 2]).checked_len(), None);
    }
}
