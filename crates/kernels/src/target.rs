/// A tensor that receives a result.
#[derive(Debug)]
pub struct Target<'a> {
    /// The tensor.
    pub values: &'a mut [f32],
    /// Add to what is there instead of overwriting it.
    pub accumulate: bool,
}
