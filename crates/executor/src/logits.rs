use flipcast_ground::argmax;

/// One row of class scores per image.
///
/// ```
/// let logits = flipcast_executor::Logits::new(&[0.0, 2.0, 5.0, 1.0], 2);
/// assert_eq!((logits.images(), logits.argmax()), (2, vec![1, 0]));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Logits<'a> {
    values: &'a [f32],
    classes: usize,
}

impl<'a> Logits<'a> {
    /// Rows of `classes` values.
    pub fn new(values: &'a [f32], classes: usize) -> Self {
        Self { values, classes }
    }

    /// Number of images.
    pub fn images(&self) -> usize {
        self.values.len() / self.classes.max(1)
    }

    /// Number of classes.
    pub fn classes(&self) -> usize {
        self.classes
    }

    /// All rows, one after the other.
    pub fn values(&self) -> &'a [f32] {
        self.values
    }

    /// The rows.
    pub fn rows(&self) -> impl ExactSizeIterator<Item = &'a [f32]> {
        self.values.chunks_exact(self.classes.max(1))
    }

    /// The class of every image: the first of the largest scores.
    pub fn argmax(&self) -> Vec<usize> {
        self.rows().map(argmax).collect()
    }
}
