use std::collections::BTreeMap;
use std::sync::Arc;

use flipcast_ground::SplitMix64;

use super::{DataError, Dataset, Subset};
use crate::Label;
use crate::loader::Order;

/// Which of the two halves of a dataset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Half {
    /// The half that gets the extra image when their number is odd.
    First,
    /// The other.
    Second,
}

impl Half {
    /// This half of `dataset`, as [`split_halves`] makes it.
    pub fn of(self, dataset: Arc<dyn Dataset>, seed: u64) -> Result<Subset, DataError> {
        let (first, second) = split_halves(&*dataset, seed)?;
        let indices = match self {
            Self::First => first,
            Self::Second => second,
        };
        Subset::new(dataset, indices)
    }
}

/// The indices of two halves that share no image and together hold all, each in stored order.
///
/// Images with the same label, or none, are shuffled among themselves and the groups are then dealt out in turn. So the
/// halves differ by at most one image in number, and by at most one image of every class. The same labels and seed
/// give the same halves on every machine; no picture is decoded.
pub fn split_halves(dataset: &dyn Dataset, seed: u64) -> Result<(Vec<usize>, Vec<usize>), DataError> {
    let mut groups: BTreeMap<Vec<u32>, Vec<usize>> = BTreeMap::new();
    for index in 0..dataset.len() {
        let key = match dataset.label(index)? {
            Label::Unknown => Vec::new(),
            Label::Class(class) => vec![class],
            Label::AnyOf(mut classes) => {
                classes.sort_unstable();
                classes
            }
        };
        groups.entry(key).or_default().push(index);
    }
    let mut seeds = SplitMix64::new(seed);
    let mut dealt = 0;
    let (mut first, mut second) = (Vec::new(), Vec::new());
    for group in groups.into_values() {
        let order = Order::Shuffled { seed: seeds.next_u64() };
        for position in order.indices(group.len()) {
            let half = if dealt % 2 == 0 { &mut first } else { &mut second };
            half.push(group[position]);
            dealt += 1;
        }
    }
    first.sort_unstable();
    second.sort_unstable();
    Ok((first, second))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Image;
    use crate::dataset::InMemory;

    fn halves(labels: &[Label], seed: u64) -> (Vec<usize>, Vec<usize>) {
        let pixel = Image::new(1, 1, vec![0; 3]).unwrap();
        split_halves(&InMemory::new(labels.iter().map(|label| (pixel.clone(), label.clone()))), seed).unwrap()
    }

    /// Irregular class sizes, some labels unknown or ambiguous.
    fn mixed(images: usize) -> Vec<Label> {
        let label = |i: usize| match i * i % 11 {
            0 => Label::Unknown,
            1 => Label::AnyOf(vec![2, 1]),
            3 => Label::AnyOf(vec![1, 2]),
            class => Label::Class(class as u32),
        };
        (0..images).map(label).collect()
    }

    #[test]
    fn halves_share_nothing_and_miss_nothing() {
        for images in [0, 1, 2, 3, 100, 1001] {
            let (first, second) = halves(&mixed(images), 3);
            assert_eq!(first.len(), images.div_ceil(2));
            assert!(first.is_sorted() && second.is_sorted());
            let mut all = [first, second].concat();
            all.sort_unstable();
            assert_eq!(all, (0..images).collect::<Vec<_>>());
        }
    }

    #[test]
    fn every_class_is_split_evenly() {
        let labels = mixed(1001);
        let (first, second) = halves(&labels, 8);
        for class in 0..11 {
            let count = |half: &[usize]| {
                let of_class = |&&i: &&usize| labels[i] == Label::Class(class);
                half.iter().filter(of_class).count()
            };
            assert!(count(&first).abs_diff(count(&second)) <= 1);
        }
    }

    #[test]
    fn the_seed_alone_chooses() {
        let labels = mixed(200);
        assert_eq!(halves(&labels, 1), halves(&labels, 1));
        assert_ne!(halves(&labels, 1), halves(&labels, 2));
        // From the same rule written in Python; the order is part of what a record's seed means.
        let unlabelled = vec![Label::Unknown; 8];
        assert_eq!(halves(&unlabelled, 0).0, [0, 3, 4, 7]);
        let classes: Vec<Label> = (0..12).map(|i| Label::Class(i % 3)).collect();
        assert_eq!(halves(&classes, 7).0, [0, 1, 3, 5, 10, 11]);
    }
}
