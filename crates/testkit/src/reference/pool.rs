use super::value::ReferenceValue;
use flipcast_graph::{Dims, Pool};

/// Largest value of each window; padding never wins.
pub(super) fn max_pool(input: &ReferenceValue, pool: Pool, dims: Dims) -> ReferenceValue {
    ReferenceValue::from_fn(input.images(), dims, |n, y, x, c| {
        window(input, pool, [n, y, x, c]).fold(f64::NEG_INFINITY, f64::max)
    })
}

/// Mean of each window; padding counts as zeros.
pub(super) fn avg_pool(input: &ReferenceValue, pool: Pool, dims: Dims) -> ReferenceValue {
    let area = (pool.kernel * pool.kernel) as f64;
    ReferenceValue::from_fn(input.images(), dims, |n, y, x, c| {
        window(input, pool, [n, y, x, c]).sum::<f64>() / area
    })
}

/// Mean over all pixels.
pub(super) fn global_avg_pool(input: &ReferenceValue) -> ReferenceValue {
    let Dims {
        height,
        width,
        channels,
    } = input.dims;
    ReferenceValue::from_fn(input.images(), Dims::new(1, 1, channels), |n, _, _, c| {
        let rows = 0..height;
        let sum: f64 = rows
            .flat_map(|y| (0..width).map(move |x| (y, x)))
            .map(|(y, x)| input.at(n, y, x, c))
            .sum();
        sum / input.dims.pixels() as f64
    })
}

/// The values in the window of one output element, padding left out.
pub(super) fn window(
    input: &ReferenceValue,
    pool: Pool,
    [n, y, x, c]: [usize; 4],
) -> impl Iterator<Item = f64> + '_ {
    let along = move |out: usize, size: usize| {
        let start = out * pool.stride;
        (start..start + pool.kernel)
            .filter_map(move |p| p.checked_sub(pool.padding))
            .filter(move |&p| p < size)
    };
    along(y, input.dims.height)
        .flat_map(move |row| along(x, input.dims.width).map(move |column| (row, column)))
        .map(move |(row, column)| input.at(n, row, column, c))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn negatives() -> ReferenceValue {
        ReferenceValue {
            dims: Dims::new(2, 2, 1),
            values: vec![-1., -2., -3., -4.],
        }
    }

    const WIDE: Pool = Pool {
        kernel: 3,
        stride: 2,
        padding: 1,
    };

    #[test]
    fn padding_never_wins_a_max_pool() {
        let dims = WIDE.resolve(negatives().dims).unwrap();
        assert_eq!(max_pool(&negatives(), WIDE, dims).values, [-1.]);
    }

    #[test]
    fn padding_counts_in_an_average() {
        let dims = WIDE.resolve(negatives().dims).unwrap();
        assert_eq!(avg_pool(&negatives(), WIDE, dims).values, [-10. / 9.]);
    }

    #[test]
    fn the_global_average_leaves_one_pixel() {
        let out = global_avg_pool(&negatives());
        assert_eq!((out.dims, out.values), (Dims::new(1, 1, 1), vec![-2.5]));
    }
}
