use super::{LABELS, Rows, Table};
use crate::dataset::DataError;
use crate::guard::guarded;
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::{Field, Row};
use std::fs::File;
use std::path::Path;

/// Reads rows of numbers: every column of floating-point numbers, or of lists of them.
pub(super) fn read_logits(file: File, path: &Path) -> Result<Table, DataError> {
    let mut rows = Rows::new(path);
    each_row(file, path, |row| {
        for (_, field) in row.get_column_iter() {
            push_numbers(field, &mut rows.table.values);
        }
        rows.end_row()
    })?;
    Ok(rows.table)
}

/// Reads a column of integers: the one called `label` or like it, or the only one.
pub(super) fn read_integers(file: File, path: &Path) -> Result<Vec<i64>, DataError> {
    let mut labels = Vec::new();
    each_row(file, path, |row| {
        let integers: Vec<(&String, i64)> =
            row.get_column_iter().filter_map(|(name, field)| Some((name, integer(field)?))).collect();
        let named =
            LABELS.iter().find_map(|wanted| integers.iter().find(|(name, _)| name.eq_ignore_ascii_case(wanted)));
        match (named, integers.as_slice()) {
            (Some((_, label)), _) | (None, [(_, label)]) => labels.push(*label),
            _ => {
                let found = format!("{} columns of integers in row {}", integers.len(), labels.len());
                return Err(DataError::format(path, "the labels", found, "a column called `label`"));
            }
        }
        Ok(())
    })?;
    Ok(labels)
}

fn each_row(file: File, path: &Path, mut take: impl FnMut(&Row) -> Result<(), DataError>) -> Result<(), DataError> {
    let broken = |error: ParquetError| DataError::format(path, "the Parquet file", error, "intact data");
    // The reader may panic on a file that was made to harm.
    let reader = guarded(|| SerializedFileReader::new(file)).map_err(|panic| broken(ParquetError::General(panic)))?;
    let reader = reader.map_err(broken)?;
    let mut rows = reader.get_row_iter(None).map_err(broken)?;
    while let Some(row) = guarded(|| rows.next()).map_err(|panic| broken(ParquetError::General(panic)))? {
        take(&row.map_err(broken)?)?;
    }
    Ok(())
}

fn push_numbers(field: &Field, numbers: &mut Vec<f32>) {
    match field {
        Field::Float16(value) => numbers.push(value.to_f32()),
        Field::Float(value) => numbers.push(*value),
        Field::Double(value) => numbers.push(*value as f32),
        Field::ListInternal(list) => list.elements().iter().for_each(|element| push_numbers(element, numbers)),
        _ => {}
    }
}

fn integer(field: &Field) -> Option<i64> {
    Some(match field {
        Field::Byte(value) => i64::from(*value),
        Field::Short(value) => i64::from(*value),
        Field::Int(value) => i64::from(*value),
        Field::Long(value) => *value,
        Field::UByte(value) => i64::from(*value),
        Field::UShort(value) => i64::from(*value),
        Field::UInt(value) => i64::from(*value),
        Field::ULong(value) => i64::try_from(*value).unwrap_or(i64::MAX),
        _ => return None,
    })
}
