/// The three of `known` that take the fewest edits from `name`, quoted and joined for a message.
pub(crate) fn nearest_names<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> String {
    let mut ranked: Vec<(usize, &str)> = known.map(|k| (edits(name, k), k)).collect();
    ranked.sort();
    let quoted: Vec<String> = ranked.iter().take(3).map(|(_, k)| format!("`{k}`")).collect();
    quoted.join(", ")
}

/// Insertions, deletions and replacements between `a` and `b`.
fn edits(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, &y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_comes_first() {
        let known = ["imagenet-c", "imagenet-r", "objectnet"];
        let text = nearest_names("imagnet-r", known.into_iter());
        assert!(text.starts_with("`imagenet-r`, `imagenet-c`"), "{text}");
        assert_eq!(edits("", "abc"), 3);
    }
}
