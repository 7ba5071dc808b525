use sha2::{Digest, Sha256};

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// The source expression that lets a browser run or apply exactly this text.
pub(super) fn content_hash(text: &str) -> String {
    format!("'sha256-{}'", base64(&Sha256::digest(text)))
}

/// A number below 4096 as two digits.
pub(super) fn base64_digits(value: u16) -> [char; 2] {
    let digit = |value: u16| char::from(DIGITS[usize::from(value & 63)]);
    [digit(value >> 6), digit(value)]
}

/// Bytes as text that a URL may hold.
pub(super) fn base64(bytes: &[u8]) -> String {
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let mut word = [0; 3];
        word[..chunk.len()].copy_from_slice(chunk);
        let word = u32::from_be_bytes([0, word[0], word[1], word[2]]);
        for place in 0..4 {
            if place <= chunk.len() {
                let digit = word >> (18 - 6 * place) & 63;
                text.push(char::from(DIGITS[digit as usize]));
            } else {
                text.push('=');
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_those_of_the_standard() {
        let cases = [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg==")];
        for (text, expected) in cases {
            assert_eq!(base64(text.as_bytes()), expected);
        }
        assert_eq!([0, 63, 64, 4095].map(base64_digits), [['A', 'A'], ['A', '/'], ['B', 'A'], ['/', '/']]);
        // `printf '' | openssl dgst -sha256 -binary | base64`.
        assert_eq!(content_hash(""), "'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='");
    }
}
