use super::TsneConfig;
use super::affinities::affinities;
use super::forces::{Pairs, divergence, gradient};
use crate::embed::principal::first_components;
use crate::embed::{EmbedError, Points};

/// Spread of the first layout along its longer axis: so small that the first forces, not the start, decide.
const START_SPREAD: f64 = 1e-4;
/// Momentum while affinities are exaggerated, and afterwards.
const MOMENTUM: [f64; 2] = [0.5, 0.8];
/// Smallest gain of a coordinate.
const LEAST_GAIN: f64 = 0.01;

/// A map.
#[derive(Clone, Debug, PartialEq)]
pub struct Tsne {
    /// Where each point lies.
    pub layout: Vec<[f64; 2]>,
    /// Divergence of the map's neighbourhoods from the points'.
    pub kl: f64,
}

/// Lays points out in two dimensions so that neighbours stay neighbours.
///
/// Without `start` the layout begins with the two principal components; with it, where `start` says, so that the maps of points
/// that move can be told by eye.
///
/// *Idea.* Each point gives its neighbours shares by a normal density whose width makes `perplexity` of them count. In the map
/// closeness falls more slowly with distance, and points move until the two agree.
///
/// *Formula.* Minimises `sum_ij p_ij ln(p_ij / q_ij)` with `p_ij = (p_j|i + p_i|j) / 2n` and
/// `q_ij` proportional to `1 / (1 + |y_i - y_j|^2)`, by descent with momentum and a gain per coordinate.
///
/// *Reference.* van der Maaten and Hinton, "Visualizing data using t-SNE", 2008; settings as scikit-learn's.
///
/// *Departures from the reference.* The gradient is exact, with forces in single precision and their totals in double. All
/// rounds are made; scikit-learn may stop early.
///
/// # Errors
/// When the settings do not fit the points, or `start` has not one finite position per point.
pub fn tsne(points: &Points, config: &TsneConfig, start: Option<&[[f64; 2]]>) -> Result<Tsne, EmbedError> {
    config.check(points.count())?;
    let mut layout = match start {
        None => first_layout(points, config.seed),
        Some(start) => checked(start, points.count())?,
    };
    let joint = affinities(points, config.perplexity);
    let mut speed = vec![[0.0; 2]; layout.len()];
    let mut gain = vec![[1.0_f64; 2]; layout.len()];
    let step = config.step(layout.len());
    for round in 0..config.rounds {
        let early = round < config.early_rounds;
        if round == config.early_rounds {
            // The forces change at once; what was learned about the old ones is forgotten.
            speed.fill([0.0; 2]);
            gain.fill([1.0; 2]);
        }
        let exaggeration = if early { config.early_exaggeration } else { 1.0 };
        let momentum = MOMENTUM[usize::from(!early)];
        let pairs = Pairs { joint: &joint, layout: &layout, threads: points.threads() };
        let gradient = gradient(&pairs, exaggeration);
        for (point, slope) in gradient.iter().enumerate() {
            for axis in 0..2 {
                let (speed, gain) = (&mut speed[point][axis], &mut gain[point][axis]);
                *gain = if *speed * slope[axis] < 0.0 { *gain + 0.2 } else { (*gain * 0.8).max(LEAST_GAIN) };
                *speed = momentum * *speed - step * *gain * slope[axis];
                layout[point][axis] += *speed;
            }
        }
    }
    let pairs = Pairs { joint: &joint, layout: &layout, threads: points.threads() };
    Ok(Tsne { kl: divergence(&pairs), layout })
}

/// The principal components, made small.
fn first_layout(points: &Points, seed: u64) -> Vec<[f64; 2]> {
    let mut layout = first_components(points, seed);
    let count = layout.len() as f64;
    let variance = layout.iter().map(|at| at[0] * at[0]).sum::<f64>() / count;
    let scale = START_SPREAD / variance.sqrt().max(f64::MIN_POSITIVE);
    for at in &mut layout {
        *at = at.map(|value| value * scale);
    }
    layout
}

fn checked(start: &[[f64; 2]], points: usize) -> Result<Vec<[f64; 2]>, EmbedError> {
    if start.len() != points {
        return Err(EmbedError::Start { found: start.len(), points });
    }
    let values = start.as_flattened();
    if let Some(index) = values.iter().position(|value| !value.is_finite()) {
        return Err(EmbedError::NotFinite { index, found: values[index] });
    }
    Ok(start.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;
    use flipcast_ground::Hint;
    use flipcast_ground::SplitMix64;

    /// Points of three groups that lie far apart.
    fn groups(per_group: usize) -> Points {
        let mut random = SplitMix64::new(2);
        let values = (0..3 * per_group).flat_map(|index| {
            let group = index % 3;
            let mut value = [random.uniform(), random.uniform(), random.uniform(), random.uniform()];
            value[group] += 20.0;
            value
        });
        Points::new(values.map(|value| value as f32).collect(), 4).unwrap()
    }

    fn config() -> TsneConfig {
        TsneConfig { perplexity: 8.0, early_rounds: 100, rounds: 400, ..TsneConfig::default() }
    }

    fn distance(a: [f64; 2], b: [f64; 2]) -> f64 {
        (a[0] - b[0]).hypot(a[1] - b[1])
    }

    #[test]
    fn neighbours_in_the_map_are_of_the_same_group() {
        let found = tsne(&groups(25), &config(), None).unwrap();
        for (point, &at) in found.layout.iter().enumerate() {
            let others = (0..75).filter(|&other| other != point);
            let nearest =
                others.min_by(|&a, &b| distance(at, found.layout[a]).total_cmp(&distance(at, found.layout[b])));
            assert_eq!(nearest.map(|other| other % 3), Some(point % 3));
        }
        assert!(found.kl > 0.0 && found.kl < 1.0, "{}", found.kl);
    }

    #[test]
    fn a_carried_layout_stays_where_it_is() {
        let points = groups(20);
        let first = tsne(&points, &config(), None).unwrap();
        let next = tsne(&points, &config().carried(), Some(&first.layout)).unwrap();
        let spread = distance(first.layout[0], first.layout[1]);
        for (a, b) in first.layout.iter().zip(&next.layout) {
            assert!(distance(*a, *b) < 0.5 * spread, "{a:?} {b:?}, spread {spread}");
        }
        assert!(next.kl <= first.kl + 1e-3, "{} {}", next.kl, first.kl);
    }

    #[test]
    fn the_same_points_give_the_same_map() {
        let points = groups(9);
        assert_eq!(tsne(&points, &config(), None), tsne(&points, &config(), None));
    }

    #[test]
    fn equal_points_give_finite_maps() {
        let points = Points::new(vec![1.5; 40], 2).unwrap();
        let found = tsne(&points, &config(), None).unwrap();
        assert!(found.layout.as_flattened().iter().all(|x| x.is_finite()));
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let points = groups(5);
        let with = |change: fn(&mut TsneConfig)| {
            let mut config = config();
            change(&mut config);
            tsne(&points, &config, None).unwrap_err()
        };
        let perplexity = with(|config| config.perplexity = 15.0);
        assert!(matches!(perplexity, EmbedError::Number { .. }));
        assert!(perplexity.hint().is_some());
        let nan = with(|config| config.perplexity = f64::NAN);
        assert!(matches!(nan, EmbedError::Number { .. }));
        let rounds = with(|config| config.early_rounds = 401);
        assert!(matches!(rounds, EmbedError::Setting { .. }));
        let few = tsne(&groups(1), &config(), None);
        assert!(matches!(few, Err(EmbedError::Setting { .. })));
        let start = tsne(&points, &config(), Some(&[[0.0; 2]; 3]));
        assert!(matches!(start, Err(EmbedError::Start { found: 3, .. })));
        let start = tsne(&points, &config(), Some(&[[f64::NAN; 2]; 15]));
        assert!(matches!(start, Err(EmbedError::NotFinite { index: 0, .. })));
    }
}
