use crate::{CurveKind, Direction, EstimateError, fit_curve};

/// Errors on groups of points the curve has not seen.
///
/// *Idea.* Severities of one corruption resemble each other, so leaving out single points flatters a fit. Leaving out the whole
/// group shows how the curve does on a kind of shift it does not know.
/// *Formula.* For each point of group `g`: prediction of the curve fitted to all points outside `g`, minus the accuracy.
/// *Reference.* Cross-validation by groups, as in any statistics text.
/// *Departures from the reference.* None.
pub fn leave_group_out<G: PartialEq>(
    kind: CurveKind,
    x: &[f64],
    y: &[f64],
    groups: &[G],
    direction: Direction,
) -> Result<Vec<f64>, EstimateError> {
    for (what, found) in [("accuracies", y.len()), ("groups", groups.len())] {
        if found != x.len() {
            return Err(EstimateError::Length { what, found, expected: x.len() });
        }
    }
    let mut errors = vec![0.0; x.len()];
    for (first, group) in groups.iter().enumerate() {
        if groups[..first].contains(group) {
            continue;
        }
        let (kept_x, kept_y): (Vec<f64>, Vec<f64>) =
            (0..x.len()).filter(|at| groups[*at] != *group).map(|at| (x[at], y[at])).unzip();
        let curve = fit_curve(kind, &kept_x, &kept_y, direction)?;
        for at in (0..x.len()).filter(|at| groups[*at] == *group) {
            errors[at] = curve.predict(x[at]).value - y[at];
        }
    }
    Ok(errors)
}

/// Errors on single points the curve has not seen: [`leave_group_out`] with every point its own group.
pub fn leave_one_out(kind: CurveKind, x: &[f64], y: &[f64], direction: Direction) -> Result<Vec<f64>, EstimateError> {
    let groups: Vec<usize> = (0..x.len()).collect();
    leave_group_out(kind, x, y, &groups, direction)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_on_a_line_leave_no_error() {
        let x = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0];
        let y = x.map(|x| 0.8 - 0.1 * x);
        let groups = ["clean", "blur", "blur", "noise", "noise", "noise"];
        for kind in [CurveKind::Linear, CurveKind::Monotone] {
            let errors = leave_group_out(kind, &x, &y, &groups, Direction::Decreasing).unwrap();
            assert!(errors.iter().all(|e| e.abs() < 1e-12), "{errors:?}");
        }
    }

    #[test]
    fn the_point_itself_is_not_seen() {
        // Without the third point the others lie on 0.5.
        let errors =
            leave_one_out(CurveKind::Linear, &[0.0, 1.0, 2.0], &[0.5, 0.5, 0.8], Direction::Decreasing).unwrap();
        assert!((errors[2] + 0.3).abs() < 1e-12, "{errors:?}");
    }

    #[test]
    fn what_cannot_be_fitted_is_refused() {
        let fit =
            |x: &[f64], groups: &[u8]| leave_group_out(CurveKind::Linear, x, &[0.5; 3], groups, Direction::Decreasing);
        assert!(fit(&[0.0, 1.0, 2.0], &[1, 1, 1]).is_err());
        assert!(fit(&[0.0, 1.0, 2.0], &[1, 2]).is_err());
        assert!(fit(&[0.0, f64::NAN, 2.0], &[1, 2, 3]).is_err());
    }
}
