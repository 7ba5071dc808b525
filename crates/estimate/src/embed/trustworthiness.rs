use crate::embed::distance::{LANES, Panels};
use crate::embed::{EmbedError, Points};
use crate::parallel::map_ranges;

/// Points looked at by one thread at a time.
const STEP: usize = 96;

/// How far neighbours in a map can be trusted to be neighbours of the points themselves: 1 if they all are.
///
/// *Idea.* A point that is near in the map but far away in truth is an intruder, the worse the farther.
///
/// *Formula.* `1 - 2 / (n k (2n - 3k - 1)) sum_i sum_j max(0, r(i, j) - k)` over the `k` nearest `j` of `i` in the map, where
/// `r(i, j)` is the rank of `j` among the neighbours of `i`, counted from 1.
///
/// *Reference.* Venna and Kaski, "Neighborhood preservation in nonlinear projection methods: an experimental study", 2001.
///
/// *Departures from the reference.* None. Of equally near points the one with the lower number comes first.
///
/// # Errors
/// When there is not one position per point, or `neighbours` is not between 1 and just below half the points.
pub fn trustworthiness(points: &Points, layout: &[[f64; 2]], neighbours: usize) -> Result<f64, EmbedError> {
    let count = points.count();
    if layout.len() != count {
        return Err(EmbedError::Start { found: layout.len(), points: count });
    }
    if neighbours == 0 || neighbours.saturating_mul(2) >= count {
        return Err(EmbedError::Setting {
            setting: "neighbours",
            found: neighbours,
            expected: format!("at least 1 and below half of {count} points"),
        });
    }
    let panels = Panels::<f64>::new(points.iter(), points.dims());
    let parts = map_ranges(points.threads(), count, STEP, |range| {
        let queries: Vec<&[f32]> = range.clone().map(|index| points.point(index)).collect();
        let mut found = vec![[0.0; LANES]; queries.len()];
        let mut rows = vec![0.0; queries.len() * count];
        for panel in 0..panels.count() {
            panels.squared(panel, &queries, &mut found);
            let places = panels.rows_of(panel);
            for (row, found) in rows.chunks_exact_mut(count).zip(&found) {
                row[places.clone()].copy_from_slice(&found[..places.len()]);
            }
        }
        let rows = range.zip(rows.chunks_exact(count));
        rows.map(|(own, row)| intrusion(own, row, layout, neighbours)).sum::<usize>()
    });
    let (n, k) = (count as f64, neighbours as f64);
    let intrusion: usize = parts.into_iter().sum();
    Ok(1.0 - 2.0 / (n * k * (2.0 * n - 3.0 * k - 1.0)) * intrusion as f64)
}

/// How far the nearest of point `own` in the map lie beyond its true neighbours, in ranks.
fn intrusion(own: usize, distances: &[f64], layout: &[[f64; 2]], neighbours: usize) -> usize {
    let others = || (0..distances.len()).filter(|&other| other != own);
    let mut by_distance: Vec<usize> = others().collect();
    by_distance.sort_by(|&a, &b| distances[a].total_cmp(&distances[b]));
    let mut rank = vec![0; distances.len()];
    for (place, &other) in by_distance.iter().enumerate() {
        rank[other] = place + 1;
    }
    let in_map = |other: usize| {
        let [dx, dy] = [0, 1].map(|axis| layout[own][axis] - layout[other][axis]);
        dx * dx + dy * dy
    };
    let mut by_map: Vec<(f64, usize)> = others().map(|other| (in_map(other), other)).collect();
    by_map.sort_by(|a, b| a.0.total_cmp(&b.0));
    let nearest = by_map.iter().take(neighbours);
    nearest.map(|&(_, other)| rank[other].saturating_sub(neighbours)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_faithful_map_is_trusted_and_a_reversed_pair_is_not() {
        let points = Points::new((0..9).map(|k| (k * k) as f32).collect(), 1).unwrap();
        let mut layout: Vec<[f64; 2]> = (0..9).map(|k| [f64::from(k * k), 0.0]).collect();
        assert_eq!(trustworthiness(&points, &layout, 3), Ok(1.0));
        layout.swap(0, 8);
        let found = trustworthiness(&points, &layout, 3).unwrap();
        assert!(found < 0.9, "{found}");
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let points = Points::new(vec![0.0, 1.0, 2.0, 3.0], 1).unwrap();
        let layout = [[0.0; 2]; 4];
        for neighbours in [0, 2, usize::MAX] {
            assert!(trustworthiness(&points, &layout, neighbours).is_err());
        }
        assert!(trustworthiness(&points, &layout[1..], 1).is_err());
    }
}
