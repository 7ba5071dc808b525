use std::fs::File;
use std::io::Read;
use std::path::Path;

use zip::ZipArchive;

use super::arrays::{Block, ImageArray, Source};
use super::bytes_at::FileAt;
use super::npy_header::NpyHeader;
use super::zip_index::{names_in, open_zip};
use super::{ClassRule, DataError, Layout, Split};

/// Largest array unpacked into memory.
const MAX_ARRAY_BYTES: u64 = 4 << 30;
/// What image arrays are called.
const IMAGES: &[&str] = &["images", "x", "data"];

/// Reads the arrays of `split` from an `.npz` archive with an image array and perhaps a label array: `images` and `labels`,
/// `x` and `y`, or the same with `train` or `test` before or after.
pub(super) fn open_npz(file: &FileAt, split: Split, rule: &ClassRule) -> Result<ImageArray, DataError> {
    let path = file.path();
    let mut archive = open_zip(file)?;
    let names = names_in(&archive);
    let images = pick(&names, split, IMAGES).ok_or_else(|| {
        let found = format!("arrays {}", names.join(", "));
        DataError::format(path, "the content", found, "an array called `images` or `x`")
    })?;
    let mut bytes = unpack_array(&mut archive, path, &images)?;
    let header = NpyHeader::read(path, &bytes)?;
    let (shape, rows) = header.pictures(path)?;
    bytes.drain(..header.offset);
    let block = Block::new(Source::Memory(bytes, path.into()), shape, rows)?;
    let array = ImageArray::new(Layout::Npz, vec![block], rule.names());
    let Some(labels) = pick(&names, split, &["labels", "y", "targets"]) else {
        return Ok(array);
    };
    let bytes = unpack_array(&mut archive, path, &labels)?;
    let values = NpyHeader::read(path, &bytes)?.integers(path, &bytes)?;
    array.with_labels(&values, path, rule)
}

/// Whether the archive at `path` keeps training and test images apart.
pub(super) fn holds_both(path: &Path) -> Result<bool, DataError> {
    let names = names_in(&open_zip(&FileAt::open(path)?)?);
    let images = |split| pick(&names, split, IMAGES);
    Ok(images(Split::Train) != images(Split::Test))
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

/// The bytes of the array called `name`.
pub(crate) fn unpack_array(archive: &mut ZipArchive<File>, path: &Path, name: &str) -> Result<Vec<u8>, DataError> {
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
