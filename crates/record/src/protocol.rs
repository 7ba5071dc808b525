use crate::canonical::short_hash;
use crate::canonical_json;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The field that tells what kind of run it is.
const KIND: &str = "kind";

/// Everything that defines a number, by name: weights, preprocessing, class space, images and their order, method and
/// its version, optimiser, reset rule.
///
/// Two runs with equal protocols give equal results, so a protocol's [`key`](Protocol::key) tells whether a result is
/// already there. What cannot change a result, such as the number of threads, does not belong here.
///
/// ```
/// use flipcast_record::Protocol;
///
/// # fn main() -> Result<(), flipcast_record::ProtocolError> {
/// let one = Protocol::new("adapt").with("lr", &0.001)?.with("seed", &1)?;
/// let same = Protocol::new("adapt").with("seed", &1)?.with("lr", &0.001)?;
/// let other = Protocol::new("adapt").with("seed", &2)?.with("lr", &0.001)?;
/// assert_eq!(one.key(), same.key());
/// assert_ne!(one.key(), other.key());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Protocol {
    fields: Map<String, Value>,
}

/// Why a setting could not become part of a protocol.
#[derive(Debug, thiserror::Error)]
pub enum ProtocolError {
    /// The setting is no JSON.
    #[error("the setting `{name}` cannot be written as JSON")]
    NotJson {
        /// The field.
        name: String,
        /// Why.
        #[source]
        source: serde_json::Error,
    },
    /// The name is taken.
    #[error("the protocol already has a setting `{name}`")]
    Twice {
        /// The field.
        name: String,
    },
}

impl Protocol {
    /// The protocol of a run of this kind, such as `adapt`, with nothing else in it yet.
    pub fn new(kind: &str) -> Self {
        let mut fields = Map::new();
        fields.insert(KIND.to_owned(), kind.into());
        Self { fields }
    }

    /// The same with one more setting.
    pub fn with(mut self, name: &str, setting: &impl Serialize) -> Result<Self, ProtocolError> {
        // Through text, so that a single-precision 0.1 stays 0.1 and does not become 0.10000000149011612.
        let value = serde_json::to_string(setting)
            .and_then(|text| serde_json::from_str(&text))
            .map_err(|source| ProtocolError::NotJson { name: name.to_owned(), source })?;
        match self.fields.insert(name.to_owned(), value) {
            None => Ok(self),
            Some(_) => Err(ProtocolError::Twice { name: name.to_owned() }),
        }
    }

    /// What kind of run it is; empty when the protocol does not say.
    pub fn kind(&self) -> &str {
        self.get(KIND).and_then(Value::as_str).unwrap_or_default()
    }

    /// The setting called `name`.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.fields.get(name)
    }

    /// All settings.
    pub fn fields(&self) -> &Map<String, Value> {
        &self.fields
    }

    /// The text the key is made of: see [`canonical_json`].
    pub fn canonical(&self) -> String {
        canonical_json(&Value::Object(self.fields.clone()))
    }

    /// The first 16 hexadecimal digits of the SHA-256 of [`Protocol::canonical`].
    pub fn key(&self) -> String {
        short_hash(&self.canonical())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize)]
    struct Settings {
        lr: f32,
        momentum: f64,
    }

    #[test]
    fn the_key_depends_on_settings_and_not_on_their_order() {
        let settings = Settings { lr: 0.1, momentum: 0.9 };
        let one = Protocol::new("adapt").with("seed", &1).expect("JSON");
        let one = one.with("optimiser", &settings).expect("JSON");
        let two = Protocol::new("adapt").with("optimiser", &settings);
        let two = two.and_then(|p| p.with("seed", &1)).expect("JSON");
        assert_eq!(one.key(), two.key());
        assert_eq!(one.canonical(), r#"{"kind":"adapt","optimiser":{"lr":0.1,"momentum":0.9},"seed":1}"#);
        let other = Protocol::new("adapt").with("seed", &2).expect("JSON");
        assert_ne!(one.key(), other.key());
        assert_ne!(Protocol::new("adapt").key(), Protocol::new("estimate").key());
    }

    #[test]
    fn the_key_is_the_published_hash() {
        // `printf '{"kind":"adapt"}' | sha256sum`.
        assert_eq!(Protocol::new("adapt").key(), "7e473822b66686d8");
    }

    #[test]
    fn a_setting_cannot_be_given_twice() {
        let refused = Protocol::new("adapt").with("kind", &"estimate");
        assert!(matches!(refused, Err(ProtocolError::Twice { name }) if name == "kind"));
    }

    #[test]
    fn reading_back_keeps_the_key() {
        let one = Protocol::new("adapt").with("lr", &0.1f32).and_then(|p| p.with("eps", &(0.1 + 0.2))).expect("JSON");
        let text = serde_json::to_string(&one).expect("JSON");
        let two: Protocol = serde_json::from_str(&text).expect("JSON");
        assert_eq!((&one, one.key()), (&two, two.key()));
    }
}
