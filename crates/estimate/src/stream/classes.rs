use super::Wealth;
use serde::{Deserialize, Serialize};

/// Images that even cells count for beside recent ranks.
const PRIOR_IMAGES: f64 = 50.0;
/// Recent images for each class or cell, before older ones are forgotten.
const MEMORY_EACH: f64 = 20.0;
/// Recent images beside these.
const LEAST_MEMORY: f64 = 200.0;
/// The fewest and the most cells of ranks. More cells tell narrow changes apart, and take longer to fill.
const CELLS: (usize, usize) = (8, 32);
/// How far a bet trusts the recent cells.
const TRUST: [f64; 3] = [0.1, 0.4, 1.0];

/// Whether classes are still predicted as often as before.
///
/// *Idea.* As for [`RankTest`](super::RankTest), with classes in the order of their numbers: the rank of an image falls into the interval of
/// its class, whose width is the class's share so far. Bets favour the cells into which ranks fell more often of late. They look at
/// ranks alone: ranks tell nothing about later ones, whereas classes tell how the reference differs by chance from its source.
/// *Formula.* `u = (b + v (s + 1)) / (n + 1)` with `b` earlier images of lower classes, `s` of the same one, `n` in all, `v` uniform at random. Of `k` equal cells
/// of ranks, `u` lies in one that has the share `q` of recent ranks; bets multiply by `1 + c (k q - 1)`.
/// *Reference.* Vovk, Gammerman and Shafer, "Algorithmic Learning in a Random World", 2005.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClassTest {
    counts: Vec<u32>,
    /// Recent images of each class, by which the class that moved most is named.
    recent: Vec<f32>,
    /// Recent ranks in each cell; none yet in a state of an earlier version.
    #[serde(default)]
    cells: Vec<f32>,
    wealth: Wealth,
}

impl ClassTest {
    /// A test that knows how often each class was predicted for the images of the reference.
    pub fn new(counts: Vec<u32>) -> Self {
        let cells = vec![0.0; cells_for(counts.len())];
        Self { recent: vec![0.0; counts.len()], counts, cells, wealth: Wealth::new(TRUST.len()) }
    }

    /// Takes an image of `class`; `tie` is a random number from 0 to 1. A class that does not exist is ignored.
    pub fn update(&mut self, class: usize, tie: f64) {
        if class >= self.counts.len() {
            return;
        }
        let all: f64 = self.counts.iter().map(|count| f64::from(*count)).sum();
        let below: f64 = self.counts[..class].iter().map(|count| f64::from(*count)).sum();
        let rank = (below + tie * (f64::from(self.counts[class]) + 1.0)) / (all + 1.0);
        self.cells.resize(cells_for(self.counts.len()), 0.0);
        let cells = self.cells.len() as f64;
        let cell = ((rank * cells) as usize).min(self.cells.len() - 1);
        let recent: f64 = self.cells.iter().map(|count| f64::from(*count)).sum();
        let seen = (f64::from(self.cells[cell]) + PRIOR_IMAGES / cells) / (recent + PRIOR_IMAGES);
        self.wealth.update(&TRUST.map(|trust| 1.0 + trust * (cells * seen - 1.0)));
        add_recent(&mut self.cells, cell);
        add_recent(&mut self.recent, class);
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
        let same_cells = self.cells.is_empty() || other.cells.is_empty() || self.cells.len() == other.cells.len();
        sizes(self) == sizes(other) && same_cells && self.wealth.fits(&other.wealth)
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
        for (own, theirs) in [(&mut self.recent, &other.recent), (&mut self.cells, &other.cells)] {
            own.iter_mut().zip(theirs).for_each(|(recent, more)| *recent = 0.5 * (*recent + more));
        }
        self.wealth.merge(&other.wealth);
    }

    fn totals(&self) -> (f64, f64) {
        let all = self.counts.iter().map(|count| f64::from(*count)).sum();
        (all, self.recent.iter().map(|count| f64::from(*count)).sum())
    }
}

/// How many cells the ranks of this many classes fall into.
fn cells_for(classes: usize) -> usize {
    classes.clamp(CELLS.0, CELLS.1)
}

/// Counts one more at `place`, and forgets a little of all.
fn add_recent(recent: &mut [f32], place: usize) {
    let fade = (1.0 - 1.0 / (LEAST_MEMORY + MEMORY_EACH * recent.len() as f64)) as f32;
    recent.iter_mut().for_each(|count| *count *= fade);
    recent[place] += 1.0;
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
        watch_from(random, 500, images, draw)
    }

    /// The largest e-value on the way, as a logarithm, and the image after which it first exceeded 100.
    fn watch_from(
        random: &mut SplitMix64,
        known: usize,
        images: usize,
        draw: impl Fn(&mut SplitMix64, usize) -> usize,
    ) -> (f64, Option<usize>) {
        let mut reference = vec![0; 10];
        (0..known).for_each(|_| reference[random.below(10)] += 1);
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
    fn a_reference_of_a_few_images_causes_no_alarms() {
        // What five images say of ten classes is mostly wrong, and the stream soon knows better.
        let mut random = SplitMix64::new(7);
        let runs = 400;
        for line in [3.0, 10.0] {
            let reaches = |random: &mut SplitMix64| watch_from(random, 5, 600, |r, _| r.below(10)).0 > f64::ln(line);
            let alarms = (0..runs).filter(|_| reaches(&mut random)).count();
            let allowed = f64::from(runs) / line;
            assert!(alarms as f64 <= allowed + 3.0 * allowed.sqrt(), "{alarms} of {runs} reached {line}");
        }
    }

    #[test]
    fn a_state_of_an_earlier_version_goes_on() {
        let test = ClassTest::new(vec![50; 10]);
        let mut stored = serde_json::to_value(&test).unwrap();
        stored.as_object_mut().unwrap().remove("cells");
        let mut old: ClassTest = serde_json::from_value(stored).unwrap();
        assert!(old.fits(&test) && test.fits(&old));
        old.update(3, 0.5);
        assert_eq!(old.cells.len(), 10);
        let mut damaged = test.clone();
        damaged.cells.push(0.0);
        assert!(!damaged.fits(&test));
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
