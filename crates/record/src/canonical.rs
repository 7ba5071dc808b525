use serde_json::Value;

/// JSON text that depends on the value alone: keys in byte order, no spaces, floats as the shortest text that reads
/// back as the same number.
pub fn canonical_json(value: &Value) -> String {
    let mut text = String::new();
    write(value, &mut text);
    text
}

fn write(value: &Value, text: &mut String) {
    match value {
        Value::Object(fields) => {
            // Sorted here, because a map keeps the order of insertion when another crate asks serde_json for it.
            let mut fields: Vec<_> = fields.iter().collect();
            fields.sort_by_key(|(name, _)| *name);
            text.push('{');
            for (i, (name, value)) in fields.into_iter().enumerate() {
                if i > 0 {
                    text.push(',');
                }
                text.push_str(&Value::String(name.clone()).to_string());
                text.push(':');
                write(value, text);
            }
            text.push('}');
        }
        Value::Array(items) => {
            text.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    text.push(',');
                }
                write(item, text);
            }
            text.push(']');
        }
        plain => text.push_str(&plain.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_keys_does_not_matter() {
        let read = |text: &str| serde_json::from_str::<Value>(text).expect("JSON");
        let one = read(r#"{"b": [1, {"y": null, "x": "é\n"}], "a": 0.25}"#);
        let two = read(r#"{"a":0.25,"b":[1,{"x":"é\n","y":null}]}"#);
        assert_eq!(canonical_json(&one), canonical_json(&two));
        assert_eq!(canonical_json(&one), r#"{"a":0.25,"b":[1,{"x":"é\n","y":null}]}"#);
    }

    #[test]
    fn floats_read_back_as_the_same_number() {
        for number in [0.1f64, 2.5e-4, -0.0, 1.0, 1e300, 5e-324, 0.1 + 0.2] {
            let text = canonical_json(&Value::from(number));
            let back: f64 = serde_json::from_str(&text).expect("a number");
            assert_eq!(back.to_bits(), number.to_bits(), "{text}");
            let again: Value = serde_json::from_str(&text).expect("a number");
            assert_eq!(canonical_json(&again), text);
        }
    }
}
