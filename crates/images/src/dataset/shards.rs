use std::path::{Path, PathBuf};

use super::DataError;
use super::folder::{name_of, read_dir};

/// Most shards one pattern may stand for.
const MAX_SHARDS: u64 = 100_000;

/// The files a pattern such as `serial_{00000..00012}.tar` or `serial_*.tar` stands for; any other path is itself.
pub fn expand_shards(pattern: &str) -> Result<Vec<PathBuf>, DataError> {
    let bad = |found: &str| DataError::BadPattern { pattern: pattern.into(), found: found.into() };
    if pattern.contains('*') {
        return expand_stars(pattern);
    }
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

/// The files in one folder whose names fit, in byte order; a `*` stands for any text.
fn expand_stars(pattern: &str) -> Result<Vec<PathBuf>, DataError> {
    let path = Path::new(pattern);
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if folder.to_string_lossy().contains('*') {
        let found = "a `*` in a folder's name".into();
        return Err(DataError::BadPattern { pattern: pattern.into(), found });
    }
    let fitting = read_dir(folder)?.into_iter().filter(|entry| fits(&name_of(entry), &name)).map(|entry| entry.path());
    let fitting: Vec<PathBuf> = fitting.collect();
    if fitting.is_empty() {
        return Err(DataError::BadPattern { pattern: pattern.into(), found: "no file that fits".into() });
    }
    Ok(fitting)
}

/// Whether `name` is the pieces of `pattern` between its stars, in order, with any text in their place.
fn fits(name: &str, pattern: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else {
        return name == pattern;
    };
    let Some(mut name) = name.strip_prefix(start).filter(|_| !name.starts_with('.')) else {
        return false;
    };
    let mut pieces: Vec<&str> = rest.split('*').collect();
    let end = pieces.pop().unwrap_or_default();
    for piece in pieces {
        let Some(at) = name.find(piece) else {
            return false;
        };
        name = &name[at + piece.len()..];
    }
    name.ends_with(end)
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
    fn a_star_stands_for_any_text() {
        for (name, pattern, expected) in [
            ("a.tar", "*.tar", true),
            ("a.tar.gz", "*.tar", false),
            (".tar", "*.tar", false),
            ("train-1-of-2.tar", "train-*-of-*.tar", true),
            ("train-1.tar", "train-*-of-*.tar", false),
            ("ab", "ab*b", false),
        ] {
            assert_eq!(fits(name, pattern), expected, "{name} {pattern}");
        }
    }

    #[test]
    fn malformed_patterns_are_refused() {
        for pattern in ["{1..}", "{3..1}", "{a..b}", "{1-3}", "{1..3", "1..3}", "{1..2}{3..4}", "{0..99999999999}"] {
            let refused = expand_shards(pattern);
            assert!(matches!(refused, Err(DataError::BadPattern { .. })), "{pattern}");
        }
    }
}
