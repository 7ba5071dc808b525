use std::collections::BTreeMap;

use flipcast_ground::Hint;

/// Most files that are named.
const MAX_EXAMPLES: usize = 3;
/// Longer endings are cut, so that a message stays short.
const MAX_ENDING: usize = 12;
/// Endings of image formats that are recognised but not read.
const UNREAD_IMAGES: [&str; 8] = [".avif", ".heic", ".heif", ".jxl", ".jp2", ".svg", ".raw", ".dng"];

/// Files that lie where images are looked for but are not read: how many of each ending, and a few names. Names that start
/// with a dot are not counted.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let root = folder.path().to_str().expect("UTF-8");
/// std::fs::write(folder.path().join("a.png"), b"an image, as its name says")?;
/// std::fs::write(folder.path().join("b.heic"), b"a format that is not read")?;
/// let data = flipcast_images::dataset::open(root)?;
/// assert_eq!(data.len(), 1);
/// assert_eq!(data.ignored().summary().as_deref(), Some("1 file ignored: 1 .heic, such as `b.heic`"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ignored {
    endings: BTreeMap<String, usize>,
    examples: Vec<String>,
}

impl Ignored {
    /// Nothing was ignored.
    pub const fn none() -> Self {
        Self { endings: BTreeMap::new(), examples: Vec::new() }
    }

    /// Counts the file at `path`.
    pub(super) fn note(&mut self, path: &str) {
        let name = path.rsplit('/').next().unwrap_or(path);
        let ending = match name.rsplit_once('.') {
            Some((_, ending)) => format!(".{}", ending.to_lowercase().chars().take(MAX_ENDING).collect::<String>()),
            None => "without an ending".to_owned(),
        };
        *self.endings.entry(ending).or_default() += 1;
        if self.examples.len() < MAX_EXAMPLES {
            self.examples.push(path.to_owned());
        }
    }

    /// How many files.
    pub fn count(&self) -> usize {
        self.endings.values().sum()
    }

    /// How many of each ending, the most frequent first.
    pub fn endings(&self) -> Vec<(&str, usize)> {
        let mut endings: Vec<(&str, usize)> =
            self.endings.iter().map(|(ending, &count)| (ending.as_str(), count)).collect();
        endings.sort_by_key(|&(_, count)| std::cmp::Reverse(count));
        endings
    }

    /// The first of them.
    pub fn examples(&self) -> &[String] {
        &self.examples
    }

    /// One line for people, or nothing where nothing was ignored.
    pub fn summary(&self) -> Option<String> {
        let count = self.count();
        if count == 0 {
            return None;
        }
        let endings: Vec<String> =
            self.endings().iter().take(5).map(|(ending, count)| format!("{count} {ending}")).collect();
        let examples: Vec<String> = self.examples.iter().map(|path| format!("`{path}`")).collect();
        let files = if count == 1 { "1 file".to_owned() } else { format!("{count} files") };
        Some(format!("{files} ignored: {}, such as {}", endings.join(", "), examples.join(", ")))
    }
}

impl Hint for Ignored {
    fn hint(&self) -> Option<String> {
        let unread = UNREAD_IMAGES.iter().filter(|ending| self.endings.contains_key(**ending));
        let unread: Vec<&str> = unread.copied().collect();
        (!unread.is_empty()).then(|| format!("{} files are not read; convert them to PNG or JPEG", unread.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endings_are_counted_and_a_few_files_named() {
        let mut ignored = Ignored::none();
        assert_eq!((ignored.summary(), ignored.hint()), (None, None));
        for path in ["a/1.HEIC", "a/2.heic", "notes", "b/3.txt"] {
            ignored.note(path);
        }
        let text = ignored.summary().unwrap();
        assert_eq!(
            text,
            "4 files ignored: 2 .heic, 1 .txt, 1 without an ending, such as `a/1.HEIC`, `a/2.heic`, `notes`"
        );
        assert!(ignored.hint().unwrap().contains(".heic"));
    }
}
