use std::path::Path;

use super::array::{PictureArray, Source, names_for};
use super::bytes_at::{FileAt, read_file};
use super::npy_header::NpyHeader;
use super::{ClassRule, DataError, Dataset, Layout, Sample};
use crate::Label;

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

/// An `.npy` array of 8-bit images. A `labels.npy` beside it labels them; in the CIFAR-10-C layout the five severities
/// follow one another, each with all images.
pub struct Npy {
    pictures: PictureArray,
    classes: Vec<String>,
}

impl Npy {
    /// Opens the array at `path`.
    pub fn open(path: &Path, severity: Severity, rule: &ClassRule) -> Result<Self, DataError> {
        let file = FileAt::open(path)?;
        let start = file.read(0, file.len().min(NpyHeader::MAX_LEN as u64), "the npy header")?;
        let header = NpyHeader::read(path, &start)?;
        let (shape, rows) = header.pictures(path)?;
        let source = Source::File(file, header.offset as u64);
        let mut pictures = PictureArray::new(source, shape, rows)?;
        let labels = path.with_file_name("labels.npy");
        if labels.is_file() && labels != path {
            pictures = pictures.with_labels(&read_labels(&labels)?, &labels, rule)?;
        }
        if let Severity::Only(level) = severity {
            let block = rows / SEVERITIES;
            let level = usize::from(level);
            if !(1..=SEVERITIES).contains(&level) || rows % SEVERITIES != 0 {
                let found = format!("severity {level} of {rows} rows");
                let expected = "severity 1 to 5 of a multiple of 5 rows";
                return Err(DataError::format(path, "the selection", found, expected));
            }
            pictures = pictures.only((level - 1) * block, block);
        }
        Ok(Self { pictures, classes: names_for(rule) })
    }
}

fn read_labels(path: &Path) -> Result<Vec<i64>, DataError> {
    let bytes = read_file(path)?;
    NpyHeader::read(path, &bytes)?.integers(path, &bytes)
}

impl Dataset for Npy {
    fn layout(&self) -> Layout {
        Layout::Npy
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
