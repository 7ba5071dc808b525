use std::path::Path;

use parquet::basic::{ConvertedType, Type};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{ByteArray, DataType};
use parquet::errors::ParquetError;
use parquet::file::metadata::ParquetMetaData;
use parquet::file::reader::RowGroupReader;

use super::DataError;

/// Names of label columns, the first present wins.
const LABEL_NAMES: [&str; 8] = ["label", "labels", "fine_label", "class", "cls", "target", "targets", "y"];
/// Names of image columns that are plain bytes.
const IMAGE_NAMES: [&str; 8] = ["image", "img", "bytes", "jpg", "png", "webp", "picture", "content"];

/// Which columns hold the pictures and the labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Columns {
    pub image: usize,
    pub label: Option<usize>,
}

impl Columns {
    /// Finds them by type and name: a struct with `bytes`, or a column of plain bytes; an integer or a list of integers.
    pub fn find(path: &Path, metadata: &ParquetMetaData) -> Result<Self, DataError> {
        let schema = metadata.file_metadata().schema_descr();
        let columns = schema.columns();
        let name = |i: usize| columns[i].path().parts().first().map_or("", String::as_str);
        let bytes: Vec<usize> = (0..columns.len())
            .filter(|&i| columns[i].physical_type() == Type::BYTE_ARRAY)
            .filter(|&i| columns[i].max_rep_level() == 0)
            .collect();
        let nested = |i: &usize| {
            let parts = columns[*i].path().parts();
            parts.len() == 2 && parts[1] == "bytes"
        };
        let plain = |i: &usize| {
            let text = columns[*i].converted_type() == ConvertedType::UTF8;
            columns[*i].path().parts().len() == 1 && !text
        };
        let named = |i: &usize| plain(i) && IMAGE_NAMES.contains(&name(*i));
        let image = bytes
            .iter()
            .find(|i| nested(i))
            .or_else(|| bytes.iter().find(|i| named(i)))
            .or_else(|| bytes.iter().find(|i| plain(i)));
        let Some(&image) = image else {
            let names: Vec<String> = columns.iter().map(|c| c.path().string()).collect();
            let found = format!("columns {}", names.join(", "));
            return Err(DataError::format(path, "the schema", found, "an image column of bytes"));
        };
        let integer = |i: &usize| {
            let fits = matches!(columns[*i].physical_type(), Type::INT32 | Type::INT64);
            fits && columns[*i].max_rep_level() <= 1
        };
        let label =
            LABEL_NAMES.iter().find_map(|wanted| (0..columns.len()).filter(integer).find(|&i| name(i) == *wanted));
        Ok(Self { image, label })
    }
}

/// The values of one record: none, one, or several.
pub(super) type Record<T> = Vec<T>;

/// `rows` records from row `first` on of an image column.
pub(super) fn read_images(
    group: &dyn RowGroupReader,
    column: usize,
    first: usize,
    rows: usize,
) -> Result<Vec<Record<ByteArray>>, ParquetError> {
    match group.get_column_reader(column)? {
        ColumnReader::ByteArrayColumnReader(reader) => records(reader, group, column, first, rows),
        _ => Err(ParquetError::General("the image column is not bytes".into())),
    }
}

/// All records of a label column.
pub(super) fn read_labels(group: &dyn RowGroupReader, column: usize) -> Result<Vec<Record<i64>>, ParquetError> {
    let rows = usize::try_from(group.metadata().num_rows()).unwrap_or(0);
    match group.get_column_reader(column)? {
        ColumnReader::Int32ColumnReader(reader) => {
            let values = records(reader, group, column, 0, rows)?;
            let widen = |record: Vec<i32>| record.into_iter().map(i64::from).collect();
            Ok(values.into_iter().map(widen).collect())
        }
        ColumnReader::Int64ColumnReader(reader) => records(reader, group, column, 0, rows),
        _ => Err(ParquetError::General("the label column is not integer".into())),
    }
}

/// Assembles records from levels: a repetition level of 0 starts one, a full definition level brings a value.
fn records<T: DataType>(
    mut reader: ColumnReaderImpl<T>,
    group: &dyn RowGroupReader,
    column: usize,
    first: usize,
    rows: usize,
) -> Result<Vec<Record<T::T>>, ParquetError> {
    let descriptor = group.metadata().column(column).column_descr_ptr();
    let (mut definitions, mut repetitions) = (Vec::new(), Vec::new());
    let mut values = Vec::new();
    if reader.skip_records(first)? < first {
        return Ok(Vec::new());
    }
    let (_, _, levels) = reader.read_records(rows, Some(&mut definitions), Some(&mut repetitions), &mut values)?;
    let mut values = values.into_iter();
    let mut records: Vec<Record<T::T>> = Vec::new();
    for i in 0..levels {
        let starts = descriptor.max_rep_level() == 0 || repetitions.get(i) == Some(&0);
        if starts {
            records.push(Vec::new());
        }
        let present = descriptor.max_def_level() == 0 || definitions.get(i) == Some(&descriptor.max_def_level());
        if let (true, Some(record)) = (present, records.last_mut()) {
            record.extend(values.next());
        }
    }
    Ok(records)
}

/// Class names as hub datasets store them beside the schema.
pub(super) fn class_names(metadata: &ParquetMetaData, label: &str) -> Option<Vec<String>> {
    let pairs = metadata.file_metadata().key_value_metadata()?;
    let text = pairs.iter().find(|p| p.key == "huggingface")?.value.as_ref()?;
    let json: serde_json::Value = serde_json::from_str(text).ok()?;
    let feature = &json["info"]["features"][label];
    let names = feature["names"].as_array().or(feature["feature"]["names"].as_array())?;
    names.iter().map(|n| Some(n.as_str()?.to_owned())).collect()
}
