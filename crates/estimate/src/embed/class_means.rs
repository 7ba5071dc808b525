use crate::embed::{Centres, EmbedError, Points};
use crate::parallel::map_ranges;

/// The mean of each class's points.
///
/// # Errors
/// When there is not one label below `classes` per point, or a class has no point.
pub fn class_means(points: &Points, labels: &[usize], classes: usize) -> Result<Centres, EmbedError> {
    points.check_labels(labels)?;
    if let Some(index) = labels.iter().position(|&label| label >= classes) {
        return Err(EmbedError::Label { index, found: labels[index], classes });
    }
    let mut counts = vec![0_usize; classes];
    for &label in labels {
        counts[label] += 1;
    }
    // Every class has a point from here on, so the means take no more memory than the points.
    if let Some(class) = counts.iter().position(|&count| count == 0) {
        return Err(EmbedError::EmptyClass { class });
    }
    let mut means = sum_points(points, labels, classes);
    for (mean, &count) in means.chunks_exact_mut(points.dims()).zip(&counts) {
        for value in mean {
            *value /= count as f64;
        }
    }
    Centres::new(means, points.dims())
}

/// Dimensions summed by one thread at a time.
const STEP: usize = 256;

/// The sum of the points of each label, in the order of the points; labels are below `classes`.
pub(crate) fn sum_points(points: &Points, labels: &[usize], classes: usize) -> Vec<f64> {
    let dims = points.dims();
    let parts = map_ranges(points.threads(), dims, STEP, |range| {
        let mut sums = vec![0.0; classes * range.len()];
        for (point, &label) in points.iter().zip(labels) {
            let sums = &mut sums[label * range.len()..][..range.len()];
            for (sum, &value) in sums.iter_mut().zip(&point[range.clone()]) {
                *sum += f64::from(value);
            }
        }
        sums
    });
    let mut sums = Vec::with_capacity(classes * dims);
    for class in 0..classes {
        for part in &parts {
            let width = part.len() / classes;
            sums.extend_from_slice(&part[class * width..][..width]);
        }
    }
    sums
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
        assert!(matches!(found(&[0, 2], 2), EmbedError::Label { index: 1, .. }));
        assert_eq!(found(&[0, 2], 3), EmbedError::EmptyClass { class: 1 });
    }
}
