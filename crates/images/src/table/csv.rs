use super::{IDENTITIES, LABELS, MAX_BYTES, Rows, Table};
use crate::dataset::DataError;
use csv::{Reader, ReaderBuilder, StringRecord, Trim};
use std::fs::File;
use std::io::{Read, Take};
use std::path::Path;

/// Lines of comma-separated numbers, perhaps below a line of names.
struct Lines {
    reader: Reader<Take<File>>,
    names: Option<StringRecord>,
    /// The first line of numbers, where it was read to see that there are no names.
    first: Option<StringRecord>,
}

impl Lines {
    fn open(file: File, path: &Path) -> Result<Self, DataError> {
        let mut builder = ReaderBuilder::new();
        builder.has_headers(false).trim(Trim::All).flexible(true);
        let mut reader = builder.from_reader(file.take(MAX_BYTES));
        let mut first = StringRecord::new();
        reader.read_record(&mut first).map_err(|error| unreadable(path, error))?;
        let is_numbers = first.iter().all(|cell| cell.parse::<f64>().is_ok());
        match is_numbers {
            true => Ok(Self { reader, names: None, first: Some(first) }),
            false => Ok(Self { reader, names: Some(first), first: None }),
        }
    }

    fn next(&mut self, path: &Path) -> Result<Option<StringRecord>, DataError> {
        if let Some(first) = self.first.take() {
            return Ok(Some(first).filter(|first| !first.is_empty()));
        }
        let mut record = StringRecord::new();
        let found = self.reader.read_record(&mut record).map_err(|error| unreadable(path, error))?;
        Ok(found.then_some(record))
    }

    /// Columns by name, in lower case.
    fn named(&self, names: &[&str]) -> Vec<usize> {
        let columns = self.names.iter().flatten().enumerate();
        columns.filter(|(_, name)| names.contains(&name.to_lowercase().as_str())).map(|(column, _)| column).collect()
    }
}

fn unreadable(path: &Path, error: csv::Error) -> DataError {
    DataError::format(path, "the text", error, "npy, npz, Parquet, or comma-separated numbers")
}

/// Reads rows of numbers.
pub(super) fn read_logits(file: File, path: &Path) -> Result<Table, DataError> {
    let mut lines = Lines::open(file, path)?;
    let left_aside = [lines.named(&LABELS), lines.named(&IDENTITIES)].concat();
    let mut rows = Rows::new(path);
    while let Some(record) = lines.next(path)? {
        for (column, cell) in record.iter().enumerate().filter(|(column, _)| !left_aside.contains(column)) {
            let number = cell.parse().map_err(|_| {
                let place = format!("column {} of row {}", column + 1, rows.rows + 1);
                DataError::format(path, place, format!("`{cell}`"), "a number")
            })?;
            rows.table.values.push(number);
        }
        rows.end_row()?;
    }
    Ok(rows.table)
}

/// Reads a column of integers.
pub(super) fn read_integers(file: File, path: &Path) -> Result<Vec<i64>, DataError> {
    let mut lines = Lines::open(file, path)?;
    let column = lines.named(&LABELS).first().copied();
    let mut labels = Vec::new();
    while let Some(record) = lines.next(path)? {
        let cell = match (column, record.len()) {
            (Some(column), _) => record.get(column),
            (None, 1) => record.get(0),
            (None, found) => {
                let expected = "one column, or one called `label`";
                return Err(DataError::format(path, "the labels", format!("{found} columns"), expected));
            }
        };
        let cell = cell.unwrap_or_default();
        labels.push(cell.parse().map_err(|_| {
            DataError::format(path, format!("label {}", labels.len()), format!("`{cell}`"), "a class, counted from 0")
        })?);
    }
    Ok(labels)
}
