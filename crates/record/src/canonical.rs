use serde_json::Value;
use sha2::{Digest, Sha256};
use std::fmt::Write;

/// The field that holds a [`checksum`].
pub const CHECK: &str = "check";
/// Digits of a key and of a checksum.
const DIGITS: usize = 16;

/// The first 16 hexadecimal digits of the SHA-256 of a text.
pub(crate) fn short_hash(text: &str) -> String {
    let mut hash = String::new();
    for byte in Sha256::digest(text).iter().take(DIGITS / 2) {
        write!(hash, "{byte:02x}").expect("a string takes any text");
    }
    hash
}

/// A hash of the [`canonical_json`] of an object, its field `check` left aside: it changes with any digit.
///
/// ```
/// use flipcast_record::checksum;
/// use serde_json::json;
///
/// let check = checksum(&json!({"accuracy": 0.71}));
/// assert_eq!(checksum(&json!({"accuracy": 0.71, "check": check})), check);
/// assert_ne!(checksum(&json!({"accuracy": 0.72})), check);
/// ```
pub fn checksum(value: &Value) -> String {
    match value {
        Value::Object(fields) if fields.contains_key(CHECK) => {
            let mut rest = fields.clone();
            rest.remove(CHECK);
            short_hash(&canonical_json(&Value::Object(rest)))
        }
        value => short_hash(&canonical_json(value)),
    }
}

/// JSON text that depends on the value alone: keys in byte order, no spaces, floats as the shortest text that reads
/// back as the same number.
pub fn canonical_json(value: &Value) -> String {
    let mut text = String::new();
    write_value(value, &mut text);
    text
}

fn write_value(value: &Value, text: &mut String) {
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
                write_value(value, text);
            }
            text.push('}');
        }
        Value::Array(items) => {
            text.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    text.push(',');
                }
                write_value(item, text);
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
