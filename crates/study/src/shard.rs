use crate::{StudyError, Unit};
use std::fmt;
use std::str::FromStr;

/// A part of a plan: number `index` of `count`, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    index: u64,
    count: u64,
}

impl Shard {
    /// All of it.
    pub const WHOLE: Self = Self { index: 1, count: 1 };

    /// Its units, in their order. All units of a plan are sorted by model and key and cut into `count` parts of equal size, so that units of one model lie
    /// in as few parts as can be, and few parts load its weights; within a model keys mix long and short units.
    pub fn take(self, units: &[Unit]) -> Vec<&Unit> {
        let mut order: Vec<usize> = (0..units.len()).collect();
        order.sort_by_key(|&place| (units[place].model, &units[place].key));
        let cut = |part: u64| (u128::from(part) * units.len() as u128 / u128::from(self.count)) as usize;
        let mut mine = order[cut(self.index - 1)..cut(self.index)].to_vec();
        mine.sort_unstable();
        mine.into_iter().map(|place| &units[place]).collect()
    }

    /// Where it starts in a list of `length` that every shard works through.
    pub(crate) fn start(self, length: usize) -> usize {
        let share = (self.index - 1) as f64 / self.count as f64;
        (share * length as f64) as usize
    }

    /// Its name in file names.
    pub fn file_part(self) -> String {
        format!("{}-of-{}", self.index, self.count)
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.count)
    }
}

impl FromStr for Shard {
    type Err = StudyError;

    fn from_str(text: &str) -> Result<Self, StudyError> {
        let refused = || StudyError::Shard { found: text.to_owned() };
        let (index, count) = text.split_once('/').ok_or_else(refused)?;
        let number = |digits: &str| match digits.bytes().all(|byte| byte.is_ascii_digit()) {
            true => digits.parse::<u64>().map_err(|_| refused()),
            false => Err(refused()),
        };
        let (index, count) = (number(index)?, number(count)?);
        if index == 0 || index > count {
            return Err(refused());
        }
        Ok(Self { index, count })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ExpandOptions, Plan, expand};

    fn units() -> Vec<Unit> {
        let mut plan = "[study]\nname = \"three\"\nquestion = \"?\"\n".to_owned();
        for model in ["a", "b", "c"] {
            plan += &format!("[[models]]\nname = \"{model}\"\nweights = \"{model}.pth\"\n");
        }
        plan += "[[calibrations]]\nname = \"half\"\ndata = \"x#first-half:0\"\n";
        plan += "[[datasets]]\nname = \"c\"\ndata = \"x#second-half:0\"\ncorruptions = [\"c\"]\nseverities = [1, 3]\n";
        expand(&Plan::parse(&plan).unwrap(), &ExpandOptions::default()).unwrap()
    }

    #[test]
    fn every_unit_has_one_shard_and_few_shards_have_a_model() {
        let units = units();
        assert_eq!(units.len(), 90);
        for count in [1, 2, 3, 7, 8, 90, 200] {
            let shards: Vec<Shard> = (1..=count).map(|i| format!("{i}/{count}").parse().unwrap()).collect();
            let parts: Vec<Vec<&Unit>> = shards.iter().map(|shard| shard.take(&units)).collect();
            let mut keys: Vec<&str> = parts.iter().flatten().map(|unit| unit.key.as_str()).collect();
            keys.sort_unstable();
            keys.dedup();
            assert_eq!(keys.len(), units.len(), "{count}");
            let sizes = parts.iter().map(Vec::len);
            assert!(sizes.clone().max().unwrap() - sizes.min().unwrap() <= 1, "{count}");
            let models =
                |part: &Vec<&Unit>| part.iter().map(|unit| unit.model).collect::<std::collections::BTreeSet<_>>().len();
            assert!(parts.iter().map(models).sum::<usize>() < count as usize + 3, "{count}");
        }
        assert_eq!("2/3".parse::<Shard>().unwrap().file_part(), "2-of-3");
    }

    #[test]
    fn other_texts_are_refused() {
        for text in ["", "1", "0/2", "3/2", "1/0", "a/b", "-1/2", "1/2/3", "+1/2"] {
            assert!(text.parse::<Shard>().is_err(), "{text}");
        }
    }
}
