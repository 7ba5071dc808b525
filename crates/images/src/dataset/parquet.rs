use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;
use parquet::file::metadata::ParquetMetaData;
use parquet::file::reader::{FileReader, SerializedFileReader};

use super::bytes_at::{check_size, open_regular};
use super::classes::record_labels;
use super::parquet_columns::{Columns, class_names, read_images, read_labels};
use super::{ClassRule, DataError, Dataset, Layout, Payload, Sample};
use crate::Label;
use crate::guard::guarded;

/// Rows read together. Neighbours are usually wanted next, and share a page anyway.
const BLOCK_ROWS: usize = 16;
/// Blocks kept; readers of several threads work on neighbouring ones.
const BLOCKS: usize = 8;

/// One or many Parquet files with an image column: a struct of `bytes` and `path` as hubs write it, or plain bytes. The
/// label column is an integer, a list of integers, or absent.
pub struct Parquet {
    files: Vec<ParquetFile>,
    labels: Vec<Label>,
    rows: usize,
    classes: Vec<String>,
}

struct ParquetFile {
    path: PathBuf,
    columns: Columns,
    /// Rows of each row group.
    groups: Vec<usize>,
    rows: usize,
    /// The reader shares one file position, so one thread reads at a time.
    state: Mutex<State>,
}

struct State {
    reader: SerializedFileReader<File>,
    /// Recent blocks: row group, first row, pictures; the newest last.
    blocks: Vec<(usize, usize, Vec<Vec<ByteArray>>)>,
}

impl Parquet {
    /// Reads the schemas and the labels of `paths`, in order.
    pub fn open(paths: &[PathBuf], rule: &ClassRule) -> Result<Self, DataError> {
        let (mut files, mut labels) = (Vec::new(), Vec::new());
        let mut classes = rule.names();
        let mut rows = 0;
        for path in paths {
            let file = ParquetFile::open(path, rule, &mut labels, &mut classes)?;
            rows += file.rows;
            files.push(file);
        }
        if rows == 0 {
            let path = paths.first().cloned().unwrap_or_default();
            return Err(DataError::NoImages { path });
        }
        if !labels.is_empty() && labels.len() != rows {
            return Err(DataError::LabelCount { path: paths[0].clone(), labels: labels.len(), images: rows });
        }
        Ok(Self { files, labels, rows, classes })
    }

    fn place(&self, mut index: usize) -> (&ParquetFile, usize) {
        for file in &self.files {
            if index < file.rows {
                return (file, index);
            }
            index -= file.rows;
        }
        panic!("the index is below `len`");
    }
}

impl ParquetFile {
    fn open(
        path: &Path,
        rule: &ClassRule,
        labels: &mut Vec<Label>,
        classes: &mut Vec<String>,
    ) -> Result<Self, DataError> {
        let file = open_regular(path)?;
        let len = file.metadata().map_err(DataError::io(path))?.len();
        let reader = intact(path, || SerializedFileReader::new(file))?;
        let metadata = reader.metadata();
        let columns = Columns::find(path, metadata)?;
        let mut groups = Vec::new();
        for group in metadata.row_groups() {
            let rows = usize::try_from(group.num_rows())
                .map_err(|e| DataError::format(path, "a row group", e, "a row count"))?;
            check_chunk(path, metadata, groups.len(), columns.image, len)?;
            groups.push(rows);
        }
        if let Some(column) = columns.label {
            let name = metadata.file_metadata().schema_descr().column(column);
            let name = name.path().parts()[0].clone();
            if classes.is_empty() {
                *classes = class_names(metadata, &name).unwrap_or_default();
            }
            for group in 0..groups.len() {
                check_chunk(path, reader.metadata(), group, column, len)?;
                let read = || read_labels(&*reader.get_row_group(group)?, column);
                for record in intact(path, read)? {
                    labels.push(record_labels(path, &record, rule)?);
                }
            }
        }
        let rows = groups.iter().try_fold(0usize, |n, &rows| n.checked_add(rows));
        let rows = rows.ok_or_else(|| DataError::format(path, "the rows", "too many", "a count"))?;
        let state = State { reader, blocks: Vec::new() };
        Ok(Self { path: path.into(), columns, groups, rows, state: Mutex::new(state) })
    }

    fn picture(&self, mut row: usize) -> Result<Vec<u8>, DataError> {
        let mut group = 0;
        while row >= self.groups[group] {
            row -= self.groups[group];
            group += 1;
        }
        let (first, within) = (row / BLOCK_ROWS * BLOCK_ROWS, row % BLOCK_ROWS);
        // The reader seeks before it reads, so a position left by a panicking thread does no harm.
        let mut state = self.state.lock().unwrap_or_else(|e| e.into_inner());
        let known = state.blocks.iter().position(|b| (b.0, b.1) == (group, first));
        if known.is_none() {
            let pictures = intact(&self.path, || {
                let reader = state.reader.get_row_group(group)?;
                read_images(&*reader, self.columns.image, first, BLOCK_ROWS)
            })?;
            if state.blocks.len() == BLOCKS {
                state.blocks.remove(0);
            }
            state.blocks.push((group, first, pictures));
        }
        let block = &state.blocks[known.unwrap_or(state.blocks.len() - 1)];
        match block.2.get(within).map(Vec::as_slice) {
            Some([bytes]) => {
                check_size(&self.path, "one picture", bytes.len() as u64)?;
                Ok(bytes.data().to_vec())
            }
            Some(_) => Err(DataError::format(
                &self.path,
                format!("the picture of row {row} of group {group}"),
                "null",
                "bytes",
            )),
            None => Err(DataError::Truncated {
                path: self.path.clone(),
                what: format!("row group {group}"),
                declared: self.groups[group] as u64,
                found: (first + block.2.len()) as u64,
            }),
        }
    }
}

/// Runs a step of the Parquet library, which reports damage by errors and, for some forged metadata, by panics.
fn intact<T>(path: &Path, step: impl FnOnce() -> Result<T, ParquetError>) -> Result<T, DataError> {
    let expected = "intact pages, plain or packed with snappy, gzip, zstd or lz4";
    let failed = |found: String| DataError::format(path, "the Parquet data", found, expected);
    guarded(step).map_err(failed)?.map_err(|e| failed(e.to_string()))
}

/// Checks that a column of a row group lies within the file.
fn check_chunk(
    path: &Path,
    metadata: &ParquetMetaData,
    group: usize,
    column: usize,
    len: u64,
) -> Result<(), DataError> {
    let chunk = metadata.row_group(group).column(column);
    let start = chunk.dictionary_page_offset().unwrap_or(chunk.data_page_offset());
    let range = u64::try_from(start).ok().zip(u64::try_from(chunk.compressed_size()).ok());
    match range.and_then(|(start, size)| start.checked_add(size)) {
        Some(end) if end <= len => Ok(()),
        end => Err(DataError::Truncated {
            path: path.into(),
            what: format!("column {column} of row group {group}"),
            declared: end.unwrap_or(u64::MAX),
            found: len,
        }),
    }
}

impl Dataset for Parquet {
    fn layout(&self) -> Layout {
        Layout::Parquet
    }

    fn len(&self) -> usize {
        self.rows
    }

    fn classes(&self) -> &[String] {
        &self.classes
    }

    fn id(&self, index: usize) -> String {
        let (file, row) = self.place(index);
        let name = file.path.file_name().unwrap_or_default();
        format!("{}/{row}", name.to_string_lossy())
    }

    fn label(&self, index: usize) -> Result<Label, DataError> {
        Ok(self.labels.get(index).cloned().unwrap_or_default())
    }

    fn sample(&self, index: usize) -> Result<Sample, DataError> {
        let (file, row) = self.place(index);
        Ok(Sample {
            id: self.id(index),
            payload: Payload::Encoded(file.picture(row)?),
            label: self.labels.get(index).cloned().unwrap_or_default(),
        })
    }
}
