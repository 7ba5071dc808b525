use std::path::Path;

use super::arrays::{Block, ImageArray, Source};
use super::bytes_at::{FileAt, read_file};
use super::npy_header::NpyHeader;
use super::{ClassRule, DataError, Layout};

/// Severity blocks in a `-C` array.
const SEVERITIES: usize = 5;

/// Which rows of a `-C` array are used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Severity {
    /// All rows.
    #[default]
    All,
    /// The block of one severity, 1 to 5.
    Only(u8),
}

/// Opens an `.npy` array of 8-bit images. A `labels.npy` beside it labels them; in the CIFAR-10-C layout the five severities
/// follow one another, each with all images.
pub(super) fn open_npy(path: &Path, severity: Severity, rule: &ClassRule) -> Result<ImageArray, DataError> {
    let file = FileAt::open(path)?;
    let start = file.read(0, file.len().min(NpyHeader::MAX_LEN as u64), "the npy header")?;
    let header = NpyHeader::read(path, &start)?;
    let (shape, rows) = header.pictures(path)?;
    let mut block = Block::new(Source::File(file, header.offset as u64), shape, rows)?;
    let (mut first, mut kept) = (0, rows);
    if let Severity::Only(level) = severity {
        let level = usize::from(level);
        if !(1..=SEVERITIES).contains(&level) || rows % SEVERITIES != 0 {
            let found = format!("severity {level} of {rows} rows");
            let expected = "severity 1 to 5 of a multiple of 5 rows";
            return Err(DataError::format(path, "the selection", found, expected));
        }
        kept = rows / SEVERITIES;
        first = (level - 1) * kept;
        block = block.only(first, kept);
    }
    let array = ImageArray::new(Layout::Npy, vec![block], rule.names());
    let beside = path.with_file_name("labels.npy");
    if !beside.is_file() || beside == path {
        return Ok(array);
    }
    let bytes = read_file(&beside)?;
    let labels = NpyHeader::read(&beside, &bytes)?.integers(&beside, &bytes)?;
    if labels.len() != rows {
        return Err(DataError::LabelCount { path: beside, labels: labels.len(), images: rows });
    }
    array.with_labels(&labels[first..first + kept], &beside, rule)
}
