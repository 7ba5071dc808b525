use super::PredictionRow;
use super::error::EncodeError;
use super::writer::Encoder;
use parquet::basic::Compression;
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, FloatType, Int32Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use std::fs::File;
use std::sync::Arc;

/// The columns, in the order of [`COLUMNS`](super::row::COLUMNS).
const SCHEMA: &str = "message predictions {
    required binary id (UTF8);
    required int32 class (INTEGER(32, false));
    optional binary class_name (UTF8);
    required float confidence;
    required float entropy;
    optional boolean flipped;
}";
/// Rows of a row group: few enough to hold in memory, enough to compress.
const GROUP: usize = 1 << 16;

/// A Parquet file; rows are gathered into groups.
pub(super) struct ParquetRows {
    writer: SerializedFileWriter<File>,
    waiting: Vec<PredictionRow>,
}

impl ParquetRows {
    pub fn new(file: File) -> Result<Self, EncodeError> {
        let schema = Arc::new(parse_message_type(SCHEMA)?);
        let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
        Ok(Self { writer: SerializedFileWriter::new(file, schema, Arc::new(properties))?, waiting: Vec::new() })
    }

    fn write_group(&mut self) -> Result<(), EncodeError> {
        let rows = std::mem::take(&mut self.waiting);
        if rows.is_empty() {
            return Ok(());
        }
        let text = |text: &String| ByteArray::from(text.as_str());
        let mut group = self.writer.next_row_group()?;
        let ids: Vec<ByteArray> = rows.iter().map(|row| text(&row.id)).collect();
        column::<ByteArrayType>(&mut group, &ids, None)?;
        // Unsigned numbers are stored with the bits of signed ones.
        let classes: Vec<i32> = rows.iter().map(|row| row.class.cast_signed()).collect();
        column::<Int32Type>(&mut group, &classes, None)?;
        let names = rows.iter().map(|row| row.class_name.as_ref().map(text));
        optional::<ByteArrayType>(&mut group, names)?;
        let confidences: Vec<f32> = rows.iter().map(|row| row.confidence).collect();
        column::<FloatType>(&mut group, &confidences, None)?;
        let entropies: Vec<f32> = rows.iter().map(|row| row.entropy).collect();
        column::<FloatType>(&mut group, &entropies, None)?;
        optional::<BoolType>(&mut group, rows.iter().map(|row| row.flipped))?;
        group.close()?;
        Ok(())
    }
}

impl Encoder for ParquetRows {
    fn write(&mut self, rows: &[PredictionRow]) -> Result<(), EncodeError> {
        self.waiting.extend_from_slice(rows);
        if self.waiting.len() >= GROUP {
            self.write_group()?;
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<File, EncodeError> {
        self.write_group()?;
        Ok(self.writer.into_inner()?)
    }
}

/// Writes the next column: its values, and for each row 1 or 0 where it may be absent.
fn column<T: DataType>(
    group: &mut SerializedRowGroupWriter<'_, File>,
    values: &[T::T],
    present: Option<&[i16]>,
) -> Result<(), EncodeError> {
    let mut column = group.next_column()?.expect("the schema has as many columns as are written");
    column.typed::<T>().write_batch(values, present, None)?;
    column.close()?;
    Ok(())
}

fn optional<T: DataType>(
    group: &mut SerializedRowGroupWriter<'_, File>,
    values: impl Iterator<Item = Option<T::T>> + Clone,
) -> Result<(), EncodeError> {
    let present: Vec<i16> = values.clone().map(|v| i16::from(v.is_some())).collect();
    let values: Vec<T::T> = values.flatten().collect();
    column::<T>(group, &values, Some(&present))
}
