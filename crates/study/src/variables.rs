//! `${NAME}` in the paths of a plan.

use crate::Plan;
use std::collections::{BTreeMap, BTreeSet};

/// Folders by name.
#[derive(Clone, Debug, Default)]
pub struct Variables {
    values: BTreeMap<String, String>,
}

impl Variables {
    /// The names that `plan` has: those in its paths, and those it gives a value to.
    pub fn names(plan: &Plan) -> BTreeSet<&str> {
        plan.templates().flat_map(names).chain(plan.data.keys().map(String::as_str)).collect()
    }

    /// The values of `plan`, replaced by those of the environment, replaced by those `set`.
    pub fn new(plan: &Plan, set: &[(String, String)]) -> Self {
        let mut values = plan.data.clone();
        for template in plan.templates() {
            for name in names(template) {
                if let Ok(value) = std::env::var(name) {
                    values.insert(name.to_owned(), value);
                }
            }
        }
        values.extend(set.iter().cloned());
        Self { values }
    }

    /// `template` with every variable replaced; the first one without a value is the error.
    pub fn expand(&self, template: &str) -> Result<String, String> {
        let mut text = String::new();
        let mut rest = template;
        while let Some(start) = rest.find("${") {
            let Some(length) = rest[start..].find('}') else {
                break;
            };
            let name = &rest[start + 2..start + length];
            let value = self.values.get(name).filter(|value| !value.is_empty());
            text += &rest[..start];
            text += value.ok_or_else(|| name.to_owned())?;
            rest = &rest[start + length + 1..];
        }
        Ok(text + rest)
    }
}

/// The variables of `template`.
fn names(template: &str) -> impl Iterator<Item = &str> {
    template.split("${").skip(1).filter_map(|part| Some(part.split_once('}')?.0))
}

/// `template` as records call it: without the variable it starts with, so that the place of the data does not matter.
pub(crate) fn record_name(template: &str) -> String {
    let Some((name, rest)) = template.strip_prefix("${").and_then(|t| t.split_once('}')) else {
        return template.to_owned();
    };
    match rest.strip_prefix('/') {
        Some(below) => below.to_owned(),
        None => format!("{name}{rest}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_replaced_and_missing_ones_named() {
        let values = BTreeMap::from([("A".to_owned(), "/a".to_owned())]);
        let variables = Variables { values };
        assert_eq!(variables.expand("${A}/x${A}"), Ok("/a/x/a".to_owned()));
        assert_eq!(variables.expand("x{1..3}"), Ok("x{1..3}".to_owned()));
        assert_eq!(variables.expand("${B}/x"), Err("B".to_owned()));
    }

    #[test]
    fn records_do_not_name_the_folder() {
        assert_eq!(record_name("${A}/b/c.tar#test"), "b/c.tar#test");
        assert_eq!(record_name("${A}#test"), "A#test");
        assert_eq!(record_name("/b/c"), "/b/c");
    }
}
