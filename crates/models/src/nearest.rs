/// Longer names are cut before comparing, so that a hostile card cannot ask for much work.
const COMPARED: usize = 64;

/// The three names most similar to `wanted`, best first; ties keep the order of the table.
pub(crate) fn nearest_names<'a>(wanted: &str, known: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut ranked: Vec<_> = known.map(|name| (distance(wanted, name), name)).collect();
    ranked.sort_by_key(|&(distance, _)| distance);
    let best = ranked.into_iter().take(3);
    best.map(|(_, name)| name.to_owned()).collect()
}

/// Insertions, deletions and replacements that turn one name into the other.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().take(COMPARED).collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().take(COMPARED).enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, &to) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(from != to);
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
    fn distance_counts_single_edits() {
        assert_eq!(distance("resnet50", "resnet50"), 0);
        assert_eq!(distance("resnt50", "resnet50"), 1);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("kitten", "sitting"), 3);
    }

    #[test]
    fn the_best_three_come_first() {
        let known = ["vgg", "resnet18", "resnet50", "resnet34"];
        assert_eq!(nearest_names("resnet5", known.into_iter()), ["resnet50", "resnet18", "resnet34"]);
    }
}
