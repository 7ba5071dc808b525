//! Damaged weight files: whatever happens to the bytes, reading ends in a value or an error, in bounded memory.
#![forbid(unsafe_code)]

use flipcast_ground::Hint;
use flipcast_models::WeightFile;
use peak_alloc::PeakAlloc;
use std::path::PathBuf;

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

/// Bytes of memory per byte of file that reading may take. The costliest opcodes are one byte long and make an empty
/// container: 48 bytes, in vectors that hold up to three times their contents while they grow.
const MEMORY_PER_BYTE: usize = 160;
/// Memory that reading may take whatever the size of the file: messages, the first chunk of each table.
const MEMORY_FIXED: usize = 16 << 10;
/// Damaged copies made of each file.
const COPIES: usize = 5_000;

/// Marsaglia's xorshift: the same numbers on every machine.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }
}

fn good_files() -> Vec<(String, Vec<u8>)> {
    let root = std::env::var_os("FLIPCAST_GOLDEN")
        .map_or_else(|| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../golden")), PathBuf::from);
    let folder = std::fs::read_dir(root.join("weights")).expect("golden data");
    let mut files: Vec<(String, Vec<u8>)> = folder
        .map(|entry| entry.expect("a readable folder").path())
        .filter(|path| path.extension().is_some_and(|e| e == "pth" || e == "safetensors"))
        .map(|path| {
            let bytes = std::fs::read(&path).expect("a readable file");
            (path.display().to_string(), bytes)
        })
        .collect();
    files.sort();
    files
}

/// Changes one to eight places of `bytes`, and sometimes its length.
fn damage(bytes: &mut Vec<u8>, random: &mut Random) {
    const TELLING: [u8; 8] = [0x00, 0x01, 0x7f, 0x80, 0xff, b'(', b'}', b'.'];
    for _ in 0..=random.below(8) {
        let at = random.below(bytes.len());
        match random.below(6) {
            0 => bytes[at] ^= 1 << random.below(8),
            1 => bytes[at] = random.next() as u8,
            2 => bytes[at] = TELLING[random.below(TELLING.len())],
            3 => {
                let end = bytes.len().min(at + 8);
                bytes[at..end].fill(TELLING[random.below(TELLING.len())]);
            }
            4 => {
                let from = random.below(bytes.len());
                let len = random.below(16).min(bytes.len() - from).min(bytes.len() - at);
                bytes.copy_within(from..from + len, at);
            }
            _ => bytes.insert(at, random.next() as u8),
        }
    }
    if random.below(8) == 0 {
        bytes.truncate(random.below(bytes.len()).max(1));
    }
}

/// Reads all of `bytes`; says whether that worked.
fn read_all(bytes: Vec<u8>) -> bool {
    match WeightFile::from_bytes(bytes) {
        Ok(file) => {
            for info in file.tensors() {
                let tensor = file.load(&info.name).expect("a listed tensor loads");
                assert_eq!(tensor.shape(), &info.shape);
            }
            true
        }
        Err(error) => {
            // Messages are built from hostile text as well.
            assert!(error.to_string().len() < 4096);
            let _ = error.hint();
            false
        }
    }
}

/// Reads `bytes` and gives the share of the allowed memory that took, and whether it worked.
fn measure(what: &str, bytes: Vec<u8>) -> (f64, bool) {
    let allowed = bytes.len() * MEMORY_PER_BYTE + MEMORY_FIXED;
    ALLOCATOR.reset_peak_usage();
    let before = ALLOCATOR.current_usage();
    let ok = read_all(bytes);
    let used = ALLOCATOR.peak_usage().saturating_sub(before);
    assert!(used <= allowed, "{what}: {used} bytes, {allowed} allowed");
    (used as f64 / allowed as f64, ok)
}

fn damage_good_files() {
    let mut random = Random(0x5eed_2024_0724);
    let (mut read, mut refused, mut worst) = (0, 0, 0.0f64);
    for (path, good) in good_files() {
        for copy in 0..COPIES {
            let mut bytes = good.clone();
            damage(&mut bytes, &mut random);
            let (share, ok) = measure(&format!("{path}, copy {copy}"), bytes);
            worst = worst.max(share);
            if ok {
                read += 1;
            } else {
                refused += 1;
            }
        }
    }
    println!("damaged: {read} read, {refused} refused, at most {worst:.3} of the memory allowed");
    assert!(read > 0 && refused > 0);
}

/// Pickles that do one thing over and over.
fn waste_memory() {
    let mut worst = 0.0f64;
    for wasteful in [
        &b"]"[..],
        b"}",
        b")",
        b"N",
        b"2",
        b"(",
        b"\x8f",
        b"\x94",
        b"N\x94",
        b")\x85",
        b"}NNs",
        b"]NaNa",
        b"K\x01q\x01",
    ] {
        for count in [10_000, 70_000] {
            let mut bytes = b"\x80\x02N".to_vec();
            bytes.extend(wasteful.repeat(count));
            let what = format!("{count} times {wasteful:?}");
            let (share, ok) = measure(&what, bytes);
            assert!(!ok, "{what}");
            worst = worst.max(share);
        }
    }
    println!("wasteful: at most {worst:.3} of the memory allowed");
}

// The one test of this file, so that no other shares the allocator it measures.
#[test]
fn hostile_files_end_in_a_value_or_an_error_in_bounded_memory() {
    damage_good_files();
    waste_memory();
}
