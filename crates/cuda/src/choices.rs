//! What was found fastest for layers, kept for the next network and the next process.
//!
//! Trying every algorithm takes about a second for a large network, and under load another one may win: without this file neither
//! the time to start nor the last bits of a result would be the same twice.

use crate::compile::cache_folder;
use crate::device::Device;
use crate::error::CudaError;
use crate::library::libraries;
use crate::precision::Precision;
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Part of a file's name; counts up when the list of candidates changes.
const FORMAT: &str = "flipcast ways 1";

/// Names of ways by the layer they are for.
#[derive(Debug, Default)]
pub(crate) struct Choices {
    path: Option<PathBuf>,
    known: HashMap<String, Choice>,
}

/// The way that won, and its milliseconds.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Choice {
    pub way: String,
    pub milliseconds: f32,
}

impl Choices {
    /// What is known for this GPU, these libraries and a precision.
    pub fn load(device: &Device, precision: Precision) -> Result<Self, CudaError> {
        let (blas, dnn) = (libraries().cublaslt()?, libraries().cudnn()?);
        // SAFETY: the functions take nothing.
        let versions = unsafe { [(blas.version)() as u64, (dnn.version)() as u64] };
        let all = format!("{FORMAT} {} {versions:?} {precision:?}", device.name);
        let hash = Sha256::digest(all.as_bytes());
        let name: String = hash[..8].iter().map(|byte| format!("{byte:02x}")).collect();
        let path = cache_folder().map(|folder| folder.join(format!("{name}.ways")));
        Ok(Self::read(path))
    }

    fn read(path: Option<PathBuf>) -> Self {
        let bytes = path.as_deref().and_then(|path| std::fs::read(path).ok());
        let text = String::from_utf8_lossy(&bytes.unwrap_or_default()).into_owned();
        let mut known = HashMap::new();
        for (layer, choice) in text.lines().filter_map(parse) {
            known.entry(layer).or_insert(choice);
        }
        Self { path, known }
    }

    /// The way that won for `layer`.
    pub fn find(&self, layer: &str) -> Option<&Choice> {
        self.known.get(layer)
    }

    /// Keeps the way that won for `layer`. The first to be kept stays.
    pub fn keep(&mut self, layer: String, choice: Choice) {
        if let Some(path) = &self.path {
            // A file that cannot be written costs time at the next start and nothing else.
            let _ = append(path, &layer, &choice);
        }
        self.known.insert(layer, choice);
    }
}

/// A line; `None` for one that was cut off or damaged.
fn parse(line: &str) -> Option<(String, Choice)> {
    let mut parts = line.split('\t');
    let (layer, way) = (parts.next()?, parts.next()?);
    let milliseconds = parts.next()?.parse().ok()?;
    let ends = parts.next()? == "." && parts.next().is_none();
    let way = way.to_owned();
    ends.then(|| (layer.to_owned(), Choice { way, milliseconds }))
}

/// Adds a line in one write, so that processes that share the file do not mix theirs.
fn append(path: &Path, layer: &str, choice: &Choice) -> std::io::Result<()> {
    std::fs::create_dir_all(path.parent().unwrap_or(Path::new(".")))?;
    let mut file = OpenOptions::new().create(true).append(true).open(path)?;
    let Choice { way, milliseconds } = choice;
    file.write_all(format!("{layer}\t{way}\t{milliseconds}\t.\n").as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choice(way: &str) -> Choice {
        Choice { way: way.to_owned(), milliseconds: 0.25 }
    }

    #[test]
    fn the_first_choice_is_found_again_and_damage_is_passed_over() {
        let folder = std::env::temp_dir().join(format!("flipcast-ways-{}", std::process::id()));
        let path = folder.join("a.ways");
        let mut first = Choices::read(Some(path.clone()));
        assert_eq!(first.find("conv 1"), None);
        first.keep("conv 1".to_owned(), choice("cudnn 2"));
        append(&path, "conv 1", &choice("cudnn 3")).unwrap();
        std::fs::write(&path, [std::fs::read(&path).unwrap(), b"conv 2\tcudnn 1\t0.".to_vec()].concat()).unwrap();
        let second = Choices::read(Some(path));
        assert_eq!(second.find("conv 1"), Some(&choice("cudnn 2")));
        assert_eq!(second.find("conv 2"), None);
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn without_a_folder_choices_live_as_long_as_their_owner() {
        let mut choices = Choices::read(None);
        choices.keep("conv 1".to_owned(), choice("plain"));
        assert_eq!(choices.find("conv 1"), Some(&choice("plain")));
    }
}
