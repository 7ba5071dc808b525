use super::{ClassTest, RankTest};
use crate::{EstimateError, Outputs};
use serde::{Deserialize, Serialize};

/// Images of a batch in which flips are counted.
pub const FLIP_BATCH: usize = 64;
/// The most groups of classes, and the fewest images that a group has on average.
const GROUPS: usize = 10;
const LEAST_GROUP: usize = 200;
/// Bins of a group.
const BINS: usize = 32;
/// Every so many-th image decides which classes form a group and where bins end; the others fill the bins.
const DECIDES: usize = 4;

/// What clean images look like to tests that watch a stream.
///
/// Images are told apart by the entropy of their probabilities within groups of predicted classes: classes of similar entropy form a
/// group, so that other shares of the classes alone hardly move what is compared.
///
/// Images that decide on groups and bins are not counted in them: bins would be filled more evenly than by later images, and a group would hold
/// classes because their counted images happened to have small entropies. Ranks would no longer be uniform.
///
/// ```
/// use flipcast_estimate::{Outputs, ShiftReference};
///
/// // Two classes, sure answers and unsure ones.
/// let logits = (0..600).flat_map(|i| [(i % 7) as f32, (i % 5) as f32]).collect();
/// let reference = ShiftReference::fit(&Outputs::new(logits, 2)?, None)?;
/// let mut test = reference.entropy_test();
/// let (group, bin) = reference.place(0, 0.5);
/// assert!(test.update(group, bin, 0.5).is_some());
/// # Ok::<(), flipcast_estimate::EstimateError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShiftReference {
    /// How often each class was predicted.
    classes: Vec<u32>,
    /// The group of each class.
    groups: Vec<u16>,
    /// Borders between the bins of every group, group after group.
    edges: Vec<f64>,
    /// Images in every bin, group after group.
    counts: Vec<u32>,
    /// Of batches of 64 images, how many had no flip, one, and so on; nothing where images are looked at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    flips: Option<Vec<u32>>,
}

impl ShiftReference {
    /// Learns from the outputs for clean images, at the temperature of clean images, and from the flips of their batches.
    ///
    /// # Errors
    /// When `flips` has not one count for each possible number of flips.
    pub fn fit(outputs: &Outputs, flips: Option<Vec<u32>>) -> Result<Self, EstimateError> {
        if let Some(found) = flips.as_ref().map(Vec::len).filter(|found| *found != FLIP_BATCH + 1) {
            return Err(EstimateError::Length { what: "counts of flips", found, expected: FLIP_BATCH + 1 });
        }
        let mut classes = vec![0u32; outputs.classes()];
        let (mut deciding, mut counted) = (Vec::new(), Vec::new());
        for (index, seen) in outputs.classes_predicted().into_iter().zip(outputs.entropies()).enumerate() {
            classes[seen.0] += 1;
            if index.is_multiple_of(DECIDES) { deciding.push(seen) } else { counted.push(seen) }
        }
        let count = (outputs.images() / LEAST_GROUP).clamp(1, GROUPS.min(outputs.classes()));
        let groups = group_classes(&deciding, outputs.classes(), count);
        let count = groups.iter().max().map_or(0, |group| usize::from(*group) + 1);
        let mut members = vec![Vec::new(); count];
        for (class, entropy) in deciding {
            members[usize::from(groups[class])].push(entropy);
        }
        let mut edges = Vec::with_capacity(count * (BINS - 1));
        for values in &mut members {
            values.sort_by(f64::total_cmp);
            edges.extend((1..BINS).map(|i| values.get(i * values.len() / BINS).copied().unwrap_or(0.0)));
        }
        let mut reference = Self { classes, groups, edges, counts: vec![0; count * BINS], flips };
        for (class, entropy) in counted {
            let (group, bin) = reference.place(class, entropy);
            reference.counts[group * BINS + bin] += 1;
        }
        Ok(reference)
    }

    /// Number of classes.
    pub fn num_classes(&self) -> usize {
        self.classes.len()
    }

    /// The share of each class among the predictions.
    pub fn class_shares(&self) -> Vec<f64> {
        let all: f64 = self.classes.iter().map(|count| f64::from(*count)).sum();
        self.classes.iter().map(|count| f64::from(*count) / all.max(1.0)).collect()
    }

    /// Group and bin of an image with this predicted class and entropy; a class that does not exist is put where the first one is.
    pub fn place(&self, class: usize, entropy: f64) -> (usize, usize) {
        let group = self.groups.get(class).map_or(0, |group| usize::from(*group));
        let edges = self.edges.get(group * (BINS - 1)..(group + 1) * (BINS - 1)).unwrap_or_default();
        (group, edges.partition_point(|edge| *edge < entropy))
    }

    /// A test of entropies.
    pub fn entropy_test(&self) -> RankTest {
        RankTest::new(self.counts.clone(), BINS)
    }

    /// A test of flips in batches of 64 images, where flips are known.
    pub fn flip_test(&self) -> Option<RankTest> {
        self.flips.clone().map(|counts| RankTest::new(counts, FLIP_BATCH + 1))
    }

    /// A test of predicted classes.
    pub fn class_test(&self) -> ClassTest {
        ClassTest::new(self.classes.clone())
    }

    /// Joins tests that watched different images of one kind of stream into the first of each pair.
    pub fn merge_entropy(&self, test: &mut RankTest, other: &RankTest) {
        test.merge(other, &self.counts);
    }

    /// The same for flips.
    pub fn merge_flips(&self, test: &mut RankTest, other: &RankTest) {
        if let Some(flips) = &self.flips {
            test.merge(other, flips);
        }
    }

    /// The same for classes.
    pub fn merge_classes(&self, test: &mut ClassTest, other: &ClassTest) {
        test.merge(other, &self.classes);
    }

    /// Refuses a reference whose parts do not fit together, as a damaged file has it.
    pub fn check(&self) -> Result<(), EstimateError> {
        let groups = self.groups.iter().max().map_or(0, |group| usize::from(*group) + 1);
        for (what, found, expected) in [
            ("groups of classes", self.groups.len(), self.classes.len().max(1)),
            ("borders of entropies", self.edges.len(), groups * (BINS - 1)),
            ("counts of entropies", self.counts.len(), groups * BINS),
            ("counts of flips", self.flips.as_ref().map_or(FLIP_BATCH + 1, Vec::len), FLIP_BATCH + 1),
        ] {
            if found != expected {
                return Err(EstimateError::Length { what, found, expected });
            }
        }
        match self.edges.iter().position(|edge| !edge.is_finite()) {
            Some(index) => {
                Err(EstimateError::NotFinite { what: "border of entropies", index, found: self.edges[index] })
            }
            None => Ok(()),
        }
    }
}

/// The group of each class: classes in the order of their mean entropy, groups with about as many of the images each.
fn group_classes(seen: &[(usize, f64)], classes: usize, count: usize) -> Vec<u16> {
    let (mut images, mut sums) = (vec![0u32; classes], vec![0.0; classes]);
    for (class, entropy) in seen {
        images[*class] += 1;
        sums[*class] += entropy;
    }
    let mut order: Vec<usize> = (0..classes).collect();
    let mean = |class: usize| if images[class] > 0 { sums[class] / f64::from(images[class]) } else { f64::MAX };
    order.sort_by(|&a, &b| mean(a).total_cmp(&mean(b)).then(a.cmp(&b)));
    let all: u64 = images.iter().map(|count| u64::from(*count)).sum();
    let (mut groups, mut before) = (vec![0; classes], 0u64);
    for class in order {
        let middle = before + u64::from(images[class]) / 2;
        groups[class] = (middle * count as u64 / all.max(1)).min(count as u64 - 1) as u16;
        before += u64::from(images[class]);
    }
    // A class with very many images can leave a group empty; numbers are closed up.
    let mut used: Vec<u16> = groups.clone();
    used.sort_unstable();
    used.dedup();
    groups.iter().map(|group| used.partition_point(|other| other < group) as u16).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::labelled_outputs;
    use flipcast_ground::SplitMix64;

    #[test]
    fn images_that_decide_on_bins_are_not_counted_and_every_image_finds_its_place() {
        let (outputs, _) = labelled_outputs(&mut SplitMix64::new(1), 3000, 12, 2.0);
        let reference = ShiftReference::fit(&outputs, None).unwrap();
        reference.check().unwrap();
        assert_eq!(reference.counts.iter().sum::<u32>(), 2250, "a quarter of the images decides on the bins");
        for group in reference.counts.chunks(BINS) {
            let images: u32 = group.iter().sum();
            assert!(images >= 75 && group.iter().all(|count| *count <= images / 4), "{group:?}");
        }
        let (group, bin) = reference.place(3, 1e9);
        assert_eq!(bin, BINS - 1);
        assert!(reference.entropy_test().update(group, bin, 0.5).is_some());
        assert!((reference.class_shares().iter().sum::<f64>() - 1.0).abs() < 1e-12);
    }

    #[test]
    fn a_class_with_most_images_leaves_no_group_empty() {
        let seen: Vec<(usize, f64)> =
            (0..1000).map(|i| if i < 900 { (0, 0.01) } else { (1 + i % 2 * 2, 1.0) }).collect();
        let groups = group_classes(&seen, 4, 4);
        let most = usize::from(*groups.iter().max().unwrap());
        assert!((0..=most).all(|group| groups.iter().any(|found| usize::from(*found) == group)), "{groups:?}");
    }

    #[test]
    fn it_survives_storage_and_damage_is_refused() {
        let (outputs, _) = labelled_outputs(&mut SplitMix64::new(2), 500, 3, 2.0);
        let reference = ShiftReference::fit(&outputs, Some(vec![1; FLIP_BATCH + 1])).unwrap();
        let text = serde_json::to_string(&reference).unwrap();
        assert_eq!(serde_json::from_str::<ShiftReference>(&text).unwrap(), reference);
        let spoiled: [fn(&mut ShiftReference); 4] =
            [|r| r.groups[0] = 9, |r| r.counts.truncate(1), |r| r.edges[0] = f64::NAN, |r| r.flips = Some(Vec::new())];
        for spoil in spoiled {
            let mut bad = reference.clone();
            spoil(&mut bad);
            assert!(bad.check().is_err(), "{bad:?}");
        }
        assert!(ShiftReference::fit(&outputs, Some(vec![1])).is_err());
    }
}
