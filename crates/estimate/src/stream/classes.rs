use super::Wealth;
use serde::{Deserialize, Serialize};

/// Images that the shares of the reference count for beside recent ones.
const PRIOR_IMAGES: f64 = 50.0;
/// Recent images for each class, before older ones are forgotten.
const MEMORY_PER_CLASS: f64 = 20.0;
/// Recent images beside these.
const LEAST_MEMORY: f64 = 200.0;
/// How far a bet trusts the recent shares.
const TRUST: [f64; 3] = [0.1, 0.4, 1.0];

/// Whether classes are still predicted as often as before.
///
/// *Idea.* As for [`RankTest`](super::RankTest), with classes in the order of their numbers: the rank of an image falls into the interval of
/// its class, whose width is the class's share so far. Bets favour the intervals of classes that came more often of late.
/// *Formula.* `u = (b + v (s + 1)) / (n + 1)` with `b` earlier images of lower classes, `s` of the same one, `n` in all, `v` uniform at random. Where `u` lies in the interval of a class
/// with share `p` so far and share `q` among recent images, bets multiply by `1 + c (q / p - 1)`.
/// *Reference.* Vovk, Gammerman and Shafer, "Algorithmic Learning in a Random World", 2005.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClassTest {
    counts: Vec<u32>,
    recent: Vec<f32>,
    wealth: Wealth,
}

impl ClassTest {
    /// A test that knows how often each class was predicted for the images of the reference.
    pub fn new(counts: Vec<u32>) -> Self {
        Self { recent: vec![0.0; counts.len()], counts, wealth: Wealth::new(TRUST.len()) }
    }

    /// Takes an image of `class`; `tie` is a random number from 0 to 1. A class that does not exist is ignored.
    pub fn update(&mut self, class: usize, tie: f64) {
        if class >= self.counts.len() {
            return;
        }
        let classes = self.counts.len() as f64;
        let all: f64 = self.counts.iter().map(|count| f64::from(*count)).sum();
        let below: f64 = self.counts[..class].iter().map(|count| f64::from(*count)).sum();
        let rank = (below + tie * (f64::from(self.counts[class]) + 1.0)) / (all + 1.0);
        // Intervals are fixed before the image is seen; a class that never came has a narrow one.
        let share = |count: u32| (f64::from(count) + 1.0 / classes) / (all + 1.0);
        let (mut place, mut end) = (0, share(self.counts[0]));
        while end < rank && place + 1 < self.counts.len() {
            place += 1;
            end += share(self.counts[place]);
        }
        let expected = share(self.counts[place]);
        let recent: f64 = self.recent.iter().map(|count| f64::from(*count)).sum();
        let seen = (f64::from(self.recent[place]) + PRIOR_IMAGES * expected) / (recent + PRIOR_IMAGES);
        self.wealth.update(&TRUST.map(|trust| 1.0 + trust * (seen / expected - 1.0)));
        let fade = (1.0 - 1.0 / (LEAST_MEMORY + MEMORY_PER_CLASS * classes)) as f32;
        self.recent.iter_mut().for_each(|count| *count *= fade);
        self.recent[class] += 1.0;
        self.counts[class] = self.counts[class].saturating_add(1);
    }

    /// The logarithm of the e-value against "nothing has changed".
    pub fn log_e_value(&self) -> f64 {
        self.wealth.log_e_value()
    }

    /// Number of classes.
    pub fn classes(&self) -> usize {
        self.counts.len()
    }

    /// Whether the other test has the same classes.
    pub fn fits(&self, other: &Self) -> bool {
        let sizes = |test: &Self| (test.counts.len(), test.recent.len());
        sizes(self) == sizes(other) && self.wealth.fits(&other.wealth)
    }

    /// The class whose recent share differs most from its share before, with both shares; nothing before any image came.
    pub fn most_moved(&self) -> Option<(usize, f64, f64)> {
        let (all, recent) = self.totals();
        let shares = self.counts.iter().zip(&self.recent).enumerate();
        let shares = shares.map(|(class, (count, now))| (class, f64::from(*count) / all, f64::from(*now) / recent));
        shares.filter(|_| recent > 0.0 && all > 0.0).max_by(|a, b| (a.2 - a.1).abs().total_cmp(&(b.2 - b.1).abs()))
    }

    /// Joins the evidence of another test with the same `reference`, which watched other images.
    pub fn merge(&mut self, other: &Self, reference: &[u32]) {
        for ((count, more), known) in self.counts.iter_mut().zip(&other.counts).zip(reference) {
            *count = count.saturating_add(more.saturating_sub(*known));
        }
        self.recent.iter_mut().zip(&other.recent).for_each(|(recent, more)| *recent = 0.5 * (*recent + more));
        self.wealth.merge(&other.wealth);
    }

    fn totals(&self) -> (f64, f64) {
        let all = self.counts.iter().map(|count| f64::from(*count)).sum();
        (all, self.recent.iter().map(|count| f64::from(*count)).sum())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flipcast_ground::SplitMix64;

    fn watch(
        random: &mut SplitMix64,
        images: usize,
        draw: impl Fn(&mut SplitMix64, usize) -> usize,
    ) -> (f64, Option<usize>) {
        let mut reference = vec![0; 10];
        (0..500).for_each(|_| reference[random.below(10)] += 1);
        let mut test = ClassTest::new(reference);
        let (mut largest, mut first) = (0f64, None);
        for i in 0..images {
            let class = draw(random, i);
            test.update(class, random.uniform());
            largest = largest.max(test.log_e_value());
            if first.is_none() && largest > 100f64.ln() {
                first = Some(i);
            }
        }
        (largest, first)
    }

    #[test]
    fn false_alarms_are_as_rare_as_promised() {
        let mut random = SplitMix64::new(5);
        let runs = 300;
        let alarms =
            (0..runs).filter(|_| watch(&mut random, 1500, |random, _| random.below(10)).0 > 10f64.ln()).count();
        let allowed = f64::from(runs) / 10.0;
        assert!(alarms as f64 <= allowed + 3.0 * allowed.sqrt(), "{alarms} of {runs}");
    }

    #[test]
    fn a_class_that_comes_more_often_is_noticed_and_named() {
        let mut random = SplitMix64::new(6);
        let draw =
            |random: &mut SplitMix64, i: usize| if i >= 500 && random.uniform() < 0.3 { 7 } else { random.below(10) };
        let (_, first) = watch(&mut random, 900, draw);
        assert!(first.is_some_and(|first| (500..800).contains(&first)), "{first:?}");
        let mut test = ClassTest::new(vec![50; 10]);
        assert_eq!(test.most_moved(), None);
        (0..100).for_each(|i| test.update(if i % 2 == 0 { 7 } else { i % 10 }, 0.5));
        assert_eq!(test.most_moved().unwrap().0, 7);
        test.update(99, 0.5);
    }
}
