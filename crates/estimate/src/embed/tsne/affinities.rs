use crate::embed::Points;
use crate::embed::distance::{LANES, Panels};
use crate::parallel::map_ranges;

/// Points whose neighbours are weighed by one thread at a time.
const STEP: usize = 96;
/// Most halvings in the search for a width.
const SEARCH: usize = 64;
/// How close the logarithm of the perplexity must come.
const CLOSE: f64 = 1e-5;
/// Smallest affinity, so that logarithms stay finite.
const LEAST: f32 = 1e-12;

/// Affinities of all pairs, row-major; symmetric, and they sum to one.
pub(super) fn affinities(points: &Points, perplexity: f64) -> Vec<f32> {
    let count = points.count();
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
        for (own, row) in range.zip(rows.chunks_exact_mut(count)) {
            to_shares(row, own, perplexity.ln());
        }
        rows.into_iter().map(|p| p as f32).collect::<Vec<f32>>()
    });
    let conditional: Vec<f32> = parts.into_iter().flatten().collect();
    let mut joint = vec![0.0; count * count];
    let scale = 0.5 / count as f32;
    for i in 0..count {
        for j in 0..i {
            let both = conditional[i * count + j] + conditional[j * count + i];
            let value = (both * scale).max(LEAST);
            joint[i * count + j] = value;
            joint[j * count + i] = value;
        }
    }
    joint
}

/// Squared distances of one point become the shares of its neighbours: normal densities of the width at which their entropy is
/// `wanted`.
fn to_shares(row: &mut [f64], own: usize, wanted: f64) {
    row[own] = f64::INFINITY;
    let nearest = row.iter().copied().fold(f64::INFINITY, f64::min);
    let mean = row.iter().filter(|d| d.is_finite()).sum::<f64>() / (row.len() - 1) as f64;
    // The precision of a density, searched between bounds that are open at first; scaled to the distances at hand.
    let mut precision = 1.0 / (mean - nearest).max(f64::MIN_POSITIVE);
    let (mut low, mut high) = (0.0, f64::INFINITY);
    for _ in 0..SEARCH {
        let (mut total, mut weighted) = (0.0, 0.0);
        for &distance in row.iter().filter(|d| d.is_finite()) {
            let weight = (-(distance - nearest) * precision).exp();
            total += weight;
            weighted += weight * (distance - nearest);
        }
        let entropy = total.ln() + precision * weighted / total;
        if (entropy - wanted).abs() <= CLOSE {
            break;
        }
        if entropy > wanted {
            low = precision;
        } else {
            high = precision;
        }
        let next = if high.is_finite() { 0.5 * (low + high) } else { 2.0 * precision };
        // All neighbours are equally far away: no width tells them apart.
        if !next.is_finite() || next == precision {
            break;
        }
        precision = next;
    }
    let mut total = 0.0;
    for distance in row.iter_mut() {
        *distance = (-(*distance - nearest) * precision).exp();
        total += *distance;
    }
    row.iter_mut().for_each(|share| *share /= total);
}

#[cfg(test)]
mod tests {
    use super::*;
    use flipcast_ground::SplitMix64;

    #[test]
    fn shares_have_the_perplexity_asked_for() {
        let mut random = SplitMix64::new(4);
        let mut row: Vec<f64> = (0..200).map(|_| 50.0 * random.uniform()).collect();
        to_shares(&mut row, 17, 30f64.ln());
        assert_eq!(row[17], 0.0);
        assert!((row.iter().sum::<f64>() - 1.0).abs() < 1e-12);
        let entropy: f64 = row.iter().filter(|p| **p > 0.0).map(|p| -p * p.ln()).sum();
        assert!((entropy.exp() - 30.0).abs() < 1e-3, "{}", entropy.exp());
    }

    #[test]
    fn equal_distances_give_equal_shares() {
        for far in [0.0, 1e-30, 1e30] {
            let mut row = vec![far; 5];
            to_shares(&mut row, 0, 2f64.ln());
            assert_eq!(row, [0.0, 0.25, 0.25, 0.25, 0.25], "{far}");
        }
    }

    #[test]
    fn affinities_are_symmetric_and_sum_to_one() {
        let values = (0..90).map(|k| (k * k % 37) as f32).collect();
        let points = Points::new(values, 3).unwrap();
        let found = affinities(&points, 5.0);
        for i in 0..30 {
            assert_eq!(found[i * 30 + i], 0.0);
            for j in 0..30 {
                assert_eq!(found[i * 30 + j], found[j * 30 + i]);
            }
        }
        let total: f64 = found.iter().map(|&p| f64::from(p)).sum();
        assert!((total - 1.0).abs() < 1e-5, "{total}");
    }
}
