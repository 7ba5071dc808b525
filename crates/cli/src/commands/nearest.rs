//! Known names that resemble an unknown one.

/// How many names are listed.
const LISTED: usize = 3;

/// The `known` names that take the fewest edits from `name`, the nearest first.
pub fn nearest_names<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut ranked: Vec<(usize, &str)> = known.map(|known| (edits(name, known), known)).collect();
    ranked.sort_unstable();
    ranked.into_iter().take(LISTED).map(|(_, name)| name).collect()
}

/// Insertions, deletions and replacements between `left`, or its start if it is long, and `right`.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_comes_first() {
        let known = ["map", "phases", "flips", "errors"];
        let found = nearest_names("fases", known.into_iter());
        assert_eq!((found[0], found.len()), ("phases", 3));
    }
}
