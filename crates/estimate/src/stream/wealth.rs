use serde::{Deserialize, Serialize};
use std::f64::consts::E;

/// Sums above this are scaled down, so that a long shift does not overflow them.
const LARGEST: f64 = 1e100;

/// What a gambler owns who bets against "nothing has changed": evidence that may be looked at after every image.
///
/// *Idea.* Whoever bets at fair odds gets rich only by chance, and reaches `1 / alpha` times the stake *ever* with probability at
/// most `alpha` (Ville), however often one looks. A change may begin at any time, and a gambler who has lost for a year is
/// slow to notice it. So the stake is spread over all times at which a bet can begin, and what has not begun is kept.
/// *Formula.* The share `1 / log(e + t)` of the stake is still kept after `t` steps; what is taken from it at a step is spread evenly over
/// the bets, and every bet is then multiplied by its factor, which has mean 1 if nothing has changed. The e-value is the sum of
/// all.
/// *Reference.* Ville 1939; Vovk et al., "Retrain or not retrain: conformal test martingales for change-point detection", 2021.
/// *Departures from the reference.* The jump rate falls with time, so that little is lost in a stream that never changes: a change after a
/// million images costs a factor of about `e^17`.
///
/// ```
/// use flipcast_estimate::Wealth;
///
/// let mut wealth = Wealth::new(1);
/// assert_eq!(wealth.log_e_value(), 0.0);
/// (0..20).for_each(|_| wealth.update(&[1.5]));
/// assert!(wealth.log_e_value() > 100f64.ln());
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wealth {
    steps: u64,
    /// Logarithm of the unit in which bets are counted.
    log_unit: f64,
    bets: Vec<f64>,
}

impl Wealth {
    /// A stake of 1 on this many bets.
    pub fn new(bets: usize) -> Self {
        Self { steps: 0, log_unit: 0.0, bets: vec![0.0; bets] }
    }

    /// One step, with a factor for each bet. Factors are not negative and have mean 1 if nothing has changed.
    pub fn update(&mut self, factors: &[f64]) {
        let begun = (kept(self.steps) - kept(self.steps + 1)) * (-self.log_unit).exp() / self.bets.len() as f64;
        self.steps += 1;
        for (bet, factor) in self.bets.iter_mut().zip(factors) {
            *bet = (*bet + begun) * factor;
        }
        let sum: f64 = self.bets.iter().sum();
        if sum > LARGEST {
            self.log_unit += sum.ln();
            self.bets.iter_mut().for_each(|bet| *bet /= sum);
        }
    }

    /// Steps so far.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// The logarithm of the e-value: of how many times the stake is owned now.
    pub fn log_e_value(&self) -> f64 {
        let sum: f64 = self.bets.iter().sum();
        let kept = kept(self.steps) * (-self.log_unit).exp();
        self.log_unit + (sum + kept).ln()
    }

    /// Whether the other has as many bets.
    pub(super) fn fits(&self, other: &Self) -> bool {
        self.bets.len() == other.bets.len()
    }

    /// What two gamblers own on average who watched different images. Begins again with the stake that the one with more steps has kept.
    pub fn merge(&mut self, other: &Self) {
        let unit = self.log_unit.max(other.log_unit);
        let (own, theirs) = ((self.log_unit - unit).exp(), (other.log_unit - unit).exp());
        for (bet, other) in self.bets.iter_mut().zip(&other.bets) {
            *bet = 0.5 * (*bet * own + other * theirs);
        }
        self.log_unit = unit;
        self.steps = self.steps.max(other.steps);
    }
}

/// The share of the stake with which nothing has begun after `steps`.
fn kept(steps: u64) -> f64 {
    1.0 / (E + steps as f64).ln()
}

#[cfg(test)]
mod tests {
    use super::*;
    use flipcast_ground::SplitMix64;

    #[test]
    fn fair_bets_keep_the_stake_on_average() {
        let mut random = SplitMix64::new(1);
        let runs = 4000;
        let total: f64 = (0..runs)
            .map(|_| {
                let mut wealth = Wealth::new(2);
                for _ in 0..20 {
                    let x = random.uniform() - 0.5;
                    wealth.update(&[1.0 + x, 1.0 - x]);
                }
                wealth.log_e_value().exp()
            })
            .sum();
        // The spread of one run is about 0.4: five standard errors.
        assert!((total / f64::from(runs) - 1.0).abs() < 0.04, "{}", total / f64::from(runs));
    }

    #[test]
    fn a_change_after_a_long_time_costs_little() {
        let mut wealth = Wealth::new(1);
        (0..1_000_000).for_each(|step| wealth.update(&[if step % 2 == 0 { 1.5 } else { 0.5 }]));
        assert!(wealth.log_e_value() > -3.0, "{}", wealth.log_e_value());
        (0..60).for_each(|_| wealth.update(&[1.5]));
        assert!(wealth.log_e_value() > 300f64.ln(), "{}", wealth.log_e_value());
    }

    #[test]
    fn a_long_shift_does_not_overflow() {
        let mut wealth = Wealth::new(2);
        (0..100_000).for_each(|_| wealth.update(&[1.9, 0.1]));
        let expected = 100_000.0 * 1.9f64.ln();
        assert!((wealth.log_e_value() / expected - 1.0).abs() < 0.001);
        let text = serde_json::to_string(&wealth).unwrap();
        assert_eq!(serde_json::from_str::<Wealth>(&text).unwrap(), wealth);
    }

    #[test]
    fn merged_evidence_is_the_mean_less_what_was_kept() {
        let (mut rich, mut poor) = (Wealth::new(1), Wealth::new(1));
        (0..40).for_each(|_| rich.update(&[1.5]));
        (0..10).for_each(|_| poor.update(&[0.5]));
        let mean = 0.5 * (rich.log_e_value().exp() + poor.log_e_value().exp());
        rich.merge(&poor);
        let merged = rich.log_e_value().exp();
        assert!(merged <= mean && merged > 0.99 * mean, "{merged} {mean}");
    }
}
