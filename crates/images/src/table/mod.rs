//! Numbers in files that are no images: logits of a classifier, one row per image, and labels.
//!
//! `.npy`, `.npz`, Parquet and CSV are told apart by their content. Files are taken as hostile: memory grows with what is really there.

mod csv;
mod npy;
mod parquet;

use crate::dataset::DataError;
use std::fs::File;
use std::io::{Read, Seek};
use std::path::Path;

pub use npy::write_npy;

/// Most bytes of numbers that are read.
const MAX_BYTES: u64 = 16 << 30;
/// What columns and arrays of labels are called.
const LABELS: [&str; 9] = ["label", "labels", "truth", "class", "target", "targets", "y", "fine_label", "cls"];
/// What columns are called that tell images apart.
const IDENTITIES: [&str; 6] = ["id", "image", "index", "path", "file", "name"];
/// What arrays of logits are called.
const LOGITS: [&str; 4] = ["logits", "outputs", "scores", "x"];

/// Logits, one row per image.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// Row after row.
    pub values: Vec<f32>,
    /// Numbers of a row.
    pub columns: usize,
}

/// The formats.
enum Format {
    Npy,
    Npz,
    Parquet,
    Csv,
}

/// Reads logits: an array of `[images, classes]`; in Parquet a column for each class or one column of lists; in CSV a column for each class. Columns
/// of labels and of names of images are left aside. Numbers are rounded to single precision.
pub fn read_logits(path: &Path) -> Result<Table, DataError> {
    let (file, format) = open(path)?;
    let table = match format {
        Format::Npy => npy::read_logits(file, path)?,
        Format::Npz => npy::read_logits(&*npy::unpack(path, &LOGITS)?, path)?,
        Format::Parquet => parquet::read_logits(file, path)?,
        Format::Csv => csv::read_logits(file, path)?,
    };
    if table.values.is_empty() {
        return Err(DataError::format(path, "the table", "no numbers", "a row of logits for every image"));
    }
    Ok(table)
}

/// Reads labels, one per image: an array of integers, or a column of integers, called `label` where there are several.
pub fn read_labels(path: &Path) -> Result<Vec<usize>, DataError> {
    let (file, format) = open(path)?;
    let labels = match format {
        Format::Npy => npy::read_integers(file, path)?,
        Format::Npz => npy::read_integers(&*npy::unpack(path, &LABELS)?, path)?,
        Format::Parquet => parquet::read_integers(file, path)?,
        Format::Csv => csv::read_integers(file, path)?,
    };
    let class = |(image, label): (usize, i64)| {
        usize::try_from(label)
            .map_err(|_| DataError::format(path, format!("label {image}"), label, "a class, counted from 0"))
    };
    labels.into_iter().enumerate().map(class).collect()
}

fn open(path: &Path) -> Result<(File, Format), DataError> {
    let mut file = crate::dataset::open_regular(path)?;
    let mut start = Vec::new();
    (&mut file).take(6).read_to_end(&mut start).map_err(DataError::io(path))?;
    file.rewind().map_err(DataError::io(path))?;
    let format = match start.as_slice() {
        [0x93, b'N', ..] => Format::Npy,
        [b'P', b'K', ..] => Format::Npz,
        [b'P', b'A', b'R', b'1', ..] => Format::Parquet,
        _ => Format::Csv,
    };
    Ok((file, format))
}

/// Rows of numbers as they come, all of one length.
struct Rows<'a> {
    path: &'a Path,
    table: Table,
    rows: usize,
}

impl<'a> Rows<'a> {
    fn new(path: &'a Path) -> Self {
        Self { path, table: Table { values: Vec::new(), columns: 0 }, rows: 0 }
    }

    /// Ends a row, whose numbers were pushed to the table.
    fn end_row(&mut self) -> Result<(), DataError> {
        self.rows += 1;
        if self.rows == 1 {
            self.table.columns = self.table.values.len();
        }
        let (found, expected) = (self.table.values.len(), self.rows * self.table.columns);
        if found == expected && expected > 0 {
            return Ok(());
        }
        let numbers = found + self.table.columns - expected;
        let expected = format!("{} as in the rows before", self.table.columns.max(1));
        Err(DataError::format(self.path, format!("row {}", self.rows), format!("{numbers} numbers"), expected))
    }
}

#[cfg(test)]
mod tests;
