use crate::Protocol;
use serde_json::Value;

/// One setting in which two protocols differ.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// The setting, with dots between levels: `method.optimiser.lr`.
    pub path: String,
    /// Its value on the left, `None` when it is not there.
    pub left: Option<Value>,
    /// Its value on the right.
    pub right: Option<Value>,
}

/// Every setting in which `left` and `right` differ, in the order of their paths.
pub fn diff(left: &Protocol, right: &Protocol) -> Vec<Difference> {
    let mut found = Vec::new();
    let whole = |protocol: &Protocol| Value::Object(protocol.fields().clone());
    compare(String::new(), Some(&whole(left)), Some(&whole(right)), &mut found);
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}

fn compare(path: String, left: Option<&Value>, right: Option<&Value>, found: &mut Vec<Difference>) {
    match (left, right) {
        (Some(Value::Object(a)), Some(Value::Object(b))) => {
            let only_right = b.keys().filter(|name| !a.contains_key(*name));
            for name in a.keys().chain(only_right) {
                compare(below(&path, name), a.get(name), b.get(name), found);
            }
        }
        (Some(Value::Array(a)), Some(Value::Array(b))) if a.len() == b.len() => {
            for (i, (a, b)) in a.iter().zip(b).enumerate() {
                compare(below(&path, &i.to_string()), Some(a), Some(b), found);
            }
        }
        (left, right) if left != right => found.push(Difference { path, left: left.cloned(), right: right.cloned() }),
        _ => {}
    }
}

fn below(path: &str, name: &str) -> String {
    match path {
        "" => name.to_owned(),
        path => format!("{path}.{name}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn protocol(method: &Value) -> Protocol {
        let made = Protocol::new("adapt").with("method", method);
        made.expect("JSON")
    }

    #[test]
    fn equal_protocols_do_not_differ() {
        let one = protocol(&json!({"lr": 0.1}));
        assert_eq!(diff(&one, &one), []);
    }

    #[test]
    fn each_setting_is_named_once_with_both_values() {
        let one = protocol(&json!({"name": "eta", "optimiser": {"lr": 0.1, "betas": [0.9, 0.99]}}));
        let two = protocol(&json!({"name": "eta", "optimiser": {"lr": 0.2, "betas": [0.9, 0.999]}, "reset": 1000}));
        let found = diff(&one, &two);
        let paths: Vec<&str> = found.iter().map(|d| d.path.as_str()).collect();
        assert_eq!(paths, ["method.optimiser.betas.1", "method.optimiser.lr", "method.reset"]);
        assert_eq!((&found[1].left, &found[1].right), (&Some(json!(0.1)), &Some(json!(0.2))));
        assert_eq!((&found[2].left, &found[2].right), (&None, &Some(json!(1000))));
    }
}
