use super::{MAX_BYTES, Table};
use crate::dataset::{DataError, FileAt, Kind, NpyHeader, names_in, open_zip, unpack_array};
use flipcast_ground::write_whole_with;
use std::io::{BufWriter, Read, Write};
use std::path::Path;

/// Bytes that are turned into numbers at a time.
const STEP: usize = 1 << 20;

/// Reads an array of floating-point numbers in rows.
pub(super) fn read_logits(reader: impl Read, path: &Path) -> Result<Table, DataError> {
    let (header, mut values) = open(reader, path)?;
    let &[rows, columns] = header.shape.as_slice() else {
        let found = format!("{:?}", header.shape);
        return Err(DataError::format(path, "the shape of the logits", found, "[images, classes]"));
    };
    let element = header.element;
    if element.kind != Kind::Float {
        return Err(DataError::format(path, "the type of the logits", element, "float32, float64 or float16"));
    }
    let mut numbers = Vec::new();
    read_values(&mut values, path, rows.checked_mul(columns), element.size, |bytes| {
        numbers.push(element.number(bytes));
    })?;
    if header.is_fortran && rows > 0 {
        let by_column = numbers;
        numbers = Vec::with_capacity(by_column.len());
        for row in 0..rows {
            numbers.extend((0..columns).map(|column| by_column[column * rows + row]));
        }
    }
    Ok(Table { values: numbers, columns })
}

/// Reads an array of integers, `[n]` or `[n, 1]`.
pub(super) fn read_integers(reader: impl Read, path: &Path) -> Result<Vec<i64>, DataError> {
    let (header, mut values) = open(reader, path)?;
    let (&[rows] | &[rows, 1]) = header.shape.as_slice() else {
        return Err(DataError::format(path, "the shape of the labels", format!("{:?}", header.shape), "[images]"));
    };
    let element = header.element;
    if element.kind == Kind::Float {
        return Err(DataError::format(path, "the type of the labels", element, "integers"));
    }
    let mut labels = Vec::new();
    read_values(&mut values, path, Some(rows), element.size, |bytes| labels.push(element.value(bytes)))?;
    Ok(labels)
}

/// The header, and a reader of what follows it.
fn open(mut reader: impl Read, path: &Path) -> Result<(NpyHeader, impl Read), DataError> {
    let mut start = Vec::new();
    (&mut reader).take(NpyHeader::MAX_LEN as u64).read_to_end(&mut start).map_err(DataError::io(path))?;
    let header = NpyHeader::read(path, &start)?;
    let rest = start.split_off(header.offset);
    Ok((header, std::io::Cursor::new(rest).chain(reader)))
}

/// Gives the bytes of each of `count` numbers of `size` bytes to `take`.
fn read_values(
    reader: &mut impl Read,
    path: &Path,
    count: Option<usize>,
    size: usize,
    mut take: impl FnMut(&[u8]),
) -> Result<(), DataError> {
    let declared = count.and_then(|count| (count as u64).checked_mul(size as u64)).unwrap_or(u64::MAX);
    if declared > MAX_BYTES {
        return Err(DataError::TooLarge { path: path.into(), what: "the array".into(), declared, limit: MAX_BYTES });
    }
    let mut left = declared;
    let mut buffer = Vec::new();
    while left > 0 {
        buffer.clear();
        let step = left.min(STEP as u64);
        reader.take(step).read_to_end(&mut buffer).map_err(DataError::io(path))?;
        if (buffer.len() as u64) < step {
            let found = declared - left + buffer.len() as u64;
            return Err(DataError::Truncated { path: path.into(), what: "the array".into(), declared, found });
        }
        buffer.chunks_exact(size).for_each(&mut take);
        left -= step;
    }
    Ok(())
}

/// The array of an `.npz` archive with one of these `names`, or its only one.
pub(super) fn unpack(path: &Path, names: &[&str]) -> Result<Vec<u8>, DataError> {
    let mut archive = open_zip(&FileAt::open(path)?)?;
    let found = names_in(&archive);
    let known = names.iter().map(|name| format!("{name}.npy")).find(|name| found.contains(name));
    let chosen = match (known, found.as_slice()) {
        (Some(name), _) => name,
        (None, [only]) => only.clone(),
        _ => {
            let (found, expected) = (format!("arrays {}", found.join(", ")), format!("an array called `{}`", names[0]));
            return Err(DataError::format(path, "the content", found, expected));
        }
    };
    unpack_array(&mut archive, path, &chosen)
}

/// Writes rows of `columns` numbers as an `.npy` array of single precision. The file appears whole or not at all.
///
/// # Errors
/// When it cannot be written.
pub fn write_npy(path: &Path, values: &[f32], columns: usize) -> Result<(), DataError> {
    let rows = values.len() / columns.max(1);
    let text = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({rows}, {columns}), }}");
    // Values begin at a multiple of 64, the header ends with a line feed.
    let len = (10 + text.len() + 1).next_multiple_of(64) - 10;
    let header = format!("{text:<width$}\n", width = len - 1);
    let write = |file: &mut std::fs::File| {
        let mut file = BufWriter::new(file);
        file.write_all(b"\x93NUMPY\x01\0")?;
        file.write_all(&(len as u16).to_le_bytes())?;
        file.write_all(header.as_bytes())?;
        for value in values {
            file.write_all(&value.to_le_bytes())?;
        }
        file.flush()
    };
    write_whole_with(path, write).map_err(DataError::write(path))
}
