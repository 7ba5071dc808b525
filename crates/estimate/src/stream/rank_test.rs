use super::Wealth;
use serde::{Deserialize, Serialize};

/// Bets on ranks: the degree of Legendre's polynomial and its factor. The first bets on larger or smaller values, the second on more
/// or fewer values at both ends.
const BETS: [(u8, f64); 8] = [(1, 0.1), (1, 0.3), (1, 0.9), (1, -0.1), (1, -0.3), (1, -0.9), (2, 0.6), (2, -0.6)];

/// Whether values still come from where earlier ones came from, by their ranks among these.
///
/// *Idea.* If a value is exchangeable with those before it, its rank among them is uniform and tells nothing about later ranks. That
/// holds exactly, for ever, and for a reference of any size: what is tested is not "equal to the reference", which a million
/// images would refute by the reference's own chance, but "reference and stream so far have one source".
/// *Formula.* Values are sorted into bins. With `b` earlier values in lower bins, `s` in the same one and `n` in all,
/// `u = (b + v (s + 1)) / (n + 1)` with `v` uniform at random; bets multiply by `1 + c P(2 u - 1)` with Legendre's polynomials of degree 1 and 2 ([`Wealth`]).
/// Values may belong to groups, each with bins of its own; then only what happens within groups is tested, and their shares may change.
/// *Reference.* Vovk, Gammerman and Shafer, "Algorithmic Learning in a Random World", 2005; with entropies of a source model: Bar,
/// Shaer and Romano, "Protected Test-Time Adaptation via Online Entropy Matching", NeurIPS 2024 (arXiv 2408.07511).
/// *Departures from the reference.* Earlier values of the stream join the reference, and a mixture of bets replaces the gradient.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RankTest {
    /// Earlier values in every bin, group after group.
    counts: Vec<u32>,
    /// Bins of a group.
    bins: usize,
    wealth: Wealth,
}

impl RankTest {
    /// A test that knows the reference: `counts` values in each bin, `bins` for every group.
    pub fn new(counts: Vec<u32>, bins: usize) -> Self {
        Self { counts, bins, wealth: Wealth::new(BETS.len()) }
    }

    /// Takes a value in `bin` of `group`; `tie` is a random number from 0 to 1. Gives its rank, from 0 to 1; nothing for a bin that does not exist.
    pub fn update(&mut self, group: usize, bin: usize, tie: f64) -> Option<f64> {
        let bins = self.counts.get_mut(group * self.bins..(group + 1) * self.bins)?;
        let same = u64::from(*bins.get(bin)?);
        let below: u64 = bins[..bin].iter().map(|count| u64::from(*count)).sum();
        let all: u64 = bins.iter().map(|count| u64::from(*count)).sum();
        bins[bin] = bins[bin].saturating_add(1);
        let rank = (below as f64 + tie * (same + 1) as f64) / (all + 1) as f64;
        let x = 2.0 * rank - 1.0;
        let factors = BETS.map(|(degree, c)| 1.0 + c * if degree == 1 { x } else { 0.5 * (3.0 * x * x - 1.0) });
        self.wealth.update(&factors);
        Some(rank)
    }

    /// The logarithm of the e-value against "nothing has changed".
    pub fn log_e_value(&self) -> f64 {
        self.wealth.log_e_value()
    }

    /// Whether the other test has the same groups and bins.
    pub fn fits(&self, other: &Self) -> bool {
        self.bins == other.bins && self.counts.len() == other.counts.len() && self.wealth.fits(&other.wealth)
    }

    /// Values so far.
    pub fn steps(&self) -> u64 {
        self.wealth.steps()
    }

    /// Joins the evidence of another test with the same `reference`, which watched other values.
    pub fn merge(&mut self, other: &Self, reference: &[u32]) {
        for ((count, more), known) in self.counts.iter_mut().zip(&other.counts).zip(reference) {
            *count = count.saturating_add(more.saturating_sub(*known));
        }
        self.wealth.merge(&other.wealth);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flipcast_ground::SplitMix64;

    /// Bins that are filled evenly by draws from `[0, 1)`, two groups.
    fn reference(random: &mut SplitMix64, images: usize) -> Vec<u32> {
        let mut counts = vec![0; 32];
        (0..images).for_each(|i| counts[16 * (i % 2) + random.below(16)] += 1);
        counts
    }

    /// The largest e-value on the way, as a logarithm, and the value after which it first exceeded 100.
    fn watch(
        random: &mut SplitMix64,
        values: usize,
        draw: impl Fn(&mut SplitMix64, usize) -> (usize, usize),
    ) -> (f64, Option<usize>) {
        let mut test = RankTest::new(reference(random, 400), 16);
        let (mut largest, mut first) = (0f64, None);
        for i in 0..values {
            let (group, bin) = draw(random, i);
            let tie = random.uniform();
            test.update(group, bin, tie).unwrap();
            largest = largest.max(test.log_e_value());
            if first.is_none() && largest > 100f64.ln() {
                first = Some(i);
            }
        }
        (largest, first)
    }

    #[test]
    fn false_alarms_are_as_rare_as_promised_though_the_reference_is_small() {
        let mut random = SplitMix64::new(3);
        let runs = 300;
        for line in [5.0, 20.0] {
            let alarms = (0..runs)
                .filter(|_| watch(&mut random, 1500, |random, i| (i % 2, random.below(16))).0 > f64::ln(line))
                .count();
            let allowed = f64::from(runs) / line;
            assert!(alarms as f64 <= allowed + 3.0 * allowed.sqrt(), "{alarms} of {runs} reached {line}");
        }
    }

    #[test]
    fn larger_values_are_noticed_soon_and_other_shares_of_groups_never() {
        let mut random = SplitMix64::new(4);
        let shifted =
            |random: &mut SplitMix64, i: usize| (0, if i < 500 { random.below(16) } else { 8 + random.below(8) });
        let (_, first) = watch(&mut random, 700, shifted);
        assert!(first.is_some_and(|first| (500..620).contains(&first)), "{first:?}");
        let (largest, _) = watch(&mut random, 2000, |random, i| (usize::from(i > 300), random.below(16)));
        assert!(largest < 100f64.ln(), "{largest}");
    }

    #[test]
    fn a_bin_that_does_not_exist_is_refused() {
        let mut test = RankTest::new(vec![1; 8], 4);
        assert_eq!((test.update(2, 0, 0.5), test.update(0, 4, 0.5)), (None, None));
        assert!(test.update(1, 3, 0.5).is_some_and(|rank| (rank - 0.8).abs() < 1e-12));
    }
}
