use crate::{Centres, EmbedError, Points};

/// The mean of each class's points.
///
/// # Errors
/// When there is not one label below `classes` per point, or a class has no point.
pub fn class_means(
    points: &Points,
    labels: &[usize],
    classes: usize,
) -> Result<Centres, EmbedError> {
    points.check_labels(labels)?;
    if let Some(index) = labels.iter().position(|&label| label >= classes) {
        return Err(EmbedError::Label {
            index,
            found: labels[index],
            classes,
        });
    }
    let mut counts = vec![0_usize; classes];
    for &label in labels {
        counts[label] += 1;
    }
    // Every class has a point from here on, so the means take no more memory than the points.
    if let Some(class) = counts.iter().position(|&count| count == 0) {
        return Err(EmbedError::EmptyClass { class });
    }
    let mut means = vec![0.0; classes * points.dims()];
    add_points(&mut means, points, labels);
    for (mean, &count) in means.chunks_exact_mut(points.dims()).zip(&counts) {
        for value in mean {
            *value /= count as f64;
        }
    }
    Centres::new(means, points.dims())
}

/// Adds each point to the row of `sums` its label names, in the order of the points.
pub(crate) fn add_points(sums: &mut [f64], points: &Points, labels: &[usize]) {
    let dims = points.dims();
    for (point, &label) in points.iter().zip(labels) {
        for (sum, &value) in sums[label * dims..][..dims].iter_mut().zip(point) {
            *sum += f64::from(value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_are_taken_per_class() {
        let points = Points::new(vec![1.0, 2.0, 3.0, 6.0, 10.0, -1.0], 2).unwrap();
        let means = class_means(&points, &[0, 0, 1], 2).unwrap();
        assert_eq!(means.centre(0), [2.0, 4.0]);
        assert_eq!(means.centre(1), [10.0, -1.0]);
    }

    #[test]
    fn labels_that_fit_no_class_are_refused() {
        let points = Points::new(vec![1.0, 2.0], 1).unwrap();
        let found = |labels: &[usize], classes| class_means(&points, labels, classes).unwrap_err();
        assert!(matches!(found(&[0], 1), EmbedError::LabelCount { .. }));
        assert!(matches!(
            found(&[0, 2], 2),
            EmbedError::Label { index: 1, .. }
        ));
        assert_eq!(found(&[0, 2], 3), EmbedError::EmptyClass { class: 1 });
    }
}
