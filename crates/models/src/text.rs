//! Text from files, ready for a message.

/// Items listed before the rest is only counted.
const MOST: usize = 8;
/// Characters shown of a text; texts come from files and may be of any length.
const LONGEST: usize = 120;

/// `text` with control characters escaped and cut where it is long.
pub(crate) fn shown(text: &str) -> String {
    let mut shown: String = text.chars().take(LONGEST).flat_map(char::escape_debug).collect();
    if text.chars().nth(LONGEST).is_some() {
        shown.push('…');
    }
    shown
}

/// Some of `items`, and how many more there are.
pub(crate) fn list(items: impl ExactSizeIterator<Item = String>) -> String {
    let more = items.len().saturating_sub(MOST);
    let listed = items.take(MOST).collect::<Vec<_>>().join(", ");
    if more > 0 { format!("{listed} and {more} more") } else { listed }
}

/// [`list`] of names in backticks.
pub(crate) fn list_names<S: AsRef<str>>(names: &[S]) -> String {
    list(names.iter().map(|name| format!("`{}`", shown(name.as_ref()))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_from_a_file_cannot_drive_the_terminal() {
        assert_eq!(shown("a\u{1b}[2Jb"), "a\\u{1b}[2Jb");
        assert_eq!(shown(&"x".repeat(500)).chars().count(), 121);
    }

    #[test]
    fn a_long_list_says_how_much_is_left() {
        let names: Vec<String> = (0..10).map(|i| i.to_string()).collect();
        assert_eq!(list_names(&names), "`0`, `1`, `2`, `3`, `4`, `5`, `6`, `7` and 2 more");
    }
}
