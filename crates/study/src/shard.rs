use crate::StudyError;
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

    /// Whether the unit with this key belongs to it. Hexadecimal digits of the key decide, never a position, so that a plan
    /// that grows leaves every unit where it was.
    pub fn holds(self, key: &str) -> bool {
        let number = u64::from_str_radix(key, 16).unwrap_or(0);
        number % self.count == self.index - 1
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

    #[test]
    fn every_key_has_one_shard() {
        let shards: Vec<Shard> = (1..=3).map(|i| format!("{i}/3").parse().unwrap()).collect();
        for key in ["0123456789abcdef", "fedcba9876543210", "00000000000000ff"] {
            assert_eq!(shards.iter().filter(|s| s.holds(key)).count(), 1);
            assert!(Shard::WHOLE.holds(key));
        }
        assert_eq!(shards[1].file_part(), "2-of-3");
    }

    #[test]
    fn other_texts_are_refused() {
        for text in ["", "1", "0/2", "3/2", "1/0", "a/b", "-1/2", "1/2/3", "+1/2"] {
            assert!(text.parse::<Shard>().is_err(), "{text}");
        }
    }
}
