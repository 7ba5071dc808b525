//! Known names that resemble an unknown one.

/// How many names an error lists.
const LISTED: usize = 3;
/// Longer names are cut before they are compared, so that a hostile name cannot ask for much work.
const COMPARED: usize = 64;

/// The three `known` names that take the fewest edits from `name`, nearest first and without repeats; equally near names
/// keep their order.
///
/// ```
/// let known = ["source", "eata", "eta", "tent"];
/// assert_eq!(flipcast_ground::nearest_names("etta", known), ["eata", "eta", "tent"]);
/// ```
pub fn nearest_names<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let name = start(name);
    let mut ranked: Vec<(usize, &str)> = Vec::new();
    for candidate in known {
        if ranked.iter().all(|&(_, seen)| seen != candidate) {
            ranked.push((strsim::levenshtein(name, start(candidate)), candidate));
        }
    }
    ranked.sort_by_key(|&(edits, _)| edits);
    ranked.into_iter().take(LISTED).map(|(_, name)| name).collect()
}

/// [`nearest_names`] in backticks, joined for a message; says so where nothing is known.
pub fn nearest_quoted<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let quoted: Vec<String> = nearest_names(name, known).iter().map(|name| format!("`{name}`")).collect();
    if quoted.is_empty() { "none, since there are none".to_owned() } else { quoted.join(", ") }
}

fn start(name: &str) -> &str {
    name.char_indices().nth(COMPARED).map_or(name, |(end, _)| &name[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_letter_off_is_nearest() {
        assert_eq!(nearest_names("forst", ["fog", "frost", "snow"])[0], "frost");
        assert_eq!(nearest_names("resnet5", ["vgg", "resnet18", "resnet50", "resnet34"])[0], "resnet50");
    }

    #[test]
    fn repeated_names_are_listed_once() {
        assert_eq!(nearest_names("map", ["map", "map", "phases"]), ["map", "phases"]);
    }

    #[test]
    fn long_names_are_cut_between_letters() {
        let long = "é".repeat(1000);
        assert_eq!(start(&long).chars().count(), COMPARED);
        assert_eq!(nearest_names(&long, ["a"]), ["a"]);
    }

    #[test]
    fn messages_quote_what_is_near() {
        assert_eq!(nearest_quoted("imagnet-r", ["imagenet-r", "imagenet-c"]), "`imagenet-r`, `imagenet-c`");
        assert_eq!(nearest_quoted("x", []), "none, since there are none");
    }
}
