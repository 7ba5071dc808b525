/// Which algorithms may be chosen. The choice depends on the shape alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Exactness {
    /// Also Winograd, whose rounding errors are about three times those of a direct sum.
    #[default]
    Fast,
    /// Only direct sums of products.
    Direct,
    /// Direct sums in double precision: many times slower, to tell rounding from mistakes.
    Double,
}
