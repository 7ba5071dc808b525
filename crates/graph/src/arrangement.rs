use crate::Dims;

/// A rearrangement of tokens: every cell of the result, of as many floats as the input has channels, is a token of the input
/// or none of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Arrangement {
    /// All tokens in one column behind `count` learned ones.
    PrependTokens {
        /// Learned tokens.
        count: usize,
    },
    /// Some consecutive tokens in one column.
    TokenRange {
        /// The first.
        first: usize,
        /// How many.
        count: usize,
    },
    /// All tokens but the first `count`, in one column.
    DropTokens {
        /// Tokens left out.
        count: usize,
    },
    /// Zeros around a map.
    Pad {
        /// Rows above and below.
        rows: [usize; 2],
        /// Columns left and right.
        columns: [usize; 2],
    },
    /// Zeros below and right until rows and columns are multiples.
    PadToMultiple {
        /// Of this.
        multiple: usize,
    },
    /// The top left corner with the rows and columns of a second input, which is not read.
    CropLike,
    /// Every token as the top left one of `factor` x `factor`, the others of which are zeros.
    Spread {
        /// Rows and columns of each.
        factor: usize,
    },
    /// Two by two tokens as the channels of one, in the order top left, bottom left, top right, bottom right; zeros where a
    /// row or column is missing.
    MergePatches,
}

impl Arrangement {
    /// A cell of the result that no token of the input fills.
    pub const VACANT: u32 = u32::MAX;

    /// Extents of the result for an input of `from`, and for [`Self::CropLike`] a second of `like`. `None` when they do not fit.
    pub(crate) fn resolve(self, from: Dims, like: Option<Dims>) -> Option<Dims> {
        let column = |tokens: usize| (tokens > 0).then(|| Dims::new(tokens, 1, from.channels));
        match self {
            Self::PrependTokens { count } => column(from.pixels() + count),
            Self::TokenRange { first, count } => {
                let fits = first.checked_add(count).is_some_and(|end| end <= from.pixels());
                fits.then(|| column(count))?
            }
            Self::DropTokens { count } => column(from.pixels().checked_sub(count)?),
            Self::Pad { rows, columns } => {
                Some(Dims::new(from.height + rows[0] + rows[1], from.width + columns[0] + columns[1], from.channels))
            }
            Self::PadToMultiple { multiple } => Some(Dims::new(
                from.height.next_multiple_of(multiple),
                from.width.next_multiple_of(multiple),
                from.channels,
            )),
            Self::CropLike => {
                let like = like?;
                let fits = like.height <= from.height && like.width <= from.width;
                fits.then(|| Dims::new(like.height, like.width, from.channels))
            }
            Self::Spread { factor } => {
                Some(Dims::new(from.height.checked_mul(factor)?, from.width.checked_mul(factor)?, from.channels))
            }
            Self::MergePatches => Some(Dims::new(from.height.div_ceil(2), from.width.div_ceil(2), 4 * from.channels)),
        }
    }

    /// The cell of every one of `tokens`, from [`Self::cells`]: the way back. Every token appears once at most.
    pub fn inverse(cells: &[u32], tokens: usize) -> Vec<u32> {
        let mut inverse = vec![Self::VACANT; tokens];
        for (cell, &token) in cells.iter().enumerate() {
            if token != Self::VACANT {
                inverse[token as usize] = cell as u32;
            }
        }
        inverse
    }

    /// The token of the input, of extents `from`, in every cell of the result, of extents `to`.
    pub fn cells(self, from: Dims, to: Dims) -> Vec<u32> {
        let token = |y: usize, x: usize| {
            let inside = y < from.height && x < from.width;
            if inside { (y * from.width + x) as u32 } else { Self::VACANT }
        };
        let map = || (0..to.pixels()).map(|i| (i / to.width, i % to.width));
        let consecutive = |first: usize| (first..first + to.pixels()).map(|token| token as u32);
        match self {
            Self::PrependTokens { count } => {
                let learned = std::iter::repeat_n(Self::VACANT, count);
                learned.chain(0..from.pixels() as u32).collect()
            }
            Self::TokenRange { first, .. } => consecutive(first).collect(),
            Self::DropTokens { count } => consecutive(count).collect(),
            Self::Pad { rows, columns } => map()
                .map(|(y, x)| match (y.checked_sub(rows[0]), x.checked_sub(columns[0])) {
                    (Some(y), Some(x)) => token(y, x),
                    _ => Self::VACANT,
                })
                .collect(),
            Self::PadToMultiple { .. } | Self::CropLike => map().map(|(y, x)| token(y, x)).collect(),
            Self::Spread { factor } => map()
                .map(|(y, x)| match y % factor == 0 && x % factor == 0 {
                    true => token(y / factor, x / factor),
                    false => Self::VACANT,
                })
                .collect(),
            Self::MergePatches => map()
                .flat_map(|(y, x)| {
                    [(0, 0), (1, 0), (0, 1), (1, 1)].map(|(down, right)| token(2 * y + down, 2 * x + right))
                })
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const V: u32 = Arrangement::VACANT;

    fn cells(arrangement: Arrangement, from: Dims, like: Option<Dims>) -> Vec<u32> {
        arrangement.cells(from, arrangement.resolve(from, like).unwrap())
    }

    #[test]
    fn padding_adds_vacant_cells_below_and_right() {
        let pad = Arrangement::PadToMultiple { multiple: 2 };
        assert_eq!(cells(pad, Dims::new(1, 3, 5), None), [0, 1, 2, V, V, V, V, V]);
    }

    #[test]
    fn zeros_around_are_vacant_cells() {
        let pad = Arrangement::Pad { rows: [1, 0], columns: [0, 2] };
        assert_eq!(cells(pad, Dims::new(1, 2, 5), None), [V, V, V, V, 0, 1, V, V]);
    }

    #[test]
    fn cropping_keeps_the_top_left_corner() {
        let like = Dims::new(2, 2, 1);
        let found = cells(Arrangement::CropLike, Dims::new(3, 4, 5), Some(like));
        assert_eq!(found, [0, 1, 4, 5]);
    }

    #[test]
    fn spread_tokens_have_zeros_below_and_right_of_them() {
        let found = cells(Arrangement::Spread { factor: 2 }, Dims::new(1, 2, 5), None);
        assert_eq!(found, [0, V, 1, V, V, V, V, V]);
    }

    #[test]
    fn merged_patches_go_down_first() {
        let found = cells(Arrangement::MergePatches, Dims::new(2, 3, 5), None);
        assert_eq!(found, [0, 3, 1, 4, 2, 5, V, V]);
    }

    #[test]
    fn a_range_beyond_the_tokens_does_not_fit() {
        let range = Arrangement::TokenRange { first: 3, count: 2 };
        assert_eq!(range.resolve(Dims::new(2, 2, 5), None), None);
    }
}
