//! Stored zip archives whose texts are damaged and whose directory stays right, or the other way round.

use crate::json::Json;
use flipcast_ground::SplitMix64;

pub struct Archive {
    /// Names and contents; JSON last.
    members: Vec<(String, Vec<u8>)>,
    json: Vec<Json>,
}

fn number(bytes: &[u8], at: usize, len: usize) -> usize {
    bytes[at..at + len].iter().rev().fold(0, |value, &byte| value << 8 | usize::from(byte))
}

impl Archive {
    /// The archive in `bytes`, without what nobody reads.
    pub fn new(bytes: &[u8]) -> Self {
        let end = bytes.windows(4).rposition(|part| part == b"PK\x05\x06").expect("seeds are archives");
        let mut at = number(bytes, end + 16, 4);
        let mut members = Vec::new();
        for _ in 0..number(bytes, end + 10, 2) {
            let [len, name, extra, comment] =
                [(20, 4), (28, 2), (30, 2), (32, 2)].map(|(place, len)| number(bytes, at + place, len));
            let local = number(bytes, at + 42, 4);
            let start = local + 30 + number(bytes, local + 26, 2) + number(bytes, local + 28, 2);
            let name = String::from_utf8(bytes[at + 46..at + 46 + name].to_vec()).expect("names are texts");
            at += 46 + name.len() + extra + comment;
            if !name.contains("sample_inputs") {
                members.push((name, bytes[start..start + len].to_vec()));
            }
        }
        members.sort_by_key(|(name, _)| name.ends_with(".json"));
        let json =
            members.iter().filter(|(name, _)| name.ends_with(".json")).map(|(_, text)| Json::new(text)).collect();
        Self { members, json }
    }

    pub fn damaged(&self, random: &mut SplitMix64) -> Vec<u8> {
        // The layers are the largest text and the most worth damaging.
        let first = self.members.len() - self.json.len();
        let changed = match random.below(8) {
            0 => None,
            1 => Some(random.below(self.json.len())),
            _ => self.json.iter().enumerate().max_by_key(|(_, json)| json.whole().len()).map(|(place, _)| place),
        };
        let text = changed.map(|place| self.json[place].damaged(random));
        let mut bytes = Vec::with_capacity(64 << 10);
        let mut directory = Vec::new();
        for (place, (name, content)) in self.members.iter().enumerate() {
            let content = match &text {
                Some(text) if changed == Some(place.wrapping_sub(first)) => text,
                _ => content,
            };
            let (offset, len) = (bytes.len() as u32, content.len() as u32);
            let mut common = [0u8; 26];
            common[14..18].copy_from_slice(&len.to_le_bytes());
            common[18..22].copy_from_slice(&len.to_le_bytes());
            common[22..24].copy_from_slice(&(name.len() as u16).to_le_bytes());
            bytes.extend(b"PK\x03\x04");
            bytes.extend(common);
            bytes.extend(name.as_bytes());
            bytes.extend(content);
            directory.extend(b"PK\x01\x02\0\0");
            directory.extend(common);
            directory.extend([0; 10]);
            directory.extend(offset.to_le_bytes());
            directory.extend(name.as_bytes());
        }
        let start = bytes.len();
        bytes.extend(&directory);
        bytes.extend(b"PK\x05\x06\0\0\0\0");
        bytes.extend((self.members.len() as u16).to_le_bytes());
        bytes.extend((self.members.len() as u16).to_le_bytes());
        bytes.extend((directory.len() as u32).to_le_bytes());
        bytes.extend((start as u32).to_le_bytes());
        bytes.extend([0; 2]);
        if text.is_none() {
            // Sizes, offsets, names and counts.
            for _ in 0..=random.below(4) {
                let at = start + random.below(bytes.len() - start);
                bytes[at] = random.below(256) as u8;
            }
            if random.below(8) == 0 {
                bytes.truncate(random.below(bytes.len()));
            }
        }
        bytes
    }
}
