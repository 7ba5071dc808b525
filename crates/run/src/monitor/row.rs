use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The outputs for one image.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Row {
    pub source: Logits,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub second: Option<Logits>,
    /// What an early look answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub early: Option<u32>,
}

/// A row of logits, stored as the hexadecimal digits of their bytes: exact, and a third of the decimal numbers.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Logits(pub Vec<f32>);

impl Serialize for Logits {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut text = String::with_capacity(8 * self.0.len());
        for byte in self.0.iter().flat_map(|value| value.to_le_bytes()) {
            text.push(char::from(DIGITS[usize::from(byte >> 4)]));
            text.push(char::from(DIGITS[usize::from(byte & 15)]));
        }
        serializer.serialize_str(&text)
    }
}

impl<'de> Deserialize<'de> for Logits {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        let (values, rest) = text.as_bytes().as_chunks::<8>();
        if !rest.is_empty() {
            return Err(D::Error::custom("logits end within a number"));
        }
        let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
        let value = |digits: &[u8; 8]| {
            let mut bytes = [0; 4];
            for (byte, pair) in bytes.iter_mut().zip(digits.as_chunks::<2>().0) {
                *byte = digit(pair[0])? << 4 | digit(pair[1])?;
            }
            Some(f32::from_le_bytes(bytes)).filter(|value| value.is_finite())
        };
        let values: Option<Vec<f32>> = values.iter().map(value).collect();
        Ok(Self(values.ok_or_else(|| D::Error::custom("logits are not finite numbers"))?))
    }
}
