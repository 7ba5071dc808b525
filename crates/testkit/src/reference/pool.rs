use super::value::ReferenceValue;
use flipcast_graph::{Dims, Pool};

/// Largest value of each window; padding never wins.
pub(super) fn max_pool(input: &ReferenceValue, pool: Pool, dims: Dims) -> ReferenceValue {
    ReferenceValue::from_fn(input.images(), dims, |n, y, x, c| {
        window(input, pool, [n, y, x, c]).fold(f64::NEG_INFINITY, f64::max)
    })
}

/// The gradient of a max pool's input goes to each window's winner.
pub(super) fn max_pool_backward(gradient: &ReferenceValue, input: &ReferenceValue, pool: Pool) -> ReferenceValue {
    let mut result = ReferenceValue::zeros(input.images(), input.dims);
    for (i, slope) in gradient.values.iter().enumerate() {
        let at @ [n, _, _, c] = gradient.position(i);
        if let Some((y, x)) = winner(input, pool, at) {
            result.pixel_mut(n, y, x)[c] += slope;
        }
    }
    result
}

/// Row and column of the largest value in the window of one output element, the first one in reading order.
pub(super) fn winner(input: &ReferenceValue, pool: Pool, at @ [n, _, _, c]: [usize; 4]) -> Option<(usize, usize)> {
    let value = |(y, x)| input.at(n, y, x, c);
    positions(input.dims, pool, at).reduce(|best, next| if value(next) > value(best) { next } else { best })
}

/// Mean of each window; padding counts as zeros.
pub(super) fn avg_pool(input: &ReferenceValue, pool: Pool, dims: Dims) -> ReferenceValue {
    let area = (pool.kernel * pool.kernel) as f64;
    ReferenceValue::from_fn(input.images(), dims, |n, y, x, c| window(input, pool, [n, y, x, c]).sum::<f64>() / area)
}

/// The gradient of an average pool's input of `dims`.
pub(super) fn avg_pool_backward(gradient: &ReferenceValue, pool: Pool, dims: Dims) -> ReferenceValue {
    let area = (pool.kernel * pool.kernel) as f64;
    let mut result = ReferenceValue::zeros(gradient.images(), dims);
    for (i, slope) in gradient.values.iter().enumerate() {
        let at @ [n, _, _, c] = gradient.position(i);
        for (y, x) in positions(dims, pool, at) {
            result.pixel_mut(n, y, x)[c] += slope / area;
        }
    }
    result
}

/// Mean over all pixels.
pub(super) fn global_avg_pool(input: &ReferenceValue) -> ReferenceValue {
    let Dims { height, width, channels } = input.dims;
    ReferenceValue::from_fn(input.images(), Dims::new(1, 1, channels), |n, _, _, c| {
        let rows = 0..height;
        let sum: f64 = rows.flat_map(|y| (0..width).map(move |x| (y, x))).map(|(y, x)| input.at(n, y, x, c)).sum();
        sum / input.dims.pixels() as f64
    })
}

/// The gradient of a global average's input of `dims`: the same at every pixel.
pub(super) fn global_avg_pool_backward(gradient: &ReferenceValue, dims: Dims) -> ReferenceValue {
    let pixels = dims.pixels() as f64;
    ReferenceValue::from_fn(gradient.images(), dims, |n, _, _, c| gradient.at(n, 0, 0, c) / pixels)
}

/// The values in the window of one output element, padding left out.
pub(super) fn window(
    input: &ReferenceValue,
    pool: Pool,
    at @ [n, _, _, c]: [usize; 4],
) -> impl Iterator<Item = f64> + '_ {
    positions(input.dims, pool, at).map(move |(y, x)| input.at(n, y, x, c))
}

/// Rows and columns in the window of one output element, padding left out.
fn positions(dims: Dims, pool: Pool, [_, y, x, _]: [usize; 4]) -> impl Iterator<Item = (usize, usize)> {
    let along = move |out: usize, size: usize| {
        let start = out * pool.stride;
        (start..start + pool.kernel).filter_map(move |p| p.checked_sub(pool.padding)).filter(move |&p| p < size)
    };
    along(y, dims.height).flat_map(move |row| along(x, dims.width).map(move |column| (row, column)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn negatives() -> ReferenceValue {
        ReferenceValue { dims: Dims::new(2, 2, 1), values: vec![-1., -2., -3., -4.] }
    }

    const WIDE: Pool = Pool { kernel: 3, stride: 2, padding: 1, ceil: false };

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

    /// One window of all four pixels, and a gradient of 9 for it.
    fn nine() -> ReferenceValue {
        ReferenceValue { dims: Dims::new(1, 1, 1), values: vec![9.] }
    }

    #[test]
    fn the_first_of_equal_values_gets_the_gradient() {
        let ties = negatives().map(|v| v.max(-2.));
        let found = max_pool_backward(&nine(), &ties, WIDE);
        assert_eq!(found.values, [9., 0., 0., 0.]);
        let found = max_pool_backward(&nine(), &ties.map(|v| -v), WIDE);
        assert_eq!(found.values, [0., 9., 0., 0.]);
    }

    #[test]
    fn averages_share_their_gradient_equally() {
        let dims = negatives().dims;
        assert_eq!(avg_pool_backward(&nine(), WIDE, dims).values, [1.; 4]);
        assert_eq!(global_avg_pool_backward(&nine(), dims).values, [2.25; 4]);
    }
}
