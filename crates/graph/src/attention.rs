use crate::Dims;

/// Multi-head self-attention without its projections: `softmax(scale * q k' + bias + mask) v` per head and group of tokens.
///
/// The input's channels are `[q | k | v]`, each with the heads one after the other; the output has a third of them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Attention {
    /// Heads.
    pub heads: usize,
    /// Factor of the products of queries and keys.
    pub scale: f32,
    /// Which tokens see each other.
    pub tokens: Tokens,
    /// What is learned and added to the scores.
    pub bias: AttentionBias,
}

/// What attention adds to the scores of two tokens of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum AttentionBias {
    /// Nothing.
    #[default]
    None,
    /// A value per head that depends on the distance of two tokens of a window alone. Weights are
    /// `relative_position_bias_table`, `[(2 * size - 1)^2, heads]`.
    Relative,
    /// A value for every head, query and key. Weights are `bias`, `[heads, tokens, tokens]`.
    Dense {
        /// Tokens of a group.
        tokens: usize,
    },
}

/// Which tokens of an image attend to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Tokens {
    /// All of them.
    All,
    /// Those of a square window.
    Window {
        /// Rows and columns of a window.
        size: usize,
        /// Rows and columns the map is turned by before it is cut, with a mask between what was not adjacent. Dropped
        /// along an axis that one window covers.
        shift: usize,
    },
    /// `size` x `size` tokens spread evenly over the map.
    Grid {
        /// Rows and columns of a group.
        size: usize,
    },
}

/// The tokens of an image in groups that attend to each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenGroups {
    /// Tokens per group.
    pub size: usize,
    /// Positions of the tokens, group after group.
    pub tokens: Vec<u32>,
    /// The region of every entry of `tokens`; tokens of different regions are kept apart by the mask.
    pub regions: Option<Vec<u8>>,
}

impl Attention {
    /// Added to the score of two tokens of different regions, as published.
    pub const MASK: f32 = -100.0;

    /// `heads` heads over all tokens, without a bias.
    pub fn new(heads: usize, scale: f32) -> Self {
        Self { heads, scale, tokens: Tokens::All, bias: AttentionBias::None }
    }

    /// Sets which tokens see each other.
    pub fn tokens(mut self, tokens: Tokens) -> Self {
        self.tokens = tokens;
        self
    }

    /// Adds the relative position bias.
    pub fn with_relative_bias(mut self) -> Self {
        self.bias = AttentionBias::Relative;
        self
    }

    /// Adds a bias for every head, query and key of groups of `tokens`.
    pub fn with_dense_bias(mut self, tokens: usize) -> Self {
        self.bias = AttentionBias::Dense { tokens };
        self
    }

    /// What follows the node's name in the name of its weights, and their extents; `None` without any.
    pub fn weights(&self) -> Option<(&'static str, Vec<usize>)> {
        match (self.bias, self.window()) {
            (AttentionBias::Relative, Some(size)) => {
                let rows = (2 * size).saturating_sub(1).pow(2);
                Some(("relative_position_bias_table", vec![rows, self.heads]))
            }
            (AttentionBias::Dense { tokens }, _) => Some(("bias", vec![self.heads, tokens, tokens])),
            (AttentionBias::None | AttentionBias::Relative, _) => None,
        }
    }

    /// Rows and columns of a window or grid group.
    pub fn window(&self) -> Option<usize> {
        match self.tokens {
            Tokens::All => None,
            Tokens::Window { size, .. } | Tokens::Grid { size } => Some(size),
        }
    }

    /// The groups of a map of `dims`, or `None` when windows do not tile it, or have other numbers of tokens than the bias.
    pub fn groups(&self, dims: Dims) -> Option<TokenGroups> {
        let groups = self.all_groups(dims)?;
        let fits = !matches!(self.bias, AttentionBias::Dense { tokens } if tokens != groups.size);
        fits.then_some(groups)
    }

    fn all_groups(&self, dims: Dims) -> Option<TokenGroups> {
        let Some(size) = self.window() else {
            return Some(TokenGroups {
                size: dims.pixels(),
                tokens: (0..dims.pixels() as u32).collect(),
                regions: None,
            });
        };
        let (height, width) = (dims.height, dims.width);
        if size == 0 || !height.is_multiple_of(size) || !width.is_multiple_of(size) {
            return None;
        }
        let mut groups = TokenGroups { size: size * size, tokens: Vec::with_capacity(dims.pixels()), regions: None };
        let (down, across) = (height / size, width / size);
        let places = |y: usize, x: usize| {
            (0..size * size).map(move |i| match self.tokens {
                Tokens::Grid { .. } => (i / size * down + y, i % size * across + x),
                _ => (y * size + i / size, x * size + i % size),
            })
        };
        let [turn_y, turn_x] = self.turn(dims);
        let mut regions = Vec::with_capacity(dims.pixels());
        for y in 0..down {
            for x in 0..across {
                for (row, column) in places(y, x) {
                    let (from_y, from_x) = ((row + turn_y) % height, (column + turn_x) % width);
                    groups.tokens.push((from_y * width + from_x) as u32);
                    let of_row = region(row, height, size, turn_y);
                    regions.push(3 * of_row + region(column, width, size, turn_x));
                }
            }
        }
        groups.regions = (turn_y + turn_x > 0).then_some(regions);
        Some(groups)
    }

    /// Row of the bias table for every pair of a query and a key of a window, queries first.
    pub fn bias_rows(&self) -> Vec<u32> {
        let size = self.window().unwrap_or(0);
        let side = 2 * size - usize::from(size > 0);
        let along = |query: usize, key: usize| query + size - 1 - key;
        let pairs = (0..size * size).flat_map(|query| (0..size * size).map(move |key| (query, key)));
        pairs
            .map(|(query, key)| {
                let down = along(query / size, key / size);
                (down * side + along(query % size, key % size)) as u32
            })
            .collect()
    }

    /// The learned bias of every head, query and key, in this order, from its weights; `None` for a layer without one.
    pub fn spread_bias<T: Copy>(&self, table: &[T]) -> Option<Vec<T>> {
        match self.bias {
            AttentionBias::None => None,
            AttentionBias::Dense { .. } => Some(table.to_vec()),
            AttentionBias::Relative => {
                let rows = self.bias_rows();
                let of_head = |head: usize| rows.iter().map(move |&row| table[row as usize * self.heads + head]);
                Some((0..self.heads).flat_map(of_head).collect())
            }
        }
    }

    /// Rows and columns the map of `dims` is turned by.
    fn turn(&self, dims: Dims) -> [usize; 2] {
        match self.tokens {
            Tokens::Window { size, shift } => {
                [dims.height, dims.width].map(|side| if size >= side { 0 } else { shift })
            }
            _ => [0, 0],
        }
    }
}

/// The part of a turned axis a position belongs to: before the last window, or on either side of the seam in it.
fn region(at: usize, side: usize, size: usize, turn: usize) -> u8 {
    match turn {
        0 => 0,
        _ if at < side - size => 0,
        _ => 1 + u8::from(at >= side - turn),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn groups(tokens: Tokens, height: usize, width: usize) -> TokenGroups {
        let attention = Attention::new(1, 1.0).tokens(tokens);
        attention.groups(Dims::new(height, width, 3)).unwrap()
    }

    #[test]
    fn windows_hold_adjacent_tokens() {
        let found = groups(Tokens::Window { size: 2, shift: 0 }, 2, 4);
        assert_eq!(found.tokens, [0, 1, 4, 5, 2, 3, 6, 7]);
        assert_eq!(found.regions, None);
    }

    #[test]
    fn grid_groups_hold_distant_tokens() {
        let found = groups(Tokens::Grid { size: 2 }, 2, 4);
        assert_eq!(found.tokens, [0, 2, 4, 6, 1, 3, 5, 7]);
    }

    #[test]
    fn a_shift_turns_the_map_and_marks_the_seam() {
        let found = groups(Tokens::Window { size: 2, shift: 1 }, 4, 4);
        assert_eq!(found.tokens[..4], [5, 6, 9, 10]);
        assert_eq!(found.tokens[12..], [15, 12, 3, 0]);
        let regions = found.regions.unwrap();
        assert_eq!(regions[..4], [0, 0, 0, 0]);
        assert_eq!(regions[12..], [4, 5, 7, 8]);
    }

    #[test]
    fn an_axis_that_one_window_covers_is_not_turned() {
        let found = groups(Tokens::Window { size: 2, shift: 1 }, 2, 4);
        assert_eq!(found.tokens, [1, 2, 5, 6, 3, 0, 7, 4]);
        assert_eq!(found.regions.unwrap(), [0, 0, 0, 0, 1, 2, 1, 2]);
    }

    #[test]
    fn windows_that_do_not_tile_the_map_are_refused() {
        let attention = Attention::new(1, 1.0).tokens(Tokens::Grid { size: 2 });
        assert_eq!(attention.groups(Dims::new(3, 4, 3)), None);
    }

    #[test]
    fn a_dense_bias_holds_for_groups_of_its_size() {
        let attention = Attention::new(2, 1.0).with_dense_bias(4);
        assert_eq!(attention.weights(), Some(("bias", vec![2, 4, 4])));
        assert!(attention.groups(Dims::new(2, 2, 3)).is_some());
        assert!(attention.groups(Dims::new(2, 3, 3)).is_none());
        let windows = attention.tokens(Tokens::Window { size: 2, shift: 0 });
        assert!(windows.groups(Dims::new(4, 6, 3)).is_some());
    }

    #[test]
    fn bias_rows_depend_on_the_distance_alone() {
        let attention = Attention::new(1, 1.0).tokens(Tokens::Grid { size: 2 });
        let rows = attention.bias_rows();
        assert_eq!(rows[..4], [4, 3, 1, 0]);
        assert_eq!(rows[12..], [8, 7, 5, 4]);
    }
}
