use crate::embed::class_means::sum_points;
use crate::embed::distance::{LANES, Panels, squared_of_points};
use crate::embed::{Centres, EmbedError, Points};
use crate::parallel::map_ranges;
use flipcast_ground::SplitMix64;
use serde::{Deserialize, Serialize};

/// Points assigned by one thread at a time.
const STEP: usize = 96;

/// Settings of [`kmeans`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KmeansConfig {
    /// Number of clusters.
    pub clusters: usize,
    /// Independent starts, of which the best result is kept.
    pub restarts: usize,
    /// Most rounds of one start.
    pub max_rounds: usize,
    /// Seed of all starts.
    pub seed: u64,
}

impl KmeansConfig {
    /// Ten starts of at most 300 rounds.
    pub fn new(clusters: usize, seed: u64) -> Self {
        Self { clusters, restarts: 10, max_rounds: 300, seed }
    }

    /// Refuses settings outside their ranges.
    ///
    /// # Errors
    /// When there are fewer points than clusters, or a setting is zero.
    pub fn check(&self, points: usize) -> Result<(), EmbedError> {
        let settings = [
            ("clusters", self.clusters, points),
            ("restarts", self.restarts, usize::MAX),
            ("max_rounds", self.max_rounds, usize::MAX),
        ];
        for (setting, found, most) in settings {
            if found == 0 || found > most {
                let expected = match most {
                    usize::MAX => "at least 1".into(),
                    _ => format!("1 to {most}, the number of points"),
                };
                return Err(EmbedError::Setting { setting, found, expected });
            }
        }
        Ok(())
    }
}

/// Clusters of points.
#[derive(Clone, Debug, PartialEq)]
pub struct Kmeans {
    /// Mean of each cluster.
    pub centres: Centres,
    /// Cluster of each point.
    pub labels: Vec<usize>,
    /// Sum of squared distances of the points to their centres.
    pub inertia: f64,
    /// Rounds the kept start took.
    pub rounds: usize,
    /// Whether the kept start ended because nothing changed any more.
    pub converged: bool,
}

/// Groups points around centres.
///
/// *Idea.* Spread the first centres out at random; then move each centre to the mean of the points nearest to it until no point
/// changes its centre. Keep the best of several starts.
///
/// *Formula.* Minimises `sum_i min_k |x_i - c_k|^2`. A first centre is drawn with probability proportional to the squared
/// distance to the centres drawn before it.
///
/// *Reference.* Lloyd, "Least squares quantization in PCM", 1982; Arthur and Vassilvitskii, "k-means++: the advantages of
/// careful seeding", 2007.
///
/// *Departures from the reference.* A cluster that loses all points takes the point farthest from its centre. Where fewer
/// different points than clusters exist, some clusters stay empty. Equal distances go to the cluster with the lower number,
/// equal results to the earlier start.
///
/// # Errors
/// When the settings do not fit the points.
pub fn kmeans(points: &Points, config: &KmeansConfig) -> Result<Kmeans, EmbedError> {
    config.check(points.count())?;
    let mut seeds = SplitMix64::new(config.seed);
    let mut best: Option<Kmeans> = None;
    for _ in 0..config.restarts {
        let mut random = SplitMix64::new(seeds.next_u64());
        let centres = first_centres(points, config.clusters, &mut random)?;
        let found = run_lloyd(points, centres, config.max_rounds);
        if best.as_ref().is_none_or(|best| found.inertia < best.inertia) {
            best = Some(found);
        }
    }
    Ok(best.expect("`check` asks for at least one start"))
}

/// Centres at points drawn one after the other by their squared distance to those before.
fn first_centres(points: &Points, clusters: usize, random: &mut SplitMix64) -> Result<Centres, EmbedError> {
    let dims = points.dims();
    let mut centres = Vec::with_capacity(clusters * dims);
    let mut nearest = vec![f64::INFINITY; points.count()];
    let mut chosen = random.below(points.count());
    for drawn in 0..clusters {
        if drawn > 0 {
            chosen = draw(&nearest, random);
        }
        let centre = points.point(chosen);
        let parts = map_ranges(points.threads(), points.count(), STEP, |range| {
            let distances = range.map(|index| squared_of_points(points.point(index), centre));
            distances.collect::<Vec<f64>>()
        });
        for (nearest, distance) in nearest.iter_mut().zip(parts.into_iter().flatten()) {
            *nearest = nearest.min(distance);
        }
        centres.extend(centre.iter().map(|&value| f64::from(value)));
    }
    Centres::new(centres, dims)
}

/// A position drawn with probability proportional to its weight; uniform where all weights are zero.
fn draw(weights: &[f64], random: &mut SplitMix64) -> usize {
    let total: f64 = weights.iter().sum();
    let mut left = random.uniform() * total;
    if total > 0.0 {
        for (index, &weight) in weights.iter().enumerate() {
            left -= weight;
            if left < 0.0 {
                return index;
            }
        }
    }
    // Reached without weights, or when rounding leaves a rest behind the last one.
    match weights.iter().rposition(|&weight| weight > 0.0) {
        Some(last) => last,
        None => random.below(weights.len()),
    }
}

fn run_lloyd(points: &Points, mut centres: Centres, max_rounds: usize) -> Kmeans {
    let (mut labels, mut distances) = nearest_centres(points, &centres);
    let mut rounds = 0;
    let mut converged = false;
    while rounds < max_rounds && !converged {
        rounds += 1;
        fill_empty(centres.count(), &mut labels, &mut distances);
        move_centres(points, &labels, &mut centres);
        let (next, next_distances) = nearest_centres(points, &centres);
        converged = next == labels;
        (labels, distances) = (next, next_distances);
    }
    Kmeans { inertia: distances.iter().sum(), centres, labels, rounds, converged }
}

/// The nearest centre of each point and the squared distance to it.
fn nearest_centres(points: &Points, centres: &Centres) -> (Vec<usize>, Vec<f64>) {
    let panels = Panels::<f64>::of_wide(centres.iter(), points.dims());
    let parts = map_ranges(points.threads(), points.count(), STEP, |range| {
        let queries: Vec<&[f32]> = range.map(|index| points.point(index)).collect();
        let mut nearest = vec![(0, f64::INFINITY); queries.len()];
        let mut found = vec![[0.0; LANES]; queries.len()];
        for panel in 0..panels.count() {
            panels.squared(panel, &queries, &mut found);
            for (nearest, found) in nearest.iter_mut().zip(&found) {
                for (row, &distance) in panels.rows_of(panel).zip(found) {
                    if distance < nearest.1 {
                        *nearest = (row, distance);
                    }
                }
            }
        }
        nearest
    });
    parts.into_iter().flatten().unzip()
}

/// Gives each empty cluster the point farthest from its centre, as long as one lies away from its centre.
fn fill_empty(clusters: usize, labels: &mut [usize], distances: &mut [f64]) {
    let mut counts = vec![0_usize; clusters];
    for &label in &*labels {
        counts[label] += 1;
    }
    for cluster in 0..clusters {
        if counts[cluster] > 0 {
            continue;
        }
        let mut farthest = 0;
        for (index, &distance) in distances.iter().enumerate() {
            if distance > distances[farthest] {
                farthest = index;
            }
        }
        // A point at a distance shares its cluster with another one, so no cluster is emptied by this.
        if distances[farthest] > 0.0 && counts[labels[farthest]] > 1 {
            counts[labels[farthest]] -= 1;
            counts[cluster] = 1;
            labels[farthest] = cluster;
            distances[farthest] = 0.0;
        }
    }
}

/// Moves the centre of each cluster that has points to their mean.
fn move_centres(points: &Points, labels: &[usize], centres: &mut Centres) {
    let dims = points.dims();
    let mut counts = vec![0_usize; centres.count()];
    let sums = sum_points(points, labels, centres.count());
    for &label in labels {
        counts[label] += 1;
    }
    for (cluster, sums) in sums.chunks_exact(dims).enumerate() {
        if counts[cluster] > 0 {
            for (value, sum) in centres.centre_mut(cluster).iter_mut().zip(sums) {
                *value = sum / counts[cluster] as f64;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blobs(count: usize, per_blob: usize) -> Points {
        let mut random = SplitMix64::new(3);
        let values = (0..count * per_blob)
            .flat_map(|index| {
                let blob = (index % count) as f64;
                [blob * 10.0 + random.uniform(), -blob * 7.0 + random.uniform()]
            })
            .map(|value| value as f32)
            .collect();
        Points::new(values, 2).unwrap()
    }

    #[test]
    fn separate_blobs_are_found() {
        let points = blobs(5, 30);
        let found = kmeans(&points, &KmeansConfig::new(5, 1)).unwrap();
        assert!(found.converged);
        for index in 5..points.count() {
            assert_eq!(found.labels[index], found.labels[index % 5]);
        }
        let within = points.count() as f64;
        assert!(found.inertia < within, "inertia {}", found.inertia);
    }

    #[test]
    fn the_same_seed_gives_the_same_clusters() {
        let points = blobs(9, 11);
        let config = KmeansConfig::new(4, 77);
        assert_eq!(kmeans(&points, &config), kmeans(&points, &config));
    }

    #[test]
    fn the_number_of_threads_changes_nothing() {
        let points = blobs(9, 31);
        let config = KmeansConfig::new(4, 5);
        let all = kmeans(&points, &config);
        for threads in 1..4 {
            assert_eq!(kmeans(&points.clone().with_threads(threads), &config), all);
        }
    }

    #[test]
    fn more_restarts_are_never_worse() {
        let points = blobs(12, 5);
        let inertia = |restarts| {
            let config = KmeansConfig { restarts, ..KmeansConfig::new(7, 5) };
            kmeans(&points, &config).unwrap().inertia
        };
        assert!(inertia(8) <= inertia(2));
        assert!(inertia(2) <= inertia(1));
    }

    #[test]
    fn fewer_different_points_than_clusters_leave_clusters_empty() {
        let points = Points::new(vec![1.0, 1.0, 1.0, 2.0], 1).unwrap();
        let found = kmeans(&points, &KmeansConfig::new(3, 0)).unwrap();
        assert_eq!(found.inertia, 0.0);
        assert!(found.converged);
    }

    #[test]
    fn a_cluster_per_point_has_no_inertia() {
        let points = blobs(6, 1);
        let found = kmeans(&points, &KmeansConfig::new(6, 9)).unwrap();
        assert_eq!(found.inertia, 0.0);
    }

    #[test]
    fn settings_out_of_range_are_refused() {
        let points = blobs(3, 1);
        for clusters in [0, 4] {
            let error = kmeans(&points, &KmeansConfig::new(clusters, 0)).unwrap_err();
            assert!(matches!(error, EmbedError::Setting { setting: "clusters", .. }));
        }
    }
}
