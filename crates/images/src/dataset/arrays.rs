use std::path::{Path, PathBuf};

use super::bytes_at::FileAt;
use super::classes::record_label;
use super::pixels::PictureShape;
use super::{ClassRule, DataError, Dataset, Layout, Payload, Sample};
use crate::Label;

/// Images of one size that are stored as pixels, one after the other: npy, npz and idx arrays, CIFAR's batches, and sheets
/// with one image per row.
pub struct ImageArray {
    layout: Layout,
    blocks: Vec<Block>,
    /// Empty where there are none.
    labels: Vec<Label>,
    classes: Vec<String>,
}

/// Pictures of one shape stored at equal distances.
pub(super) struct Block {
    source: Source,
    shape: PictureShape,
    /// Names samples: `<name>/<row>`.
    name: String,
    /// Bytes between two pictures.
    gap: usize,
    first_row: usize,
    rows: usize,
}

/// Where the bytes are.
pub(super) enum Source {
    /// In a file, from this offset.
    File(FileAt, u64),
    /// In memory, read from this file.
    Memory(Vec<u8>, PathBuf),
}

impl Source {
    fn path(&self) -> &Path {
        match self {
            Self::File(file, _) => file.path(),
            Self::Memory(_, path) => path,
        }
    }

    fn len(&self) -> u64 {
        match self {
            Self::File(file, offset) => file.len().saturating_sub(*offset),
            Self::Memory(bytes, _) => bytes.len() as u64,
        }
    }
}

impl Block {
    /// `rows` pictures, after checking that `source` holds them.
    pub fn new(source: Source, shape: PictureShape, rows: usize) -> Result<Self, DataError> {
        let shape = shape.check(source.path())?;
        let name = source.path().file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let block = Self { source, shape, name, gap: 0, first_row: 0, rows };
        block.check_length()?;
        Ok(block)
    }

    /// With `gap` bytes before every picture but the first, and samples named after `name`.
    pub fn spaced(self, gap: usize, name: String) -> Result<Self, DataError> {
        let block = Self { gap, name, ..self };
        block.check_length()?;
        Ok(block)
    }

    fn check_length(&self) -> Result<(), DataError> {
        let distance = (self.shape.len() + self.gap) as u64;
        let declared = (self.rows as u64).saturating_mul(distance).saturating_sub(self.gap as u64);
        if declared > self.source.len() {
            return Err(DataError::Truncated {
                path: self.source.path().into(),
                what: format!("{} pictures", self.rows),
                declared,
                found: self.source.len(),
            });
        }
        if self.rows == 0 {
            return Err(DataError::NoImages { path: self.source.path().into() });
        }
        Ok(())
    }

    /// Keeps `rows` pictures from `first` on.
    pub fn only(mut self, first: usize, rows: usize) -> Self {
        self.first_row += first;
        self.rows = rows;
        self
    }

    fn picture(&self, row: usize) -> Result<Payload, DataError> {
        let len = self.shape.len();
        let start = (self.first_row + row) * (len + self.gap);
        Ok(Payload::Pixels(match &self.source {
            Source::File(file, offset) => {
                self.shape.picture(&file.read(offset + start as u64, len as u64, "a picture")?)
            }
            Source::Memory(bytes, _) => self.shape.picture(&bytes[start..start + len]),
        }))
    }
}

impl ImageArray {
    /// The pictures of `blocks`, without labels.
    pub(super) fn new(layout: Layout, blocks: Vec<Block>, classes: Vec<String>) -> Self {
        Self { layout, blocks, labels: Vec::new(), classes }
    }

    /// Adds one label per picture, read from `path`.
    pub(super) fn with_labels(mut self, labels: &[i64], path: &Path, rule: &ClassRule) -> Result<Self, DataError> {
        if labels.len() != self.len() {
            return Err(DataError::LabelCount { path: path.into(), labels: labels.len(), images: self.len() });
        }
        let labels = labels.iter().map(|&value| record_label(path, value, rule));
        self.labels = labels.collect::<Result<_, _>>()?;
        Ok(self)
    }

    fn place(&self, mut index: usize) -> (&Block, usize) {
        for block in &self.blocks {
            if index < block.rows {
                return (block, index);
            }
            index -= block.rows;
        }
        panic!("the index is below `len`");
    }
}

impl Dataset for ImageArray {
    fn layout(&self) -> Layout {
        self.layout
    }

    fn len(&self) -> usize {
        self.blocks.iter().map(|block| block.rows).sum()
    }

    fn classes(&self) -> &[String] {
        &self.classes
    }

    fn id(&self, index: usize) -> String {
        let (block, row) = self.place(index);
        format!("{}/{}", block.name, block.first_row + row)
    }

    fn label(&self, index: usize) -> Result<Label, DataError> {
        Ok(self.labels.get(index).cloned().unwrap_or_default())
    }

    fn sample(&self, index: usize) -> Result<Sample, DataError> {
        let (block, row) = self.place(index);
        let label = self.labels.get(index).cloned().unwrap_or_default();
        Ok(Sample { id: self.id(index), payload: block.picture(row)?, label })
    }
}
