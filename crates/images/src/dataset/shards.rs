use std::path::PathBuf;

use super::DataError;

/// Most shards one pattern may stand for.
const MAX_SHARDS: u64 = 100_000;

/// The files a pattern such as `serial_{00000..00012}.tar` stands for; a path without braces is itself.
pub fn expand_shards(pattern: &str) -> Result<Vec<PathBuf>, DataError> {
    let bad = |found: &str| DataError::BadPattern { pattern: pattern.into(), found: found.into() };
    let Some((before, rest)) = pattern.split_once('{') else {
        return match pattern.contains('}') {
            true => Err(bad("a closing brace alone")),
            false => Ok(vec![pattern.into()]),
        };
    };
    let (range, after) = rest.split_once('}').ok_or_else(|| bad("an open brace alone"))?;
    if after.contains(['{', '}']) || range.contains('{') {
        return Err(bad("several braces"));
    }
    let (first, last) = range.split_once("..").ok_or_else(|| bad("no `..` in its braces"))?;
    let number = |text: &str| {
        let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        let parsed = digits.then(|| text.parse::<u64>().ok()).flatten();
        parsed.ok_or_else(|| bad("an end that is no number"))
    };
    let (from, to) = (number(first)?, number(last)?);
    if from > to {
        return Err(bad("a falling range"));
    }
    if to - from >= MAX_SHARDS {
        return Err(bad("more than 100000 shards"));
    }
    // The first end's width is the padding, as in a shell.
    let width = first.len();
    let shard = |i: u64| PathBuf::from(format!("{before}{i:0width$}{after}"));
    Ok((from..=to).map(shard).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_keep_their_zeros() {
        let shards = expand_shards("a/serial_{00009..00011}.tar").unwrap();
        let names: Vec<&str> = shards.iter().filter_map(|p| p.to_str()).collect();
        assert_eq!(names, ["a/serial_00009.tar", "a/serial_00010.tar", "a/serial_00011.tar"]);
        assert_eq!(expand_shards("one.tar").unwrap().len(), 1);
    }

    #[test]
    fn malformed_patterns_are_refused() {
        for pattern in ["{1..}", "{3..1}", "{a..b}", "{1-3}", "{1..3", "1..3}", "{1..2}{3..4}", "{0..99999999999}"] {
            let refused = expand_shards(pattern);
            assert!(matches!(refused, Err(DataError::BadPattern { .. })), "{pattern}");
        }
    }
}
