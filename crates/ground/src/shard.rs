use std::fmt;
use std::str::FromStr;

/// One of several parts of a piece of work: number `index` of `count`, counted from 1 and written `2/8`.
///
/// ```
/// use flipcast_ground::Shard;
///
/// let shard: Shard = "2/8".parse()?;
/// assert_eq!((shard.index(), shard.count(), shard.file_part()), (2, 8, "2-of-8".to_owned()));
/// assert!("9/8".parse::<Shard>().is_err());
/// # Ok::<(), flipcast_ground::ShardError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Shard {
    index: u64,
    count: u64,
}

/// Text that names no shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardError {
    /// The text.
    pub found: String,
}

impl Shard {
    /// All of it.
    pub const WHOLE: Self = Self { index: 1, count: 1 };

    /// Its number, counted from 1.
    pub fn index(self) -> u64 {
        self.index
    }

    /// Number of shards.
    pub fn count(self) -> u64 {
        self.count
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
    type Err = ShardError;

    fn from_str(text: &str) -> Result<Self, ShardError> {
        let refused = || ShardError { found: text.to_owned() };
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

impl fmt::Display for ShardError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the shard is `{}`, expected `I/N` with I from 1 to N, such as `2/8`", self.found)
    }
}

impl std::error::Error for ShardError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_numbers_from_one_to_the_count_are_shards() {
        for text in ["", "1", "0/3", "4/3", "1/0", "-1/3", "+1/3", "1/3/5", "a/b", "1/ 3", "99999999999999999999/1"] {
            assert!(text.parse::<Shard>().is_err(), "{text}");
        }
        assert_eq!("1/1".parse(), Ok(Shard::WHOLE));
    }
}
