//! Known names that resemble an unknown one.

/// How many names an error lists.
const LISTED: usize = 3;
/// Longest part of an unknown name that is compared.
const COMPARED: usize = 64;

/// The `known` names closest to `name` by edit distance, closest first, without repeats.
pub fn nearest(name: &str, known: impl Iterator<Item = &'static str>) -> Vec<&'static str> {
    let mut ranked: Vec<(usize, &'static str)> = known.map(|known| (edit_distance(name, known), known)).collect();
    ranked.sort_unstable();
    ranked.dedup();
    ranked.into_iter().take(LISTED).map(|(_, known)| known).collect()
}

fn edit_distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (i, a) in left.chars().take(COMPARED).enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, &b) in right.iter().enumerate() {
            let replaced = diagonal + usize::from(a != b);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_letter_off_is_closest() {
        assert_eq!(nearest("forst", ["fog", "frost", "snow"].into_iter())[0], "frost");
        assert_eq!(edit_distance("kitten", "sitting"), 3);
        assert_eq!(edit_distance("", "abc"), 3);
    }
}
