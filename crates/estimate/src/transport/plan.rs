use super::capacity::UNIT;
use super::problem::Problem;

/// The distance to the proven bound that rounding may leave, relative to the value and absolutely.
const GAP: (f64, f64) = (1e-9, 1e-12);

/// Mass that an image gives to a class.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Share {
    /// Position of the image in the problem.
    pub(crate) image: usize,
    /// The class.
    pub(crate) class: usize,
    /// Part of the image in this class, above 0 and at most 1.
    pub(crate) mass: f64,
    /// Probability the image gives the class.
    pub(crate) prob: f64,
}

/// A best way to give images classes.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// Who gives what to whom, by image, then class.
    pub(crate) shares: Vec<Share>,
    /// Mean probability under the plan.
    pub(crate) value: f64,
    /// How much larger the mean probability of another plan could be at most. Zero up to rounding.
    pub(crate) gap: f64,
}

impl Plan {
    /// Collects whole-number masses `(image, class, mass)` and measures them against what the prices prove.
    pub(super) fn new(problem: &Problem, mut masses: Vec<(usize, usize, i64)>, prices: &[f64]) -> Self {
        masses.sort_unstable();
        let shares: Vec<Share> = masses
            .into_iter()
            .map(|(image, class, mass)| Share {
                image,
                class,
                mass: mass as f64 / UNIT as f64,
                prob: problem.row(image)[class],
            })
            .collect();
        let images = problem.images() as f64;
        let value = shares.iter().map(|share| share.mass * share.prob).sum::<f64>() / images;
        Self { shares, value, gap: bound(problem, prices) / images - value }
    }

    /// Whether no plan can be better by more than rounding.
    pub(super) fn is_proven(&self) -> bool {
        self.gap <= GAP.0 * self.value + GAP.1
    }
}

/// The dual value of prices: no plan's sum of probabilities exceeds it.
///
/// `sum_i max_k (p_ik - v_k) + sum_k capacity_k v_k`.
fn bound(problem: &Problem, prices: &[f64]) -> f64 {
    let best: f64 = (0..problem.images())
        .map(|image| problem.row(image).iter().zip(prices).fold(f64::NEG_INFINITY, |best, (p, v)| best.max(p - v)))
        .sum();
    let rent: f64 = problem.capacities().iter().zip(prices).map(|(&mass, v)| mass as f64 / UNIT as f64 * v).sum();
    best + rent
}
