//! Damage to JSON that mostly leaves it JSON: other numbers, texts exchanged, values copied, doubled or left out.

use flipcast_ground::SplitMix64;

const NUMBERS: [&str; 24] = [
    "0",
    "1",
    "-1",
    "2",
    "3",
    "4",
    "5",
    "7",
    "8",
    "16",
    "255",
    "256",
    "1000",
    "65535",
    "65536",
    "2147483647",
    "2147483648",
    "4294967296",
    "9223372036854775807",
    "18446744073709551615",
    "-9223372036854775808",
    "1e308",
    "0.5",
    "1e-9",
];
const VALUES: [&str; 6] = ["null", "{}", "[]", "true", "\"\"", "[[]]"];

/// A text with the places of its values.
pub struct Json {
    text: Vec<u8>,
    values: Vec<Value>,
    numbers: Vec<usize>,
    texts: Vec<usize>,
}

#[derive(Clone, Copy)]
struct Value {
    start: usize,
    end: usize,
    in_array: bool,
}

impl Json {
    pub fn new(text: &[u8]) -> Self {
        let mut json = Self { text: text.to_vec(), values: Vec::new(), numbers: Vec::new(), texts: Vec::new() };
        // Open brackets: where they stand, whether they are of an array, and whether they stand in one.
        let mut open: Vec<(usize, bool, bool)> = Vec::new();
        let mut at = 0;
        while at < text.len() {
            let in_array = open.last().is_some_and(|bracket| bracket.1);
            match text[at] {
                bracket @ (b'{' | b'[') => open.push((at, bracket == b'[', in_array)),
                b'}' | b']' => {
                    let (start, _, in_array) = open.pop().expect("seeds are JSON");
                    json.values.push(Value { start, end: at + 1, in_array });
                }
                b'"' => {
                    let start = at;
                    at += 1;
                    while text[at] != b'"' {
                        at += if text[at] == b'\\' { 2 } else { 1 };
                    }
                    json.texts.push(json.values.len());
                    json.values.push(Value { start, end: at + 1, in_array });
                }
                b'-' | b'0'..=b'9' | b't' | b'f' | b'n' => {
                    let start = at;
                    while at < text.len() && (text[at].is_ascii_alphanumeric() || b"+-.".contains(&text[at])) {
                        at += 1;
                    }
                    json.numbers.push(json.values.len());
                    json.values.push(Value { start, end: at, in_array });
                    continue;
                }
                _ => {}
            }
            at += 1;
        }
        json
    }

    /// The text as it is.
    pub fn whole(&self) -> &[u8] {
        &self.text
    }

    /// A copy with one to three changes.
    pub fn damaged(&self, random: &mut SplitMix64) -> Vec<u8> {
        let mut changes: Vec<(usize, usize, Vec<u8>)> = (0..=random.below(3)).map(|_| self.change(random)).collect();
        changes.sort();
        let mut text = Vec::with_capacity(self.text.len() + 64);
        let mut done = 0;
        for (start, end, with) in changes {
            if start < done {
                continue;
            }
            text.extend(&self.text[done..start]);
            text.extend(with);
            done = end;
        }
        text.extend(&self.text[done..]);
        if random.below(64) == 0 {
            text.truncate(random.below(text.len()));
        }
        text
    }

    fn change(&self, random: &mut SplitMix64) -> (usize, usize, Vec<u8>) {
        let pick = |from: &[usize], random: &mut SplitMix64| self.values[from[random.below(from.len())]];
        let any = |random: &mut SplitMix64| self.values[random.below(self.values.len())];
        match random.below(8) {
            0..=2 if !self.numbers.is_empty() => {
                let value = pick(&self.numbers, random);
                (value.start, value.end, NUMBERS[random.below(NUMBERS.len())].into())
            }
            3..=4 if !self.texts.is_empty() => {
                let (value, other) = (pick(&self.texts, random), pick(&self.texts, random));
                (value.start, value.end, self.text[other.start..other.end].to_vec())
            }
            5 => {
                // Copies of large values in small places make long files, not new ones.
                let (value, other) = (any(random), any(random));
                let other = if other.end - other.start > 4096 { value } else { other };
                (value.start, value.end, self.text[other.start..other.end].to_vec())
            }
            6 => {
                let value = any(random);
                let twice = [&self.text[value.start..value.end], b",", &self.text[value.start..value.end]].concat();
                match value.in_array && value.end - value.start < 4096 {
                    true => (value.start, value.end, twice),
                    false => (value.start, value.end, VALUES[random.below(VALUES.len())].into()),
                }
            }
            _ => {
                let value = any(random);
                let before = self.text[..value.start].iter().rposition(|byte| !byte.is_ascii_whitespace());
                match before.filter(|&at| value.in_array && self.text[at] == b',') {
                    Some(comma) => (comma, value.end, Vec::new()),
                    None => (value.start, value.end, VALUES[random.below(VALUES.len())].into()),
                }
            }
        }
    }
}
