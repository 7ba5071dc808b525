//! Known names that resemble an unknown one.

/// How many names an error lists.
const LISTED: usize = 3;

/// The `known` names that take the fewest edits from `name`, quoted and joined for a message.
pub(crate) fn nearest_names<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> String {
    let mut ranked: Vec<(usize, &str)> = known.map(|known| (edits(name, known), known)).collect();
    ranked.sort_unstable();
    ranked.dedup();
    let quoted: Vec<String> = ranked.iter().take(LISTED).map(|(_, known)| format!("`{known}`")).collect();
    if quoted.is_empty() {
        return "nothing, for there is none".to_owned();
    }
    quoted.join(", ")
}

/// Insertions, deletions and replacements between `left` and `right`.
fn edits(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (i, a) in left.chars().take(64).enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, &b) in right.iter().enumerate() {
            let replaced = diagonal + usize::from(a != b);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[right.len()]
}
