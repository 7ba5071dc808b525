use crate::embed::distance::squared_of_centres;
use crate::embed::{Centres, EmbedError, solve_assignment};

/// How far clusters lie from the classes they match best.
#[derive(Clone, Debug, PartialEq)]
pub struct ShiftDistance {
    /// Mean distance of the matched pairs.
    pub mean: f64,
    /// Class mean and cluster of each pair, by class.
    pub pairs: Vec<(usize, usize)>,
}

/// The mean distance between class means and the clusters matched to them.
///
/// *Idea.* Clusters may be tight and yet sit in the wrong places. Each cluster is given the class mean it can best stand for;
/// what distance remains is the shift.
///
/// *Formula.* `1/k * min sum_c |mean_c - centroid_m(c)|` over one-to-one matches `m`.
///
/// *Reference.* Press et al., "The entropy enigma: success and failure of entropy minimization", 2024.
///
/// *Departures from the reference.* Sets of different size are accepted; the smaller one is matched completely.
///
/// # Errors
/// When the two sets have different numbers of dimensions.
pub fn shift_distance(means: &Centres, centroids: &Centres) -> Result<ShiftDistance, EmbedError> {
    if means.dims() != centroids.dims() {
        return Err(EmbedError::Dims { found: centroids.dims(), expected: means.dims() });
    }
    let costs: Vec<f64> = means
        .iter()
        .flat_map(|mean| centroids.iter().map(|centroid| squared_of_centres(mean, centroid).sqrt()))
        .collect();
    let matched = solve_assignment(&costs, centroids.count())?;
    let pairs: Vec<(usize, usize)> = matched
        .columns
        .iter()
        .enumerate()
        .filter_map(|(class, cluster)| cluster.map(|cluster| (class, cluster)))
        .collect();
    Ok(ShiftDistance { mean: matched.cost / pairs.len() as f64, pairs })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn swapped_clusters_have_no_shift() {
        let means = Centres::new(vec![0.0, 0.0, 3.0, 4.0], 2).unwrap();
        let swapped = Centres::new(vec![3.0, 4.0, 0.0, 0.0], 2).unwrap();
        let found = shift_distance(&means, &swapped).unwrap();
        assert_eq!(found.mean, 0.0);
        assert_eq!(found.pairs, [(0, 1), (1, 0)]);
    }

    #[test]
    fn the_smaller_set_is_matched_completely() {
        let means = Centres::new(vec![0.0, 10.0, 20.0], 1).unwrap();
        let centroids = Centres::new(vec![19.0], 1).unwrap();
        let found = shift_distance(&means, &centroids).unwrap();
        assert_eq!(found.mean, 1.0);
        assert_eq!(found.pairs, [(2, 0)]);
    }

    #[test]
    fn different_dimensions_are_refused() {
        let means = Centres::new(vec![0.0, 1.0], 2).unwrap();
        let centroids = Centres::new(vec![0.0], 1).unwrap();
        assert!(matches!(shift_distance(&means, &centroids), Err(EmbedError::Dims { found: 1, expected: 2 })));
    }
}
