/// Longer names are cut before comparing, so that a hostile name cannot ask for much work.
const COMPARED: usize = 64;

/// The three names most similar to `wanted`, best first; ties keep the order of `known`.
pub(crate) fn nearest_names<'a>(wanted: &str, known: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut ranked: Vec<_> = known.map(|name| (edits(wanted, name), name)).collect();
    ranked.sort_by_key(|&(edits, _)| edits);
    ranked.into_iter().take(3).map(|(_, name)| name).collect()
}

/// Insertions, deletions and replacements that turn one name into the other.
fn edits(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().take(COMPARED).collect();
    // Entry `j`: edits from the letters seen so far to the first `j` of the other name.
    let mut counts: Vec<usize> = (0..=to.len()).collect();
    for letter in from.chars().take(COMPARED) {
        let mut kept = counts[0];
        counts[0] += 1;
        for (j, &other) in to.iter().enumerate() {
            let replaced = kept + usize::from(letter != other);
            kept = counts[j + 1];
            counts[j + 1] = replaced.min(counts[j] + 1).min(kept + 1);
        }
    }
    counts[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_count_single_letters() {
        assert_eq!(edits("rdumb", "rdumb"), 0);
        assert_eq!(edits("dumb", "rdumb"), 1);
        assert_eq!(edits("", "sar"), 3);
        assert_eq!(edits("kitten", "sitting"), 3);
    }

    #[test]
    fn the_best_three_come_first() {
        let known = ["source", "eata", "eta", "tent"];
        assert_eq!(nearest_names("etta", known.into_iter()), ["eata", "eta", "tent"]);
    }
}
