/// A column is taken to depend on earlier ones if less than this share of its length is new.
const DEPENDENT: f64 = 1e-11;

/// The coefficients that bring `sum_j coefficients[j] * columns[j]` nearest to `target`, by Householder reflections.
/// Nothing if the columns depend on each other or there are more of them than rows.
pub(crate) fn least_squares(columns: &[Vec<f64>], target: &[f64]) -> Option<Vec<f64>> {
    let rows = target.len();
    let width = columns.len();
    if width > rows {
        return None;
    }
    let mut columns = columns.to_vec();
    let mut target = target.to_vec();
    for at in 0..width {
        let whole = norm(&columns[at]);
        let new = norm(&columns[at][at..]);
        if new.is_nan() || new <= DEPENDENT * whole {
            return None;
        }
        // The reflection takes the lower part of this column to (alpha, 0, ..., 0).
        let alpha = -new.copysign(columns[at][at]);
        let mut mirror = columns[at][at..].to_vec();
        mirror[0] -= alpha;
        let length = dot(&mirror, &mirror);
        for column in columns[at..].iter_mut().chain([&mut target]) {
            let lower = &mut column[at..];
            let factor = 2.0 * dot(&mirror, lower) / length;
            lower.iter_mut().zip(&mirror).for_each(|(c, m)| *c -= factor * m);
        }
    }
    let mut coefficients = vec![0.0; width];
    for row in (0..width).rev() {
        let known: f64 = (row + 1..width).map(|j| columns[j][row] * coefficients[j]).sum();
        coefficients[row] = (target[row] - known) / columns[row][row];
    }
    coefficients.iter().all(|c| c.is_finite()).then_some(coefficients)
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}

fn norm(a: &[f64]) -> f64 {
    dot(a, a).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use flipcast_ground::SplitMix64;

    #[test]
    fn the_residual_is_orthogonal_to_every_column() {
        let mut random = SplitMix64::new(12);
        let columns: Vec<Vec<f64>> = (0..4).map(|_| (0..21).map(|_| random.normal()).collect()).collect();
        let target: Vec<f64> = (0..21).map(|_| random.normal()).collect();
        let coefficients = least_squares(&columns, &target).unwrap();
        let residual: Vec<f64> =
            (0..21).map(|row| target[row] - (0..4).map(|j| coefficients[j] * columns[j][row]).sum::<f64>()).collect();
        for column in &columns {
            assert!(dot(column, &residual).abs() < 1e-12);
        }
    }

    #[test]
    fn dependent_columns_have_no_answer() {
        let column = vec![1.0, 2.0, 3.0];
        let double = column.iter().map(|c| 2.0 * c).collect();
        assert!(least_squares(&[column.clone(), double], &column).is_none());
        assert!(least_squares(&[vec![0.0; 3]], &column).is_none());
        assert!(least_squares(&[vec![1.0], vec![2.0]], &[1.0]).is_none());
        assert!(least_squares(&[vec![f64::NAN; 3]], &column).is_none());
    }
}
