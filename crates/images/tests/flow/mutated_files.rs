//! Damaged bytes end in a value or an error, never in a panic or in runaway memory.

use std::path::PathBuf;

use flipcast_ground::SplitMix64;
use flipcast_images::dataset::open;
use flipcast_images::decode::{DecodeOptions, Limits, decode_with};

use crate::made::{Folder, data, npy, png, tar};

/// Small enough that a forged size cannot take much memory.
const OPTIONS: DecodeOptions =
    DecodeOptions { limits: Limits { max_pixels: 1_000_000 }, rotation: flipcast_images::decode::Rotation::Apply };

/// `bytes` with a few of them changed, more often near the start, and sometimes cut off.
fn mutated(bytes: &[u8], random: &mut SplitMix64) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for _ in 0..1 + random.below(6) {
        let near = if random.below(2) == 0 { 200 } else { bytes.len() };
        let at = random.below(near.min(bytes.len()));
        bytes[at] = random.next_u64() as u8;
    }
    if random.below(4) == 0 {
        bytes.truncate(1 + random.below(bytes.len()));
    }
    bytes
}

#[test]
fn damaged_images_give_an_image_or_an_error() {
    let mut random = SplitMix64::new(1);
    let mut files: Vec<PathBuf> = Vec::new();
    for folder in ["edge", "formats", "tiff"] {
        let root = crate::preprocess_goldens::golden_path(folder);
        let entries = std::fs::read_dir(root).unwrap();
        files.extend(entries.map(|e| e.unwrap().path()).filter(|p| p.is_file()));
    }
    files.sort();
    let (mut images, mut errors) = (0, 0);
    for file in files {
        let bytes = std::fs::read(file).unwrap();
        for _ in 0..25 {
            match decode_with(&mutated(&bytes, &mut random), &OPTIONS) {
                Ok(_) => images += 1,
                Err(_) => errors += 1,
            }
        }
    }
    assert!(images > 0 && errors > images / 2, "{images} images, {errors} errors");
}

#[test]
fn damaged_archives_and_arrays_give_samples_or_errors() {
    let mut random = SplitMix64::new(2);
    let image = png(2, 2, [1, 2, 3]);
    let entries: &[(&str, &[u8])] = &[("0.jpg", &image), ("0.cls", b"3"), ("1.jpg", &image)];
    let folders: &[(&str, &[u8])] = &[("a/0.png", &image), ("b/1.png", &image)];
    let idx = [&[0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 1][..], &[7, 8]].concat();
    let files = [
        ("shard.tar", tar(entries)),
        ("plain.tar", tar(folders)),
        ("hub.parquet", std::fs::read(data("hub.parquet")).unwrap()),
        ("hard.parquet", std::fs::read(data("hard.parquet")).unwrap()),
        ("arrays.npz", std::fs::read(data("arrays.npz")).unwrap()),
        ("zstd.parquet", std::fs::read(data("zstd.parquet")).unwrap()),
        ("images.zip", crate::made::zip(folders)),
        ("plain.tar.gz", crate::made::gzip(&tar(folders))),
        ("x.npy", npy("|u1", "(2, 2, 1, 3)", &[9; 12])),
        ("t-idx3-ubyte", idx),
    ];
    for (name, bytes) in files {
        let folder = Folder::new();
        for _ in 0..60 {
            let path = folder.put(name, mutated(&bytes, &mut random));
            let Ok(dataset) = open(path.to_str().unwrap()) else {
                continue;
            };
            for i in 0..dataset.len().min(50) {
                let sample = dataset.sample(i);
                let _ = sample.map(|s| s.payload.into_image(&OPTIONS));
            }
        }
    }
}
