use flipcast_corrupt::blocks::jpeg::encode;
use flipcast_images::Image;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// A folder of a test's own, removed at its end.
pub struct Scratch(PathBuf);

impl Scratch {
    pub fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("flipcast-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("writable");
        Self(path)
    }

    /// A path below the folder, as an argument.
    pub fn path(&self, below: &str) -> String {
        self.0.join(below).to_str().expect("a plain name").to_owned()
    }

    pub fn write(&self, below: &str, bytes: &[u8]) {
        let path = self.0.join(below);
        fs::create_dir_all(path.parent().expect("below the folder")).expect("writable");
        fs::write(path, bytes).expect("writable");
    }

    /// `data/cat` and `data/dog` with two pictures each, `side` x `side` pixels.
    pub fn with_pictures(name: &str, side: usize) -> Self {
        let scratch = Self::new(name);
        for (number, below) in ["cat/a", "cat/b", "dog/a", "dog/c"].iter().enumerate() {
            scratch.write(&format!("data/{below}.jpg"), &picture(side, number));
        }
        scratch
    }

    /// Every file below `below` with its content.
    pub fn files(&self, below: &str) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut found = BTreeMap::new();
        collect(&self.0.join(below), &mut found);
        found
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn collect(folder: &Path, found: &mut BTreeMap<PathBuf, Vec<u8>>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("readable").path();
        if path.is_dir() {
            collect(&path, found);
        } else {
            found.insert(path.clone(), fs::read(&path).expect("readable"));
        }
    }
}

/// A JPEG file of `side` x `side` pixels.
pub fn picture(side: usize, number: usize) -> Vec<u8> {
    let byte = |i: usize| ((i / 3 % side) * 5 + i % 3 * 40 + number * 17) as u8;
    let rgb = (0..3 * side * side).map(byte).collect();
    encode(&Image::new(side, side, rgb).expect("sizes match"), 90).expect("small")
}
