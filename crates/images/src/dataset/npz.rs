use std::fs::File;
use std::io::Read;
use std::path::Path;

use zip::ZipArchive;

use super::array::{PictureArray, Source, names_for};
use super::npy_header::NpyHeader;
use super::{ClassRule, DataError, Dataset, Layout, Sample, Split};
use crate::Label;

/// Largest array unpacked into memory.
const MAX_ARRAY_BYTES: u64 = 4 << 30;
/// What image arrays are called.
const IMAGES: &[&str] = &["images", "x", "data"];

/// An `.npz` archive with an image array and perhaps a label array: `images` and `labels`, `x` and `y`, or the same
/// with `train` or `test` before or after.
pub struct Npz {
    pictures: PictureArray,
    classes: Vec<String>,
}

impl Npz {
    /// Reads the arrays of `split`.
    pub fn open(path: &Path, split: Split, rule: &ClassRule) -> Result<Self, DataError> {
        let mut archive = open_archive(path)?;
        let names = names_in(&archive);
        let images = pick(&names, split, IMAGES).ok_or_else(|| {
            let found = format!("arrays {}", names.join(", "));
            DataError::format(path, "the content", found, "an array called `images` or `x`")
        })?;
        let mut bytes = unpack(&mut archive, path, &images)?;
        let header = NpyHeader::read(path, &bytes)?;
        let (shape, rows) = header.pictures(path)?;
        bytes.drain(..header.offset);
        let mut pictures = PictureArray::new(Source::Memory(bytes, path.into()), shape, rows)?;
        if let Some(labels) = pick(&names, split, &["labels", "y", "targets"]) {
            let bytes = unpack(&mut archive, path, &labels)?;
            let values = NpyHeader::read(path, &bytes)?.integers(path, &bytes)?;
            pictures = pictures.with_labels(&values, path, rule)?;
        }
        Ok(Self { pictures, classes: names_for(rule) })
    }
}

/// Whether the archive at `path` keeps training and test images apart.
pub(super) fn holds_both(path: &Path) -> Result<bool, DataError> {
    let names = names_in(&open_archive(path)?);
    let images = |split| pick(&names, split, IMAGES);
    Ok(images(Split::Train) != images(Split::Test))
}

fn open_archive(path: &Path) -> Result<ZipArchive<File>, DataError> {
    let file = File::open(path).map_err(DataError::io(path))?;
    ZipArchive::new(file).map_err(|e| DataError::format(path, "the archive", e, "a zip directory"))
}

fn names_in(archive: &ZipArchive<File>) -> Vec<String> {
    let names = archive.file_names();
    names.filter_map(|n| Some(n.ok()?.into_owned())).collect()
}

/// The entry for one of `stems`: with the split's name before or after, or alone.
fn pick(names: &[String], split: Split, stems: &[&str]) -> Option<String> {
    let split = split.name();
    let candidates = stems
        .iter()
        .flat_map(|stem| [format!("{split}_{stem}.npy"), format!("{stem}_{split}.npy"), format!("{stem}.npy")]);
    let mut found = candidates.filter(|c| names.contains(c));
    found.next()
}

fn unpack(archive: &mut ZipArchive<File>, path: &Path, name: &str) -> Result<Vec<u8>, DataError> {
    let entry = archive
        .by_name(name)
        .map_err(|e| DataError::format(path, format!("entry `{name}`"), e, "a stored or deflated file"))?;
    let declared = entry.size();
    if declared > MAX_ARRAY_BYTES {
        return Err(DataError::TooLarge {
            path: path.into(),
            what: format!("array `{name}`"),
            declared,
            limit: MAX_ARRAY_BYTES,
        });
    }
    // The declared size bounds what is read; memory grows with what really arrives.
    let mut bytes = Vec::new();
    entry
        .take(declared)
        .read_to_end(&mut bytes)
        .map_err(|e| DataError::format(path, format!("entry `{name}`"), e, "intact data"))?;
    if (bytes.len() as u64) < declared {
        return Err(DataError::Truncated {
            path: path.into(),
            what: format!("array `{name}`"),
            declared,
            found: bytes.len() as u64,
        });
    }
    Ok(bytes)
}

impl Dataset for Npz {
    fn layout(&self) -> Layout {
        Layout::Npz
    }

    fn len(&self) -> usize {
        self.pictures.len()
    }

    fn classes(&self) -> &[String] {
        &self.classes
    }

    fn id(&self, index: usize) -> String {
        self.pictures.id(index)
    }

    fn label(&self, index: usize) -> Result<Label, DataError> {
        Ok(self.pictures.label(index))
    }

    fn sample(&self, index: usize) -> Result<Sample, DataError> {
        self.pictures.sample(index)
    }
}
