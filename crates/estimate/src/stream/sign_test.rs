use super::Wealth;
use serde::{Deserialize, Serialize};

/// Shares of the stake that are bet on every value.
const BETS: [f64; 3] = [0.1, 0.4, 0.95];

/// Whether values from -1 to 1 lie above 0 on average, by a test that may be looked at all the time.
///
/// *Idea.* Somebody bets on every value that it is above 0. If the mean of each, given those before it, is at most 0, such a bettor loses on average and owns `1 / alpha` times the stake *ever* with
/// probability at most `alpha`. The mean may change at any time, so the bet begins at all times ([`Wealth`]).
/// *Formula.* A group of values `x` multiplies what the bet `b` owns by `prod (1 + b x)`.
/// *Reference.* Waudby-Smith and Ramdas, "Estimating means of bounded random variables by betting", JRSS-B 2024; for changes at unknown times Shin, Ramdas and Rinaldo, "E-detectors", 2023.
///
/// ```
/// use flipcast_estimate::SignTest;
///
/// let mut test = SignTest::default();
/// (0..50).for_each(|_| test.update(&[0.2, -0.1, 0.3]));
/// assert!(test.log_e_value() > 100f64.ln());
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SignTest {
    wealth: Wealth,
}

impl Default for SignTest {
    fn default() -> Self {
        Self { wealth: Wealth::new(BETS.len()) }
    }
}

impl SignTest {
    /// Takes values that came together; what lies beyond -1 or 1 is moved there, and what is no number counts as 0.
    pub fn update(&mut self, values: &[f64]) {
        let of = |value: &f64| if value.is_nan() { 0.0 } else { value.clamp(-1.0, 1.0) };
        let factors = BETS.map(|bet| values.iter().map(|value| (bet * of(value)).ln_1p()).sum::<f64>().exp());
        self.wealth.update(&factors);
    }

    /// The logarithm of the e-value against "the mean is at most 0".
    pub fn log_e_value(&self) -> f64 {
        self.wealth.log_e_value()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flipcast_ground::SplitMix64;

    /// The group after which the e-value first reached `1 / alpha`.
    fn first_above(alpha: f64, groups: usize, mut draw: impl FnMut(usize) -> f64) -> Option<usize> {
        let mut test = SignTest::default();
        (0..groups).find(|&group| {
            let values: Vec<f64> = (0..64).map(|_| draw(group)).collect();
            test.update(&values);
            test.log_e_value() >= -alpha.ln()
        })
    }

    #[test]
    fn false_alarms_are_as_rare_as_promised_however_long_the_stream() {
        let mut random = SplitMix64::new(2);
        for spread in [0.05, 1.0] {
            let runs = 200;
            let false_alarms = (0..runs)
                .filter(|_| first_above(0.1, 300, |_| spread * (2.0 * random.uniform() - 1.0)).is_some())
                .count();
            // Twenty are allowed on average; three standard deviations more by chance.
            assert!(false_alarms <= 33, "{false_alarms} of {runs} at {spread}");
        }
    }

    #[test]
    fn a_change_is_noticed_within_few_groups() {
        let mut random = SplitMix64::new(3);
        let mut noise = || 0.3 * (2.0 * random.uniform() - 1.0);
        let found = first_above(0.05, 400, |group| noise() + if group < 200 { -0.1 } else { 0.25 });
        assert!(found.is_some_and(|group| (200..203).contains(&group)), "{found:?}");
    }

    #[test]
    fn values_beyond_the_range_do_not_break_it() {
        let mut test = SignTest::default();
        test.update(&[f64::NAN, f64::INFINITY, -7.0, 7.0]);
        assert!(test.log_e_value().is_finite());
        (0..2000).for_each(|_| test.update(&[1.0; 64]));
        assert!(test.log_e_value().is_finite() && test.log_e_value() > 1e4);
    }
}
