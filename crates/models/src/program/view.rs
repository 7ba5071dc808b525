use flipcast_graph::{Dims, NodeId, Tokens};
use std::collections::VecDeque;
use std::fmt;

/// An axis of a node's value in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dim {
    Batch,
    Row,
    Column,
    Channel,
}

/// `size` positions along `dim`, `stride` apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub dim: Dim,
    pub size: usize,
    pub stride: usize,
}

/// An axis of a tensor: the positions of its pieces, the last of which runs fastest. Pieces of one position are left out,
/// unless it is the batch's.
pub(super) type Axis = Vec<Piece>;

/// A tensor of the program as a view of a node's value. Reshaping, permuting and splitting make other views of the same node,
/// and cost nothing.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct View {
    pub node: NodeId,
    pub axes: Vec<Axis>,
    /// The first channel of the node that is part of the view.
    pub first_channel: usize,
    /// Zeros around the image that the next convolution takes in: rows above and below, columns left and right.
    pub padding: [usize; 4],
    /// What every value is multiplied with wherever it is read: attention takes it into its own factor.
    pub factor: f32,
    /// Rows and columns that the map is turned by: its first row is this one of the node's.
    pub turn: [usize; 2],
    /// The first row and the first column of the node that are part of the view.
    pub first_pixel: [usize; 2],
}

pub(super) fn whole(dim: Dim, size: usize) -> Axis {
    if size == 1 && dim != Dim::Batch { Vec::new() } else { vec![Piece { dim, size, stride: 1 }] }
}

/// The axis of all channels.
pub(super) fn channel_axis(channels: usize) -> Axis {
    whole(Dim::Channel, channels)
}

/// Joins pieces that follow each other in memory.
fn tidy(axis: Axis) -> Axis {
    let mut tidied: Axis = Vec::with_capacity(axis.len());
    for piece in axis {
        match tidied.last_mut() {
            Some(last) if last.dim == piece.dim && Some(last.stride) == piece.size.checked_mul(piece.stride) => {
                last.size *= piece.size;
                last.stride = piece.stride;
            }
            _ => tidied.push(piece),
        }
    }
    tidied
}

pub(super) fn extent(axis: &Axis) -> usize {
    axis.iter().map(|piece| piece.size).product()
}

impl View {
    /// A batch of maps as PyTorch has them: batch, channels, rows, columns.
    pub fn map(node: NodeId, batch: usize, dims: Dims) -> Self {
        let axes = vec![
            whole(Dim::Batch, batch),
            whole(Dim::Channel, dims.channels),
            whole(Dim::Row, dims.height),
            whole(Dim::Column, dims.width),
        ];
        Self { node, axes, first_channel: 0, padding: [0; 4], factor: 1.0, turn: [0; 2], first_pixel: [0; 2] }
    }

    /// The same arrangement of another node.
    pub fn of(&self, node: NodeId) -> Self {
        Self { node, ..self.clone() }
    }

    pub fn shape(&self) -> Vec<usize> {
        self.axes.iter().map(extent).collect()
    }

    /// Whether every value of a node of `dims` is part of the view.
    pub fn is_whole(&self, batch: usize, dims: Dims) -> bool {
        self.first_channel == 0 && self.shape().iter().product::<usize>() == batch * dims.len()
    }

    /// Whether the view is a batch of maps, channels in any order.
    pub fn is_map(&self, batch: usize, dims: Dims) -> bool {
        let map = Self::map(self.node, batch, dims);
        self.axes.len() == 4
            && [0, 2, 3].iter().all(|&axis| self.axes[axis] == map.axes[axis])
            && self.axes[1].iter().all(|piece| piece.dim == Dim::Channel)
    }

    /// Whether `axis` holds all channels in order.
    pub fn is_channels(&self, axis: usize, dims: Dims) -> bool {
        self.first_channel == 0 && self.axes[axis] == whole(Dim::Channel, dims.channels)
    }

    /// Whether all channels are on `axis`, in any order, and none on another.
    pub fn has_channels_on(&self, axis: usize) -> bool {
        self.axes
            .iter()
            .enumerate()
            .all(|(i, pieces)| pieces.iter().all(|piece| (piece.dim == Dim::Channel) == (i == axis)))
    }

    /// Whether `axis` holds all pixels of `dims` and nothing else, row after row.
    pub fn is_pixels(&self, axis: usize, dims: Dims) -> bool {
        self.axes[axis] == [whole(Dim::Row, dims.height), whole(Dim::Column, dims.width)].concat()
    }

    /// Which tokens see each other where the first axis tells groups apart and the third the tokens of one; `None` where they
    /// are no windows and no grids of all pixels of `dims`.
    pub fn token_groups(&self, batch: usize, dims: Dims) -> Option<Tokens> {
        let piece = |dim: Dim, size: usize, stride: usize| match size {
            1 => Vec::new(),
            _ => vec![Piece { dim, size, stride }],
        };
        let square =
            |size: usize, stride: usize| [piece(Dim::Row, size, stride), piece(Dim::Column, size, stride)].concat();
        let images = whole(Dim::Batch, batch);
        let [groups, _, tokens, _] = &self.axes[..] else {
            return None;
        };
        let [shift, across_shift] = self.turn;
        if shift != across_shift {
            return None;
        }
        if *groups == images && self.is_pixels(2, dims) && shift == 0 {
            return Some(Tokens::All);
        }
        let size = tokens.iter().find(|piece| piece.dim == Dim::Row)?.size;
        if !dims.height.is_multiple_of(size) || !dims.width.is_multiple_of(size) {
            return None;
        }
        let (down, across) = (dims.height / size, dims.width / size);
        let places =
            |stride| [images.clone(), piece(Dim::Row, down, stride), piece(Dim::Column, across, stride)].concat();
        if *groups == places(size) && *tokens == square(size, 1) {
            return Some(Tokens::Window { size, shift });
        }
        let spread = [piece(Dim::Row, size, down), piece(Dim::Column, size, across)].concat();
        (*groups == places(1) && *tokens == spread && shift == 0).then_some(Tokens::Grid { size })
    }

    /// Whether the view has every second row and column of a map of `dims`, and the 2 x 2 pixels there as its channels, rows
    /// fastest.
    pub fn merged_patches(&self, batch: usize, dims: Dims) -> bool {
        if !dims.height.is_multiple_of(2) || !dims.width.is_multiple_of(2) || self.first_channel != 0 {
            return false;
        }
        let every_second = |dim: Dim, size: usize| match size / 2 {
            1 => Vec::new(),
            size => vec![Piece { dim, size, stride: 2 }],
        };
        let both = [Dim::Column, Dim::Row].map(|dim| Piece { dim, size: 2, stride: 1 });
        self.padding == [0; 4]
            && self.turn == [0; 2]
            && self.axes
                == [
                    whole(Dim::Batch, batch),
                    every_second(Dim::Row, dims.height),
                    every_second(Dim::Column, dims.width),
                    [&both[..], &whole(Dim::Channel, dims.channels)].concat(),
                ]
    }

    /// Every `step`-th row or column from `first` on, where `axis` has all of them.
    pub fn every(&self, axis: usize, dims: Dims, first: usize, step: usize) -> Option<Self> {
        let &[Piece { dim, size, stride: 1 }] = &self.axes[axis][..] else {
            return None;
        };
        let direction = match dim {
            Dim::Row if size == dims.height => 0,
            Dim::Column if size == dims.width => 1,
            _ => return None,
        };
        let fits =
            step > 1 && first < step && size.is_multiple_of(step) && self.turn == [0; 2] && self.padding == [0; 4];
        let mut view = self.clone();
        view.axes[axis] = if size == step { Vec::new() } else { vec![Piece { dim, size: size / step, stride: step }] };
        view.first_pixel[direction] = first;
        fits.then_some(view)
    }

    /// The view with extents `sizes`; `None` where they cut a piece unevenly or count otherwise.
    pub fn reshape(&self, sizes: &[usize]) -> Option<Self> {
        let mut pieces: VecDeque<Piece> = self.axes.concat().into();
        let mut axes = Vec::with_capacity(sizes.len());
        for &size in sizes {
            let mut axis = Vec::new();
            let mut left = size;
            // A batch of one image takes no space, but must stay somewhere.
            while left > 1 || pieces.front().is_some_and(|piece| piece.size == 1) {
                let piece = pieces.pop_front()?;
                if left.is_multiple_of(piece.size) {
                    left /= piece.size;
                    axis.push(piece);
                } else if piece.size.is_multiple_of(left) && piece.dim != Dim::Batch && left > 0 {
                    let inner = piece.size / left;
                    axis.push(Piece { size: left, stride: piece.stride.checked_mul(inner)?, ..piece });
                    pieces.push_front(Piece { size: inner, ..piece });
                    left = 1;
                } else {
                    return None;
                }
            }
            axes.push(tidy(axis));
        }
        (pieces.is_empty() && !sizes.contains(&0)).then(|| Self { axes, ..self.clone() })
    }

    /// The view with all axes in front of heads, tokens and channels of a head as one; `None` where there are none in front.
    pub fn by_heads(&self) -> Option<Self> {
        let kept = self.axes.len().checked_sub(3).filter(|&kept| kept > 0)?;
        let groups = tidy(self.axes[..kept].concat());
        let axes = std::iter::once(groups).chain(self.axes[kept..].iter().cloned()).collect();
        Some(Self { axes, ..self.clone() })
    }

    /// The view with its axes in another order.
    pub fn permute(&self, order: &[usize]) -> Option<Self> {
        let mut sorted = order.to_vec();
        sorted.sort_unstable();
        let all = sorted.iter().copied().eq(0..self.axes.len());
        all.then(|| Self { axes: order.iter().map(|&axis| self.axes[axis].clone()).collect(), ..self.clone() })
    }

    /// The positions `first..first + count` of an axis that is one piece of the channels.
    pub fn slice_channels(&self, axis: usize, first: usize, count: usize) -> Option<Self> {
        let (&[piece], true) = (&self.axes[axis][..], count > 0) else {
            return None;
        };
        if piece.dim != Dim::Channel || first.checked_add(count)? > piece.size {
            return None;
        }
        let mut view = self.clone();
        view.first_channel += first * piece.stride;
        view.axes[axis] = if count == 1 { Vec::new() } else { vec![Piece { size: count, ..piece }] };
        Some(view)
    }

    /// The channels in the order in which the view has them.
    pub fn channel_order(&self) -> Vec<usize> {
        let mut order = vec![self.first_channel];
        for piece in self.axes.iter().flatten().filter(|piece| piece.dim == Dim::Channel) {
            order = order.iter().flat_map(|&c| (0..piece.size).map(move |i| c + i * piece.stride)).collect();
        }
        order
    }

    /// The same axes over a node that has the channels of [`Self::channel_order`] in this order.
    pub fn with_channels_in_order(&self, node: NodeId) -> Self {
        let mut left: usize =
            self.axes.iter().flatten().filter(|piece| piece.dim == Dim::Channel).map(|piece| piece.size).product();
        let mut view = Self { node, first_channel: 0, ..self.clone() };
        for axis in &mut view.axes {
            for piece in axis.iter_mut().filter(|piece| piece.dim == Dim::Channel) {
                left /= piece.size;
                piece.stride = left;
            }
            *axis = tidy(std::mem::take(axis));
        }
        view
    }

    /// For every channel, the position in a tensor of `extents` that is broadcast against the view. `None` where it does not fit, or differs
    /// from image to image or from pixel to pixel.
    pub fn broadcast_channels(&self, extents: &[usize]) -> Option<Vec<u32>> {
        let skipped = self.axes.len().checked_sub(extents.len())?;
        let told_apart = self.axes[skipped..].iter().zip(extents).filter(|(_, extent)| **extent != 1);
        if told_apart.flat_map(|(axis, _)| axis).any(|piece| piece.dim != Dim::Channel) {
            return None;
        }
        let channels = |axis: &Axis| axis.iter().filter(|piece| piece.dim == Dim::Channel).cloned().collect();
        let of_one_pixel = Self { axes: self.axes.iter().map(channels).collect(), ..self.clone() };
        let count = of_one_pixel.axes.iter().map(extent).product();
        of_one_pixel.broadcast(Dims::new(1, 1, count), extents)
    }

    /// For every pixel and channel of a node of `dims`, which the view holds whole, the position in a tensor of `extents` that
    /// is broadcast against the view. `None` where it does not fit, or differs from image to image.
    pub fn broadcast(&self, dims: Dims, extents: &[usize]) -> Option<Vec<u32>> {
        let skipped = self.axes.len().checked_sub(extents.len())?;
        // Offset in the node and in the tensor of every position so far.
        let mut places = vec![(0u32, 0u32)];
        let mut weight: usize = extents.iter().product();
        for (index, axis) in self.axes.iter().enumerate() {
            let extent_here = if index < skipped { 1 } else { extents[index - skipped] };
            weight = weight.checked_div(extent_here)?;
            let size = extent(axis);
            if extent_here != 1 && (extent_here != size || axis.iter().any(|piece| piece.dim == Dim::Batch)) {
                return None;
            }
            let mut inner = size;
            let step = if extent_here == 1 { 0 } else { weight };
            for piece in axis.iter().filter(|piece| piece.dim != Dim::Batch) {
                inner /= piece.size;
                let unit = match piece.dim {
                    Dim::Row => dims.width * dims.channels,
                    Dim::Column => dims.channels,
                    Dim::Batch | Dim::Channel => 1,
                };
                let moved = |(to, from): (u32, u32)| {
                    (0..piece.size)
                        .map(move |i| (to + (i * piece.stride * unit) as u32, from + (i * inner * step) as u32))
                };
                places = places.into_iter().flat_map(moved).collect();
            }
        }
        places.sort_unstable();
        let whole = places.len() == dims.len() && places.iter().zip(0..).all(|(place, i)| place.0 == i);
        whole.then(|| places.into_iter().map(|(_, from)| from).collect())
    }
}

impl fmt::Display for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let axes: Vec<String> = self.axes.iter().map(describe).collect();
        write!(f, "[{}]", axes.join(", "))
    }
}

fn describe(axis: &Axis) -> String {
    let name = |dim| match dim {
        Dim::Batch => "batch",
        Dim::Row => "rows",
        Dim::Column => "columns",
        Dim::Channel => "channels",
    };
    let pieces: Vec<String> = axis
        .iter()
        .map(|piece| match (piece.dim, piece.stride) {
            (Dim::Batch, _) => "batch".to_owned(),
            (dim, 1) => format!("{} {}", piece.size, name(dim)),
            (dim, stride) => format!("{} of every {stride} {}", piece.size, name(dim)),
        })
        .collect();
    if pieces.is_empty() { "1".to_owned() } else { pieces.join(" x ") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flipcast_graph::GraphBuilder;

    fn map(dims: Dims) -> View {
        View::map(GraphBuilder::new(3).1, 2, dims)
    }

    #[test]
    fn a_reshape_back_is_the_same_view() {
        let view = map(Dims::new(4, 6, 12));
        let split = view.reshape(&[2, 3, 4, 4, 2, 3]).unwrap();
        assert_eq!(split.shape(), [2, 3, 4, 4, 2, 3]);
        assert_eq!(split.reshape(&[2, 12, 4, 6]).unwrap(), view);
        assert_eq!(view.reshape(&[2, 12 * 24]).unwrap().reshape(&[2, 12, 4, 6]).unwrap(), view);
    }

    #[test]
    fn a_reshape_that_cuts_unevenly_is_refused() {
        let view = map(Dims::new(4, 6, 12));
        for sizes in [&[2, 5, 4, 6][..], &[2, 12, 4, 6, 2], &[2, 12], &[3, 4, 24], &[2, 0, 4, 6], &[2, 8, 36]] {
            assert_eq!(view.reshape(sizes), None, "{sizes:?}");
        }
    }

    #[test]
    fn windows_and_grids_are_told_by_their_axes() {
        let dims = Dims::new(4, 6, 1);
        let tokens = map(dims).permute(&[0, 2, 3, 1]).unwrap();
        let cut = tokens.reshape(&[2, 2, 2, 3, 2]).unwrap().permute(&[0, 1, 3, 2, 4]).unwrap();
        let windows = cut.reshape(&[12, 1, 4, 1]).unwrap();
        assert_eq!(windows.token_groups(2, dims), Some(Tokens::Window { size: 2, shift: 0 }));
        let spread = tokens.reshape(&[2, 2, 2, 2, 3]).unwrap().permute(&[0, 2, 4, 1, 3]).unwrap();
        let grids = spread.reshape(&[12, 1, 4, 1]).unwrap();
        assert_eq!(grids.token_groups(2, dims), Some(Tokens::Grid { size: 2 }));
        let all = tokens.reshape(&[2, 1, 24, 1]).unwrap();
        assert_eq!(all.token_groups(2, dims), Some(Tokens::All));
        let rows = tokens.reshape(&[8, 1, 6, 1]).unwrap();
        assert_eq!(rows.token_groups(2, dims), None);
    }

    #[test]
    fn a_batch_of_one_stays_in_front() {
        let node = GraphBuilder::new(3).1;
        let view = View::map(node, 1, Dims::new(1, 1, 12));
        let flat = view.reshape(&[1, 12]).unwrap();
        assert_eq!(flat.axes[0].len(), 1);
        assert!(flat.is_channels(1, Dims::new(1, 1, 12)));
    }

    #[test]
    fn channels_of_heads_come_in_the_order_of_the_view() {
        let view = map(Dims::new(1, 1, 6)).reshape(&[2, 2, 3]).unwrap().permute(&[0, 2, 1]).unwrap();
        assert_eq!(view.channel_order(), [0, 3, 1, 4, 2, 5]);
        let second = map(Dims::new(1, 1, 6)).slice_channels(1, 2, 3).unwrap();
        assert_eq!(second.channel_order(), [2, 3, 4]);
        assert!(second.with_channels_in_order(second.node).is_channels(1, Dims::new(1, 1, 3)));
    }

    #[test]
    fn a_tensor_is_spread_over_the_pixels_it_does_not_tell_apart() {
        let dims = Dims::new(1, 2, 3);
        let found = map(dims).broadcast(dims, &[3, 1, 1]).unwrap();
        assert_eq!(found, [0, 1, 2, 0, 1, 2]);
        let found = map(dims).broadcast(dims, &[1, 3, 1, 2]).unwrap();
        assert_eq!(found, [0, 2, 4, 1, 3, 5]);
        assert_eq!(map(dims).broadcast(dims, &[2, 3, 1, 2]), None);
        assert_eq!(map(dims).broadcast(dims, &[2, 1]), None);
        assert_eq!(map(dims).broadcast_channels(&[3, 1, 1]).unwrap(), [0, 1, 2]);
        assert_eq!(map(dims).broadcast_channels(&[1, 3, 1, 2]), None);
        assert_eq!(map(dims).broadcast_channels(&[2, 1, 1]), None);
    }
}
