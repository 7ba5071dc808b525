use crate::{Arrangement, Dims};

/// Consecutive channels of one input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ChannelRun {
    /// Position of the input.
    pub input: usize,
    /// The first channel.
    pub first: usize,
    /// How many.
    pub count: usize,
}

/// Where the channels of one input go, in cells of `unit` channels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PickTable {
    /// Channels of a cell.
    pub unit: usize,
    /// For every cell of the result, pixel after pixel, the cell of the input that fills it, or [`Arrangement::VACANT`].
    pub cells: Vec<u32>,
}

impl PickTable {
    /// The channels of `input`, a value of `from`, in a result of `to` that consists of `runs`.
    pub fn new(runs: &[ChannelRun], input: usize, from: Dims, to: Dims) -> Self {
        let ends = runs.iter().flat_map(|run| [run.first, run.count]);
        let unit = ends.chain([from.channels]).fold(0, greatest_common_divisor).max(1);
        let vacant = |run: &ChannelRun| std::iter::repeat_n(Arrangement::VACANT, run.count / unit);
        let mut pixel = Vec::with_capacity(to.channels / unit);
        for run in runs {
            match run.input == input {
                true => pixel.extend((0..run.count / unit).map(|cell| (run.first / unit + cell) as u32)),
                false => pixel.extend(vacant(run)),
            }
        }
        let per_pixel = (from.channels / unit) as u32;
        let moved = |at: u32| move |&cell: &u32| if cell == Arrangement::VACANT { cell } else { at * per_pixel + cell };
        Self { unit, cells: (0..from.pixels() as u32).flat_map(|at| pixel.iter().map(moved(at))).collect() }
    }
}

fn greatest_common_divisor(a: usize, b: usize) -> usize {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const V: u32 = Arrangement::VACANT;

    fn run(input: usize, first: usize, count: usize) -> ChannelRun {
        ChannelRun { input, first, count }
    }

    #[test]
    fn inputs_behind_each_other_share_the_largest_cells() {
        let runs = [run(0, 0, 4), run(1, 0, 6)];
        let to = Dims::new(1, 2, 10);
        let first = PickTable::new(&runs, 0, Dims::new(1, 2, 4), to);
        assert_eq!(first, PickTable { unit: 2, cells: vec![0, 1, V, V, V, 2, 3, V, V, V] });
        let second = PickTable::new(&runs, 1, Dims::new(1, 2, 6), to);
        assert_eq!(second.cells, [V, V, 0, 1, 2, V, V, 3, 4, 5]);
    }

    #[test]
    fn shuffled_channels_are_cells_of_one() {
        let runs = [run(0, 0, 1), run(0, 2, 1), run(0, 1, 1), run(0, 3, 1)];
        let found = PickTable::new(&runs, 0, Dims::new(1, 1, 4), Dims::new(1, 1, 4));
        assert_eq!(found, PickTable { unit: 1, cells: vec![0, 2, 1, 3] });
    }
}
