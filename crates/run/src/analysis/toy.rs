use super::subject::at_least;
use super::{Analysis, checkpoints};
use crate::{RunError, Watcher};
use flipcast_ground::SplitMix64;
use flipcast_record::Protocol;
use flipcast_record::results::{Toy, ToyFrame, ToyPanel};
use serde::{Deserialize, Serialize};
use std::f64::consts::TAU;

/// Raised whenever the same settings give other numbers.
const VERSION: u32 = 1;

/// Entropy minimisation as expectation-maximisation, on points of a plane.
///
/// *Idea.* A network that minimises entropy behaves as a mixture of Gaussians fitted by expectation-maximisation whose points move
/// too: the network is certain where a point lies close to a mean, and adaptation moves it closer. Where the means start at the
/// right places points gather around them; where they start at shifted places clusters form as well, but of mixed classes.
///
/// *Formula.* Every round computes responsibilities `r_k(x)` proportional to `exp(-|x - m_k|^2 / 2)`, moves the means to
/// `sum_x r_k(x) x / sum_x r_k(x)`, and moves the points up the likelihood: `x <- x + rate * sum_k r_k(x) (m_k - x)`, with the
/// responsibilities from before. In the third panel points stay: ordinary expectation-maximisation.
///
/// *Reference.* Press et al., "The Entropy Enigma: Success and Failure of Entropy Minimization", ICML 2024, appendix A.
///
/// *Departures from the reference.* No settings are published. Classes are blobs on a circle; the shift turns the points about its
/// centre and draws them towards it, so that they come to lie between the means.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToyConfig {
    /// Classes.
    pub classes: usize,
    /// Points of a class.
    pub points_per_class: usize,
    /// Radius of the circle of class means, in standard deviations of a blob.
    pub radius: f64,
    /// How far the shift turns the points, as a share of the angle between neighbouring classes.
    pub turn: f64,
    /// What the shift leaves of the distance to the centre.
    pub shrink: f64,
    /// Step length of the points.
    pub rate: f64,
    /// Rounds.
    pub rounds: usize,
    /// Seed of the points.
    pub seed: u64,
}

impl Default for ToyConfig {
    /// Five classes of 60 points, turned by 0.4 of the angle between them, 200 rounds.
    fn default() -> Self {
        Self { classes: 5, points_per_class: 60, radius: 4.0, turn: 0.4, shrink: 0.7, rate: 0.1, rounds: 200, seed: 0 }
    }
}

impl Analysis for ToyConfig {
    type Result = Toy;

    fn protocol(&self) -> Result<Protocol, RunError> {
        Ok(Protocol::new("toy").with("version", &VERSION)?.with("seed", &self.seed)?.with("settings", self)?)
    }

    fn run(&self, _watcher: &mut dyn Watcher) -> Result<Toy, RunError> {
        toy(self)
    }
}

impl ToyConfig {
    /// Refuses settings outside their ranges.
    pub fn check(&self) -> Result<(), RunError> {
        at_least("number of classes", self.classes, 2, "at least 2")?;
        at_least("points of a class", self.points_per_class, 1, "at least 1")?;
        let numbers = [
            ("radius", self.radius, 0.0..=1e3, "0 to 1000"),
            ("turn", self.turn, 0.0..=1.0, "0 to 1"),
            ("shrink", self.shrink, 0.0..=10.0, "0 to 10"),
            ("rate", self.rate, 0.0..=1.0, "0 to 1"),
        ];
        for (setting, found, allowed, expected) in numbers {
            if !allowed.contains(&found) {
                return Err(RunError::Number { setting, found, expected });
            }
        }
        Ok(())
    }
}

/// Makes the three panels.
pub fn toy(config: &ToyConfig) -> Result<Toy, RunError> {
    config.check()?;
    let mut random = SplitMix64::new(config.seed);
    let angle = TAU / config.classes as f64;
    let centres: Vec<[f64; 2]> = (0..config.classes)
        .map(|class| [angle * class as f64])
        .map(|[at]| [config.radius * at.cos(), config.radius * at.sin()])
        .collect();
    let labels: Vec<usize> =
        (0..config.classes * config.points_per_class).map(|index| index % config.classes).collect();
    let points: Vec<[f64; 2]> = labels
        .iter()
        .map(|&class| {
            let noise = normal_pair(&mut random);
            [centres[class][0] + noise[0], centres[class][1] + noise[1]]
        })
        .collect();
    let (sin, cos) = (config.turn * angle).sin_cos();
    let shifted: Vec<[f64; 2]> = points
        .iter()
        .map(|[x, y]| [cos * x - sin * y, sin * x + cos * y])
        .map(|at| at.map(|value| config.shrink * value))
        .collect();
    let panel = |name: &str, title: &str, points: &[[f64; 2]], rate: f64| ToyPanel {
        name: name.to_owned(),
        title: title.to_owned(),
        frames: run(config, &labels, points, &centres, rate),
    };
    let panels = vec![
        panel("unshifted", "Points move, means start at their classes", &points, config.rate),
        panel("shifted", "Points move, means start at shifted places", &shifted, config.rate),
        panel("fixed_points", "Points stay: expectation-maximisation", &shifted, 0.0),
    ];
    Ok(Toy { labels, panels })
}

fn run(config: &ToyConfig, labels: &[usize], points: &[[f64; 2]], centres: &[[f64; 2]], rate: f64) -> Vec<ToyFrame> {
    let (mut points, mut means) = (points.to_vec(), centres.to_vec());
    let kept = checkpoints(config.rounds);
    let mut frames = Vec::new();
    for round in 0..=config.rounds {
        if kept.contains(&round) {
            frames.push(frame(round, &points, &means, labels, centres));
        }
        let shares: Vec<Vec<f64>> = points.iter().map(|&at| responsibilities(at, &means)).collect();
        for (k, mean) in means.iter_mut().enumerate() {
            let total: f64 = shares.iter().map(|shares| shares[k]).sum();
            let sum = |axis: usize| {
                let terms = points.iter().zip(&shares);
                terms.map(|(at, shares)| shares[k] * at[axis]).sum::<f64>()
            };
            // A mean without points stays where it is.
            if total > f64::MIN_POSITIVE {
                *mean = [sum(0) / total, sum(1) / total];
            }
        }
        for (at, shares) in points.iter_mut().zip(&shares) {
            let pull = |axis: usize| {
                let terms = shares.iter().zip(&means);
                terms.map(|(share, mean)| share * (mean[axis] - at[axis])).sum::<f64>()
            };
            *at = [at[0] + rate * pull(0), at[1] + rate * pull(1)];
        }
    }
    frames
}

/// How much each mean answers for a point.
fn responsibilities(at: [f64; 2], means: &[[f64; 2]]) -> Vec<f64> {
    let scores: Vec<f64> = means.iter().map(|&mean| -0.5 * squared(at, mean)).collect();
    let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let weights: Vec<f64> = scores.iter().map(|score| (score - most).exp()).collect();
    let total: f64 = weights.iter().sum();
    weights.iter().map(|weight| weight / total).collect()
}

fn frame(round: usize, points: &[[f64; 2]], means: &[[f64; 2]], labels: &[usize], start: &[[f64; 2]]) -> ToyFrame {
    let classes = means.len();
    let mut counts = vec![0_usize; classes * classes];
    for (&at, &label) in points.iter().zip(labels) {
        let mut nearest = 0;
        for (k, &mean) in means.iter().enumerate() {
            if squared(at, mean) < squared(at, means[nearest]) {
                nearest = k;
            }
        }
        counts[nearest * classes + label] += 1;
    }
    let most = counts.chunks_exact(classes).filter_map(|c| c.iter().max());
    let moved = means.iter().zip(start).map(|(&a, &b)| squared(a, b).sqrt());
    let rounded = |at: &[f64; 2]| at.map(|value| (value * 1000.0).round() / 1000.0);
    ToyFrame {
        round,
        points: points.iter().map(rounded).collect(),
        means: means.iter().map(rounded).collect(),
        purity: most.sum::<usize>() as f64 / points.len() as f64,
        drift: moved.sum::<f64>() / classes as f64,
    }
}

fn squared(a: [f64; 2], b: [f64; 2]) -> f64 {
    (a[0] - b[0]).powi(2) + (a[1] - b[1]).powi(2)
}

/// Two independent standard normal numbers, by Box and Muller's transformation.
fn normal_pair(random: &mut SplitMix64) -> [f64; 2] {
    let length = (-2.0 * (1.0 - random.uniform()).ln()).sqrt();
    let angle = TAU * random.uniform();
    [length * angle.cos(), length * angle.sin()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn purities(panel: &ToyPanel) -> Vec<f64> {
        panel.frames.iter().map(|frame| frame.purity).collect()
    }

    #[test]
    fn points_collapse_onto_their_classes_without_a_shift_and_mix_with_one() {
        let found = toy(&ToyConfig::default()).unwrap();
        let [unshifted, shifted, fixed] = &found.panels[..] else {
            panic!("three panels");
        };
        let last = unshifted.frames.last().unwrap();
        assert!(last.purity > 0.95, "{:?}", purities(unshifted));
        for (at, &label) in last.points.iter().zip(&found.labels) {
            let nearest = last.means.iter().map(|&mean| squared(*at, mean));
            let nearest = nearest.fold(f64::INFINITY, f64::min);
            assert!(nearest < 0.1, "class {label} at {at:?}");
        }
        let end = |panel: &ToyPanel| panel.frames.last().unwrap().purity;
        assert!(end(shifted) < end(unshifted) - 0.1, "{:?}", purities(shifted));
        // The data are the same in the first frame, and stay in the third panel.
        assert_eq!(fixed.frames[0], shifted.frames[0]);
        let last = fixed.frames.last().unwrap();
        assert_eq!(last.points, fixed.frames[0].points);
        assert!(last.drift > 0.5, "{}", last.drift);
    }

    #[test]
    fn the_same_seed_gives_the_same_panels() {
        let config = ToyConfig { rounds: 7, ..ToyConfig::default() };
        assert_eq!(toy(&config).unwrap(), toy(&config).unwrap());
        let other = ToyConfig { seed: 1, ..config.clone() };
        assert_ne!(toy(&config).unwrap(), toy(&other).unwrap());
        let rounds = |panel: &ToyPanel| panel.frames.iter().map(|f| f.round).collect::<Vec<_>>();
        assert_eq!(rounds(&toy(&config).unwrap().panels[0]), [0, 1, 2, 5, 7]);
    }

    #[test]
    fn two_means_on_a_line_follow_the_formula() {
        let shares = responsibilities([1.0, 0.0], &[[0.0, 0.0], [3.0, 0.0]]);
        // Squared distances 1 and 4.
        let expected = 1.0 / (1.0 + (-1.5f64).exp());
        assert!((shares[0] - expected).abs() < 1e-15);
        assert!((shares[0] + shares[1] - 1.0).abs() < 1e-15);
    }

    #[test]
    fn settings_out_of_range_are_refused() {
        let good = ToyConfig::default();
        let broken = [
            ToyConfig { classes: 1, ..good.clone() },
            ToyConfig { points_per_class: 0, ..good.clone() },
            ToyConfig { rate: f64::NAN, ..good.clone() },
            ToyConfig { turn: -0.5, ..good },
        ];
        for config in broken {
            assert!(toy(&config).is_err(), "{config:?}");
        }
    }
}
