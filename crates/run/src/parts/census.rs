use flipcast_ground::{Shard, SplitMix64};
use serde::{Deserialize, Serialize};

/// How many images a list names, and which: a sum of hashes of their names, so that lists of parts add up to the list of the whole if and, by all odds, only if
/// nothing is missing and nothing is named twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Census {
    /// Number of images.
    pub images: u64,
    /// Sum of the hashes of their names.
    pub names: u64,
}

impl Census {
    /// Counts an image.
    pub(super) fn add(&mut self, name: NameHash) {
        *self = self.join(Self { images: 1, names: SplitMix64::mix(name.0 ^ CENSUS) });
    }

    /// Both lists together.
    pub(super) fn join(self, other: Self) -> Self {
        Self { images: self.images.wrapping_add(other.images), names: self.names.wrapping_add(other.names) }
    }
}

// Three uses of one hash, which must not depend on each other.
const CENSUS: u64 = 0x6e61_6d65_7320_6f66;
const SHARD: u64 = 0x7368_6172_6420_6f66;
const SAMPLE: u64 = 0x7361_6d70_6c65_206f;

/// A hash of an image's name.
#[derive(Clone, Copy, Debug)]
pub(super) struct NameHash(u64);

impl NameHash {
    pub fn of(name: &str) -> Self {
        Self(SplitMix64::hash_text(name))
    }

    /// Whether the image belongs to `shard`.
    pub fn is_in(self, shard: Shard) -> bool {
        let place = (u128::from(SplitMix64::mix(self.0 ^ SHARD)) * u128::from(shard.count())) >> 64;
        place as u64 + 1 == shard.index()
    }

    /// Images with small keys are sampled first.
    pub fn key(self, seed: u64) -> u64 {
        SplitMix64::mix(self.0 ^ SplitMix64::mix(seed ^ SAMPLE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_image_is_in_one_shard_and_lists_of_shards_add_up_to_the_whole() {
        let names: Vec<NameHash> = (0..2000).map(|i| NameHash::of(&format!("class/{i:05}.png"))).collect();
        let mut whole = Census::default();
        names.iter().for_each(|&name| whole.add(name));
        for count in [1, 3, 7] {
            let mut joined = Census::default();
            for index in 1..=count {
                let shard: Shard = format!("{index}/{count}").parse().unwrap();
                let mut own = Census::default();
                names.iter().filter(|name| name.is_in(shard)).for_each(|&name| own.add(name));
                // Six standard deviations of a binomial count.
                let (mean, part) = (2000.0 / count as f64, own.images as f64);
                assert!((part - mean).abs() <= 6.0 * mean.sqrt(), "{shard}: {part}");
                joined = joined.join(own);
            }
            assert_eq!(joined, whole, "{count}");
        }
        let mut other = Census::default();
        names[1..].iter().chain(&names[1..2]).for_each(|&name| other.add(name));
        assert_eq!(other.images, whole.images);
        assert_ne!(other.names, whole.names, "one missing, another twice");
    }

    #[test]
    fn a_shard_is_a_random_sample_of_the_keys() {
        let shard: Shard = "1/4".parse().unwrap();
        let names = (0..8000).map(|i| NameHash::of(&i.to_string())).filter(|name| name.is_in(shard));
        let small = names.map(|name| name.key(3)).filter(|&key| key < u64::MAX / 2).count() as f64;
        assert!((small - 1000.0).abs() < 6.0 * 1000f64.sqrt(), "{small}");
    }
}
