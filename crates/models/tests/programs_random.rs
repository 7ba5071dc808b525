//! Damaged exported programs and ONNX files: whatever the layers say, loading ends in a network or an error.
#![forbid(unsafe_code)]

use flipcast_ground::{Hint, SplitMix64};
use flipcast_models::{Model, WeightFile};
use std::path::PathBuf;

/// Damaged copies made of each program, unless `FLIPCAST_COPIES` says otherwise.
const COPIES: usize = 200;

fn copies() -> usize {
    std::env::var("FLIPCAST_COPIES").ok().and_then(|copies| copies.parse().ok()).unwrap_or(COPIES)
}

fn programs(folder: &str, ending: &str) -> Vec<(String, Vec<u8>)> {
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../golden")).join(folder);
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut programs: Vec<_> = files
        .filter(|path| path.extension().is_some_and(|found| found == ending))
        .map(|path| (path.display().to_string(), std::fs::read(&path).unwrap()))
        .collect();
    programs.sort();
    programs
}

/// Places of the first byte of every quoted text and every number in the JSON of the layers and of the tables of tensors.
fn places(bytes: &[u8]) -> (Vec<usize>, Vec<usize>) {
    let start = bytes.windows(15).position(|part| part == b"{\"graph_module\"").expect("the layers are there");
    let tables = bytes.windows(11).position(|part| part == b"{\"config\": ").expect("a table is there");
    let text = |at: &usize| bytes[*at - 1] == b'"' && bytes[*at].is_ascii_alphabetic();
    let digit = |at: &usize| bytes[*at].is_ascii_digit();
    let range = || (tables.min(start) + 1..bytes.len()).filter(|&at| bytes[at].is_ascii());
    (range().filter(text).collect(), range().filter(digit).collect())
}

/// Changes one to four numbers or names and leaves all lengths as they are, so that most copies stay JSON.
fn damage(bytes: &mut [u8], (texts, digits): &(Vec<usize>, Vec<usize>), random: &mut SplitMix64) {
    for _ in 0..=random.below(4) {
        if random.below(2) == 0 {
            let at = digits[random.below(digits.len())];
            bytes[at] = b'0' + random.below(10) as u8;
            if bytes[at - 1] == b' ' && random.below(4) == 0 {
                bytes[at - 1] = b'-';
            }
            continue;
        }
        // One text in place of another: of the same length where one is found, or as much of it as fits.
        let length = |bytes: &[u8], at: usize| bytes[at..].iter().position(|&byte| byte == b'"').unwrap_or(0);
        let to = texts[random.below(texts.len())];
        let wanted = length(bytes, to);
        for _ in 0..50 {
            let from = texts[random.below(texts.len())];
            if length(bytes, from) == wanted {
                bytes.copy_within(from..from + wanted, to);
                break;
            }
        }
    }
}

/// What became of damaged copies.
#[derive(Default)]
struct Outcomes {
    networks: usize,
    errors: usize,
}

impl Outcomes {
    fn load(&mut self, bytes: Vec<u8>, place: &str) {
        match WeightFile::from_bytes(bytes).map(|file| Model::from_program(&file)) {
            Ok(Ok(model)) => {
                assert!(model.num_classes() > 1, "{place}");
                self.networks += 1;
            }
            Ok(Err(error)) => {
                assert!(error.to_string().len() < 4096 && error.hint().is_none_or(|hint| hint.len() < 4096));
                self.errors += 1;
            }
            Err(error) => {
                assert!(error.to_string().len() < 4096);
                self.errors += 1;
            }
        }
    }

    fn check(&self) {
        println!("{} networks, {} errors", self.networks, self.errors);
        assert!(self.networks > 0 && self.errors > 0);
    }
}

#[test]
fn damaged_programs_end_in_a_network_or_an_error() {
    let mut random = SplitMix64::new(17);
    let mut outcomes = Outcomes::default();
    for (name, good) in programs("programs", "pt2") {
        let places = places(&good);
        for copy in 0..copies() {
            let mut bytes = good.clone();
            damage(&mut bytes, &places, &mut random);
            outcomes.load(bytes, &format!("{name}, copy {copy}"));
        }
    }
    outcomes.check();
}

/// Tags, lengths and small numbers, which are what a protocol buffer is made of besides text and weights.
fn structure(bytes: &[u8]) -> Vec<usize> {
    (0..bytes.len()).filter(|&at| bytes[at] < 0x40 || bytes[at].is_ascii_alphabetic()).collect()
}

#[test]
fn damaged_onnx_files_end_in_a_network_or_an_error() {
    let mut random = SplitMix64::new(18);
    let mut outcomes = Outcomes::default();
    for (name, good) in programs("onnx", "onnx") {
        let places = structure(&good);
        for copy in 0..copies() {
            let mut bytes = good.clone();
            for _ in 0..=random.below(3) {
                let at = places[random.below(places.len())];
                bytes[at] = match random.below(3) {
                    0 => bytes[places[random.below(places.len())]],
                    1 => bytes[at] ^ (1 << random.below(8)),
                    _ => random.below(256) as u8,
                };
            }
            if random.below(16) == 0 {
                bytes.truncate(random.below(bytes.len()));
            }
            outcomes.load(bytes, &format!("{name}, copy {copy}"));
        }
    }
    outcomes.check();
}
