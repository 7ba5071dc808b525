//! Damage to any bytes.

use flipcast_ground::SplitMix64;

const NUMBERS: [&[u8]; 10] = [
    &[0],
    &[1],
    &[0x7f],
    &[0xff],
    &[0xff, 0xff],
    &[0, 0, 0, 0x80],
    &[0xff, 0xff, 0xff, 0xff],
    &[0xff, 0xff, 0xff, 0x7f],
    &[0, 0, 0, 0, 0, 0, 0, 0x80],
    &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f],
];

/// A copy of `good` with one to four changes.
pub fn damaged(good: &[u8], random: &mut SplitMix64) -> Vec<u8> {
    let mut bytes = good.to_vec();
    for _ in 0..=random.below(4) {
        if bytes.is_empty() {
            break;
        }
        let at = random.below(bytes.len());
        match random.below(8) {
            0 => bytes[at] ^= 1 << random.below(8),
            1 => bytes[at] = random.below(256) as u8,
            2 => bytes[at] = bytes[random.below(bytes.len())],
            3 => {
                for (byte, value) in bytes[at..].iter_mut().zip(NUMBERS[random.below(NUMBERS.len())]) {
                    *byte = *value;
                }
            }
            4 => {
                let len = random.below(16).min(bytes.len() - at);
                bytes.drain(at..at + len);
            }
            5 => {
                let from = random.below(good.len());
                let part = good[from..(from + random.below(24)).min(good.len())].to_vec();
                bytes.splice(at..at, part);
            }
            6 if bytes[at].is_ascii_digit() => bytes[at] = b'0' + random.below(10) as u8,
            6 => bytes[at] = bytes[at].wrapping_add(1),
            _ if random.below(8) == 0 => bytes.truncate(at),
            _ => bytes[at] = bytes[at].wrapping_sub(1),
        }
    }
    bytes
}
