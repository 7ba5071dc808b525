use crate::embed::Points;
use crate::parallel::map_ranges;
use flipcast_ground::SplitMix64;

/// Rounds of the search; a layout to start from need not be closer.
const ROUNDS: usize = 30;
/// Points handled by one thread at a time.
const STEP: usize = 256;

/// Each point's coordinates along the two directions in which the points differ most, the first direction first.
///
/// Subspace iteration: two random directions are multiplied by the covariance again and again and kept at right angles. The
/// largest value of each direction is positive, so that the sign is fixed.
pub(crate) fn first_components(points: &Points, seed: u64) -> Vec<[f64; 2]> {
    let dims = points.dims();
    let mut mean = vec![0.0; dims];
    for point in points.iter() {
        for (mean, &value) in mean.iter_mut().zip(point) {
            *mean += f64::from(value);
        }
    }
    mean.iter_mut().for_each(|m| *m /= points.count() as f64);
    let mut random = SplitMix64::new(seed);
    let mut directions: Vec<[f64; 2]> = (0..dims).map(|_| [random.uniform() - 0.5, random.uniform() - 0.5]).collect();
    make_orthonormal(&mut directions);
    for _ in 0..ROUNDS {
        let along = project(points, &mean, &directions);
        let parts = map_ranges(points.threads(), points.count(), STEP, |range| {
            let mut sums = vec![[0.0; 2]; dims];
            for index in range {
                let [a, b] = along[index];
                let centred = points.point(index).iter().zip(&mean);
                for (sum, (&value, mean)) in sums.iter_mut().zip(centred) {
                    let value = f64::from(value) - mean;
                    *sum = [sum[0] + a * value, sum[1] + b * value];
                }
            }
            sums
        });
        directions.fill([0.0; 2]);
        for part in parts {
            for (direction, sum) in directions.iter_mut().zip(part) {
                *direction = [direction[0] + sum[0], direction[1] + sum[1]];
            }
        }
        make_orthonormal(&mut directions);
    }
    for axis in 0..2 {
        let largest = directions.iter().map(|d| d[axis]);
        let largest = largest.reduce(|a, b| if b.abs() > a.abs() { b } else { a });
        if largest.is_some_and(|value| value < 0.0) {
            directions.iter_mut().for_each(|d| d[axis] = -d[axis]);
        }
    }
    project(points, &mean, &directions)
}

fn project(points: &Points, mean: &[f64], directions: &[[f64; 2]]) -> Vec<[f64; 2]> {
    let parts = map_ranges(points.threads(), points.count(), STEP, |range| {
        let of = |index: usize| {
            let mut sums = [0.0; 2];
            let centred = points.point(index).iter().zip(mean);
            for ((&value, mean), [a, b]) in centred.zip(directions) {
                let value = f64::from(value) - mean;
                sums = [sums[0] + value * a, sums[1] + value * b];
            }
            sums
        };
        range.map(of).collect::<Vec<_>>()
    });
    parts.into_iter().flatten().collect()
}

/// Gives both directions length one and makes the second perpendicular to the first; a direction without length becomes zero.
fn make_orthonormal(directions: &mut [[f64; 2]]) {
    for axis in 0..2 {
        if axis == 1 {
            let overlap: f64 = directions.iter().map(|d| d[0] * d[1]).sum();
            directions.iter_mut().for_each(|d| d[1] -= overlap * d[0]);
        }
        let length = directions.iter().map(|d| d[axis] * d[axis]).sum::<f64>().sqrt();
        let scale = if length > 0.0 { 1.0 / length } else { 0.0 };
        directions.iter_mut().for_each(|d| d[axis] *= scale);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directions_of_largest_variance_are_found() {
        let mut random = SplitMix64::new(1);
        // Most spread along the third axis, then along the first.
        let values = (0..300).flat_map(|_| {
            let mut unit = || random.uniform() - 0.5;
            [3.0 * unit() + 7.0, 0.1 * unit(), 9.0 * unit() - 4.0]
        });
        let values: Vec<f32> = values.map(|value| value as f32).collect();
        let points = Points::new(values.clone(), 3).unwrap();
        let found = first_components(&points, 5);
        let spread = |of: &dyn Fn(usize) -> f64| {
            let mean = (0..300).map(of).sum::<f64>() / 300.0;
            (0..300).map(|i| (of(i) - mean).powi(2)).sum::<f64>()
        };
        let kept = [0, 1].map(|component| spread(&|i| found[i][component]));
        let along = [2, 0].map(|axis| spread(&|i| f64::from(values[3 * i + axis])));
        // No two perpendicular directions keep more, and the axes are all but the best.
        assert!(kept[0] >= along[0] && kept[0] + kept[1] >= along[0] + along[1]);
        for (kept, along) in kept.iter().zip(along) {
            assert!((kept / along - 1.0).abs() < 0.05, "{kept} {along}");
        }
    }

    #[test]
    fn points_on_a_line_have_one_component() {
        let points = Points::new((0..10).map(|k| k as f32).collect(), 1).unwrap();
        let found = first_components(&points, 0);
        assert!((found[9][0] - 4.5).abs() < 1e-12 && found[9][1].abs() < 1e-9);
    }
}
