use crate::outputs::check_classes;
use crate::{Embeddings, EstimateError, Score};

/// Dispersion score: how far predicted classes lie apart in embedding space.
///
/// *Idea.* Classes that are well separated are told apart well, however compact they are.
/// *Formula.* `log( sum_k n_k |m_k - m|^2 / (K - 1) )`, with `m_k` the mean embedding of the `n_k` images predicted as `k` and `m`
/// that of all.
/// *Reference.* Xie et al., "On the Importance of Feature Separability in Predicting Out-Of-Distribution Error", NeurIPS 2023.
/// *Departures from the reference.* None. The sum grows with the number of images, so a curve holds only for sets of the
/// size it was fitted on. Where all class means coincide the logarithm does not exist and the set is refused.
pub fn dispersion(embeddings: &Embeddings, predicted: &[usize], classes: usize) -> Result<Score, EstimateError> {
    check_classes("prediction", predicted, embeddings.images(), classes)?;
    if classes < 2 {
        return Err(EstimateError::TooFew { what: "classes", found: classes, expected: 2 });
    }
    let dims = embeddings.dims();
    // Only classes that occur get a row, so a large number of classes takes no memory.
    let mut present = predicted.to_vec();
    present.sort_unstable();
    present.dedup();
    let mut sums = vec![0.0f64; present.len() * dims];
    let mut counts = vec![0usize; present.len()];
    for (row, class) in embeddings.rows().zip(predicted) {
        let at = present.partition_point(|c| c < class);
        counts[at] += 1;
        for (sum, &x) in sums[at * dims..][..dims].iter_mut().zip(row) {
            *sum += f64::from(x);
        }
    }
    let images = embeddings.images() as f64;
    let mut centre = vec![0.0f64; dims];
    for row in sums.chunks_exact(dims) {
        centre.iter_mut().zip(row).for_each(|(c, s)| *c += s);
    }
    centre.iter_mut().for_each(|c| *c /= images);
    let scatter: f64 = sums
        .chunks_exact(dims)
        .zip(&counts)
        .map(|(row, &count)| {
            let count = count as f64;
            let squares = row.iter().zip(&centre).map(|(s, c)| (s / count - c).powi(2));
            count * squares.sum::<f64>()
        })
        .sum();
    let value = (scatter / (classes - 1) as f64).ln();
    if present.len() < 2 || !value.is_finite() {
        return Err(EstimateError::Undefined {
            what: "the dispersion score",
            found: "all images share one class mean",
            expected: "at least two predicted classes with different means",
        });
    }
    Ok(Score::of_images(value, embeddings.images()))
}

/// The published score is the logarithm of a sum over images; here of their mean, times 1,000.
pub(crate) fn dispersion_of_a_thousand(
    embeddings: &Embeddings,
    predicted: &[usize],
    classes: usize,
) -> Result<Score, EstimateError> {
    let mut score = dispersion(embeddings, predicted, classes)?;
    score.value += (1000.0 / predicted.len() as f64).ln();
    Ok(score)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_groups_follow_the_formula() {
        // Means 0 and 4, counts 1 and 3, centre 3: 1 * 9 + 3 * 1 = 12, over K - 1 = 3.
        let embeddings = Embeddings::new(vec![0.0, 3.0, 4.0, 5.0], 1).unwrap();
        let score = dispersion(&embeddings, &[2, 0, 0, 0], 4).unwrap();
        assert!((score.value - 4f64.ln()).abs() < 1e-12);
    }

    #[test]
    fn undefined_sets_are_refused() {
        let embeddings = Embeddings::new(vec![1.0, 1.0, 1.0, 1.0], 2).unwrap();
        for predicted in [[0, 0], [0, 1]] {
            let error = dispersion(&embeddings, &predicted, 3).unwrap_err();
            assert!(matches!(error, EstimateError::Undefined { .. }), "{error}");
        }
        assert!(dispersion(&embeddings, &[0], 3).is_err());
        assert!(dispersion(&embeddings, &[0, 3], 3).is_err());
        assert!(dispersion(&embeddings, &[0, 0], 1).is_err());
    }

    #[test]
    fn a_huge_class_count_takes_no_memory() {
        let embeddings = Embeddings::new(vec![0.0, 1.0], 1).unwrap();
        assert!(dispersion(&embeddings, &[0, usize::MAX - 1], usize::MAX).is_ok());
    }
}
