use std::path::{Path, PathBuf};

use super::DataError;
use super::bytes_at::FileAt;
use super::classes::record_label;
use super::pixels::PictureShape;
use super::{ClassRule, Payload, Sample};
use crate::Label;

/// Pictures of one shape stored one after the other, and their labels.
pub(super) struct PictureArray {
    source: Source,
    shape: PictureShape,
    /// Names samples: `<stem>/<row>`.
    stem: String,
    first_row: usize,
    rows: usize,
    labels: Vec<Label>,
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

impl PictureArray {
    /// `rows` pictures, after checking that `source` holds them.
    pub fn new(source: Source, shape: PictureShape, rows: usize) -> Result<Self, DataError> {
        let shape = shape.check(source.path())?;
        let declared = (rows as u64).saturating_mul(shape.len() as u64);
        if declared > source.len() {
            return Err(DataError::Truncated {
                path: source.path().into(),
                what: format!("{rows} pictures"),
                declared,
                found: source.len(),
            });
        }
        if rows == 0 {
            return Err(DataError::NoImages { path: source.path().into() });
        }
        let stem = source.path().file_stem().unwrap_or_default();
        let stem = stem.to_string_lossy().into_owned();
        Ok(Self { source, shape, stem, first_row: 0, rows, labels: Vec::new() })
    }

    /// Adds one label per row, read from `path`.
    pub fn with_labels(mut self, labels: &[i64], path: &Path, rule: &ClassRule) -> Result<Self, DataError> {
        if labels.len() != self.rows {
            return Err(DataError::LabelCount { path: path.into(), labels: labels.len(), images: self.rows });
        }
        let labels = labels.iter().map(|&value| record_label(path, value, rule));
        self.labels = labels.collect::<Result<_, _>>()?;
        Ok(self)
    }

    /// Keeps `rows` pictures from `first` on.
    pub fn only(mut self, first: usize, rows: usize) -> Self {
        self.first_row += first;
        self.rows = rows;
        if !self.labels.is_empty() {
            self.labels = self.labels[first..first + rows].to_vec();
        }
        self
    }

    pub fn len(&self) -> usize {
        self.rows
    }

    pub fn id(&self, index: usize) -> String {
        format!("{}/{}", self.stem, self.first_row + index)
    }

    pub fn label(&self, index: usize) -> Label {
        self.labels.get(index).cloned().unwrap_or_default()
    }

    pub fn sample(&self, index: usize) -> Result<Sample, DataError> {
        let len = self.shape.len();
        let start = (self.first_row + index) * len;
        let image = match &self.source {
            Source::File(file, offset) => {
                let bytes = file.read(offset + start as u64, len as u64, "a picture")?;
                self.shape.picture(&bytes)
            }
            Source::Memory(bytes, _) => self.shape.picture(&bytes[start..start + len]),
        };
        Ok(Sample { id: self.id(index), payload: Payload::Pixels(image), label: self.label(index) })
    }
}

/// Names for labels that are plain numbers.
pub(super) fn names_for(rule: &ClassRule) -> Vec<String> {
    match rule {
        ClassRule::Names(names) => names.clone(),
        ClassRule::Space(space) => space.class_names(),
        ClassRule::Auto | ClassRule::Unlabelled => Vec::new(),
    }
}
