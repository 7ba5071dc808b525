use crate::embed::distance::{LANES, Panels, Real};
use crate::embed::sample::sample_indices;
use crate::embed::{EmbedError, Points};
use crate::parallel::map_ranges;
use flipcast_ground::SplitMix64;

/// Points whose distances are computed together: enough to read the others rarely, few enough to stay in a cache.
const QUERIES: usize = 96;
/// Squared differences of all points up to which distances are computed in double precision; a moment's work.
const DOUBLE: usize = 1 << 31;

/// How well each point sits in its cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct Silhouette {
    /// Mean of `values`.
    pub mean: f64,
    /// One value in [-1, 1] per measured point.
    pub values: Vec<f64>,
    /// The measured points, ascending.
    pub points: Vec<usize>,
}

/// The silhouette of every point.
///
/// *Idea.* A point fits its cluster when it is closer to its own cluster than to the nearest other one.
///
/// *Formula.* `s = (b - a) / max(a, b)`, where `a` is the mean distance to the other points of the own cluster and `b` the
/// smallest mean distance to the points of another cluster. A point alone in its cluster has `s = 0`.
///
/// *Reference.* Rousseeuw, "Silhouettes: a graphical aid to the interpretation and validation of cluster analysis", 1987.
///
/// *Departures from the reference.* `s = 0` also where `a` and `b` are both zero, which the reference leaves open. Where all
/// points have more than `2^31` squared differences, these are computed in single precision (sums of distances never are).
///
/// # Errors
/// When there is not one label per point, or fewer than two clusters have points.
pub fn silhouette(points: &Points, labels: &[usize]) -> Result<Silhouette, EmbedError> {
    measure(points, labels, (0..points.count()).collect())
}

/// The silhouette of `sample` points chosen by `seed`, each against all points.
///
/// The time grows with `sample * points.count()`, and each value is the one [`silhouette`] gives that point.
///
/// # Errors
/// As [`silhouette`], and when `sample` is zero.
pub fn silhouette_sampled(
    points: &Points,
    labels: &[usize],
    sample: usize,
    seed: u64,
) -> Result<Silhouette, EmbedError> {
    if sample == 0 {
        return Err(EmbedError::Setting { setting: "sample", found: 0, expected: "at least 1".into() });
    }
    let chosen = sample_indices(&mut SplitMix64::new(seed), points.count(), sample);
    measure(points, labels, chosen)
}

fn measure(points: &Points, labels: &[usize], chosen: Vec<usize>) -> Result<Silhouette, EmbedError> {
    points.check_labels(labels)?;
    // Labels may be any numbers; clusters are numbered by rank, so tables are as long as there are clusters.
    let mut names = labels.to_vec();
    names.sort_unstable();
    names.dedup();
    if names.len() < 2 {
        return Err(EmbedError::TooFewClusters { found: names.len() });
    }
    let clusters: Vec<usize> = labels.iter().map(|label| names.partition_point(|name| name < label)).collect();
    let mut counts = vec![0_usize; names.len()];
    for &cluster in &clusters {
        counts[cluster] += 1;
    }
    let pairs = points.count().saturating_mul(points.count());
    let by_cluster = ByCluster { points, chosen: &chosen, clusters: &clusters, counts: &counts };
    let values = if pairs.saturating_mul(points.dims()) <= DOUBLE {
        let panels = Panels::<f64>::new(points.iter(), points.dims());
        by_cluster.values(&panels, |panel, rows, out| panels.squared(panel, rows, out))
    } else {
        let panels = Panels::<f32>::new(points.iter(), points.dims());
        by_cluster.values(&panels, |panel, rows, out| panels.squared(panel, rows, out))
    };
    Ok(Silhouette { mean: values.iter().sum::<f64>() / values.len() as f64, values, points: chosen })
}

/// What the silhouettes of the chosen points are computed from.
struct ByCluster<'a> {
    points: &'a Points,
    chosen: &'a [usize],
    /// Of each point.
    clusters: &'a [usize],
    /// Points of each cluster.
    counts: &'a [usize],
}

impl ByCluster<'_> {
    /// The value of each chosen point; `squared` gives the squared distances of some rows to a panel of all points.
    fn values<T: Real>(
        &self,
        panels: &Panels<T>,
        squared: impl Fn(usize, &[&[f32]], &mut [[f64; LANES]]) + Sync,
    ) -> Vec<f64> {
        let clusters = self.counts.len();
        let parts = map_ranges(self.points.threads(), self.chosen.len(), QUERIES, |range| {
            let queries = &self.chosen[range];
            let rows: Vec<&[f32]> = queries.iter().map(|&q| self.points.point(q)).collect();
            let mut sums = vec![0.0; queries.len() * clusters];
            let mut found = vec![[0.0; LANES]; queries.len()];
            for panel in 0..panels.count() {
                squared(panel, &rows, &mut found);
                let labels = &self.clusters[panels.rows_of(panel)];
                for (sums, found) in sums.chunks_exact_mut(clusters).zip(&found) {
                    for (&label, distance) in labels.iter().zip(found.map(f64::sqrt)) {
                        sums[label] += distance;
                    }
                }
            }
            let sums = sums.chunks_exact(clusters);
            let values = queries.iter().zip(sums);
            values.map(|(&query, sums)| value(sums, self.counts, self.clusters[query])).collect::<Vec<f64>>()
        });
        parts.into_iter().flatten().collect()
    }
}

/// The silhouette of a point of cluster `own` from the sums of its distances to each cluster.
fn value(sums: &[f64], counts: &[usize], own: usize) -> f64 {
    if counts[own] == 1 {
        return 0.0;
    }
    let inside = sums[own] / (counts[own] - 1) as f64;
    let outside = (0..sums.len())
        .filter(|&cluster| cluster != own)
        .map(|cluster| sums[cluster] / counts[cluster] as f64)
        .fold(f64::INFINITY, f64::min);
    let larger = inside.max(outside);
    if larger > 0.0 { (outside - inside) / larger } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hand_computed_values_are_found() {
        let points = Points::new(vec![0.0, 1.0, 4.0, 6.0, 20.0], 1).unwrap();
        let found = silhouette(&points, &[7, 7, 3, 3, 9]).unwrap();
        let expected = [(5.0 - 1.0) / 5.0, (4.0 - 1.0) / 4.0, (3.5 - 2.0) / 3.5, (5.5 - 2.0) / 5.5, 0.0];
        assert_eq!(found.values, expected);
    }

    #[test]
    fn sampled_values_equal_the_exact_ones() {
        let values: Vec<f32> = (0..150).map(|k| (k * k % 61) as f32).collect();
        let points = Points::new(values, 3).unwrap();
        let labels: Vec<usize> = (0..50).map(|k| k % 4).collect();
        let all = silhouette(&points, &labels).unwrap();
        let some = silhouette_sampled(&points, &labels, 20, 11).unwrap();
        assert_eq!(some.values.len(), 20);
        for (&point, &value) in some.points.iter().zip(&some.values) {
            assert_eq!(value, all.values[point]);
        }
        assert_eq!(silhouette_sampled(&points, &labels, 50, 1).unwrap().mean, all.mean);
    }

    #[test]
    fn large_sets_lose_hardly_any_precision() {
        let mut random = SplitMix64::new(12);
        let values: Vec<f32> = (0..500 * 300).map(|k| (random.uniform() + (k / 300 % 4) as f64 * 0.1) as f32).collect();
        let points = Points::new(values, 300).unwrap();
        let labels: Vec<usize> = (0..500).map(|k| k % 4).collect();
        let double = silhouette(&points, &labels).unwrap();
        let chosen: Vec<usize> = (0..500).collect();
        let counts = [125; 4];
        let by_cluster = ByCluster { points: &points, chosen: &chosen, clusters: &labels, counts: &counts };
        let panels = Panels::<f32>::new(points.iter(), 300);
        let single = by_cluster.values(&panels, |panel, rows, out| panels.squared(panel, rows, out));
        for (single, double) in single.iter().zip(&double.values) {
            // Measured: 1.5e-8.
            assert!((single - double).abs() < 6e-8, "{single} {double}");
        }
    }

    #[test]
    fn the_number_of_threads_changes_nothing() {
        let values: Vec<f32> = (0..1200).map(|k| (k * k % 97) as f32).collect();
        let points = Points::new(values, 3).unwrap();
        let labels: Vec<usize> = (0..400).map(|k| k % 5).collect();
        let all = silhouette(&points, &labels);
        for threads in 1..4 {
            assert_eq!(silhouette(&points.clone().with_threads(threads), &labels), all);
        }
    }

    #[test]
    fn equal_points_have_no_preference() {
        let points = Points::new(vec![1.0; 8], 2).unwrap();
        let found = silhouette(&points, &[0, 0, 1, 1]).unwrap();
        assert_eq!(found.mean, 0.0);
    }

    #[test]
    fn one_cluster_is_refused() {
        let points = Points::new(vec![1.0, 2.0], 1).unwrap();
        assert_eq!(silhouette(&points, &[4, 4]), Err(EmbedError::TooFewClusters { found: 1 }));
        assert!(silhouette(&points, &[4]).is_err());
        assert!(silhouette_sampled(&points, &[0, 1], 0, 0).is_err());
    }
}
