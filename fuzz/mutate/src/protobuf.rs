//! Damage to protocol buffers that leaves lengths right: other numbers, fields left out, doubled or exchanged.

use flipcast_ground::SplitMix64;

const NUMBERS: [u64; 16] =
    [0, 1, 2, 3, 4, 7, 8, 255, 65_536, 1 << 31, 1 << 32, 1 << 40, i64::MAX as u64, 1 << 63, u64::MAX - 1, u64::MAX];

enum Content {
    Number(u64),
    /// Four or eight bytes, by the wire type.
    Fixed(Vec<u8>),
    Bytes(Vec<u8>),
    Message(Vec<Field>),
}

struct Field {
    number: u64,
    wire: u64,
    content: Content,
}

/// A message, all of whose fields are counted in the order of their places.
pub struct Message {
    fields: Vec<Field>,
    count: usize,
    /// Numbers and short texts of the file, to put in other places.
    fragments: Vec<Vec<u8>>,
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

fn write_varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn parse(mut bytes: &[u8], depth: usize) -> Option<Vec<Field>> {
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes)?;
        let (number, wire) = (key >> 3, key & 7);
        if number == 0 || number > 64 {
            return None;
        }
        let mut take = |len: usize| {
            let (part, rest) = bytes.split_at_checked(len)?;
            bytes = rest;
            Some(part)
        };
        let content = match wire {
            0 => Content::Number(varint(&mut bytes)?),
            1 => Content::Fixed(take(8)?.to_vec()),
            5 => Content::Fixed(take(4)?.to_vec()),
            2 => {
                let len = varint(&mut bytes)? as usize;
                let (part, rest) = bytes.split_at_checked(len)?;
                bytes = rest;
                // Texts and weights are seldom messages by chance, and damage to them is welcome then too.
                match parse(part, depth + 1).filter(|inner| !inner.is_empty() && depth < 8) {
                    Some(inner) => Content::Message(inner),
                    None => Content::Bytes(part.to_vec()),
                }
            }
            _ => return None,
        };
        fields.push(Field { number, wire, content });
    }
    Some(fields)
}

fn count(fields: &[Field]) -> usize {
    fields.iter().map(|field| 1 + if let Content::Message(inner) = &field.content { count(inner) } else { 0 }).sum()
}

fn gather(fields: &[Field], fragments: &mut Vec<Vec<u8>>) {
    for field in fields {
        match &field.content {
            Content::Message(inner) => gather(inner, fragments),
            Content::Bytes(bytes) if bytes.len() < 64 => fragments.push(bytes.clone()),
            _ => {}
        }
        let mut whole = Vec::new();
        write(field, &mut Changes::none(), &mut whole);
        if whole.len() < 512 {
            fragments.push(whole);
        }
    }
}

/// Which fields change, by their places.
struct Changes<'a> {
    places: Vec<usize>,
    at: usize,
    random: Option<&'a mut SplitMix64>,
    fragments: &'a [Vec<u8>],
}

impl Changes<'_> {
    fn none() -> Self {
        Self { places: Vec::new(), at: 0, random: None, fragments: &[] }
    }
}

fn write(field: &Field, changes: &mut Changes<'_>, out: &mut Vec<u8>) {
    let changed = changes.places.contains(&changes.at);
    changes.at += 1;
    let kind = match (&mut changes.random, changed) {
        (Some(random), true) => Some(random.below(8)),
        _ => None,
    };
    let start = out.len();
    write_varint(field.number << 3 | field.wire, out);
    match &field.content {
        Content::Number(value) => {
            let value = match (kind, &mut changes.random) {
                (Some(0..=4), Some(random)) => NUMBERS[random.below(NUMBERS.len())],
                _ => *value,
            };
            write_varint(value, out);
        }
        Content::Fixed(bytes) => out.extend(bytes),
        Content::Bytes(bytes) => {
            let mut bytes = bytes.clone();
            if let (Some(kind @ 0..=4), Some(random)) = (kind, &mut changes.random) {
                match kind {
                    0..=2 => bytes.clone_from(&changes.fragments[random.below(changes.fragments.len())]),
                    3 if !bytes.is_empty() => {
                        let at = random.below(bytes.len());
                        bytes[at] = random.below(256) as u8;
                    }
                    _ => bytes.truncate(bytes.len() / 2),
                }
            }
            write_varint(bytes.len() as u64, out);
            out.extend(bytes);
        }
        Content::Message(inner) => {
            let mut part = Vec::new();
            inner.iter().for_each(|field| write(field, changes, &mut part));
            if let (Some(0..=3), Some(random)) = (kind, &mut changes.random) {
                part.extend(&changes.fragments[random.below(changes.fragments.len())]);
            }
            write_varint(part.len() as u64, out);
            out.extend(part);
        }
    }
    match kind {
        Some(5 | 6) => out.truncate(start),
        Some(7) => out.extend_from_within(start..),
        _ => {}
    }
}

impl Message {
    pub fn new(bytes: &[u8]) -> Self {
        let fields = parse(bytes, 0).expect("seeds are protocol buffers");
        let mut fragments = Vec::new();
        gather(&fields, &mut fragments);
        Self { count: count(&fields), fields, fragments }
    }

    /// A copy with one to three changes.
    pub fn damaged(&self, random: &mut SplitMix64) -> Vec<u8> {
        let places = (0..=random.below(3)).map(|_| random.below(self.count)).collect();
        let mut changes = Changes { places, at: 0, random: Some(random), fragments: &self.fragments };
        let mut out = Vec::new();
        self.fields.iter().for_each(|field| write(field, &mut changes, &mut out));
        out
    }
}
