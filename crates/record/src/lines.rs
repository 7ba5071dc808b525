//! Bytes of a record file to records.

use crate::{FORMAT, RecordError, RunRecord, checksum};
use flate2::read::MultiGzDecoder;
use serde::Deserialize;
use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Longest file that is read.
const MAX_FILE: u64 = 1 << 30;
/// Longest line that is read.
const MAX_LINE: usize = 16 << 20;
/// How every record begins, whatever its format.
const START: &[u8] = br#"{"format":"#;
/// Bytes of a foreign file that are shown.
const SHOWN: usize = 24;

/// What a record file holds.
#[derive(Debug, Default)]
pub(crate) struct Contents {
    pub records: Vec<RunRecord>,
    /// Bytes up to the end of the last whole record; what follows was cut off.
    pub whole: u64,
    /// Whether the last whole record lacks its line break.
    pub open_ended: bool,
}

/// The one field every format has.
#[derive(Deserialize)]
struct Versioned {
    format: u64,
}

/// Reads what `file` holds now; a record that is cut off at the end is left out.
pub(crate) fn read_records(path: &Path, file: &mut File) -> Result<Contents, RecordError> {
    let read_error = |source| RecordError::Read { path: path.to_owned(), source };
    let length = file.metadata().map_err(read_error)?.len();
    check_length(path, length)?;
    // The length bounds the read: a device may give bytes forever.
    let mut bytes = Vec::new();
    file.take(length).read_to_end(&mut bytes).map_err(read_error)?;
    parse(path, &bytes)
}

/// Whether the file at `path` is packed by gzip, as its name says.
pub(crate) fn is_packed(path: &Path) -> bool {
    path.extension() == Some(OsStr::new("gz"))
}

/// Reads a file that was packed by gzip once it was complete.
pub(crate) fn read_packed_records(path: &Path, file: File) -> Result<Contents, RecordError> {
    let read_error = |source| RecordError::Read { path: path.to_owned(), source };
    let mut bytes = Vec::new();
    MultiGzDecoder::new(file).take(MAX_FILE + 1).read_to_end(&mut bytes).map_err(read_error)?;
    check_length(path, bytes.len() as u64)?;
    parse(path, &bytes)
}

fn check_length(path: &Path, found: u64) -> Result<(), RecordError> {
    if found <= MAX_FILE {
        return Ok(());
    }
    Err(RecordError::TooLong { path: path.to_owned(), what: "the whole".to_owned(), found, limit: MAX_FILE })
}

fn parse(path: &Path, bytes: &[u8]) -> Result<Contents, RecordError> {
    let mut contents = Contents::default();
    for (number, line) in bytes.split_inclusive(|&byte| byte == b'\n').enumerate() {
        let number = number + 1;
        let ended = line.last() == Some(&b'\n');
        let text = line.strip_suffix(b"\n").unwrap_or(line);
        match read_line(path, number, text) {
            Ok(record) => contents.records.push(record),
            // Only the last line can lack its end.
            Err(RecordError::Malformed { .. } | RecordError::TooLong { .. }) if !ended && is_torn(number, text) => {
                refuse_newer(path, number, cut_off_format(text))?;
                break;
            }
            Err(RecordError::Malformed { .. } | RecordError::TooLong { .. })
                if number == 1 && !text.starts_with(START) =>
            {
                return Err(RecordError::NoRecords { path: path.to_owned(), found: beginning(text) });
            }
            Err(error) => return Err(error),
        }
        contents.whole += line.len() as u64;
        contents.open_ended = !ended;
    }
    Ok(contents)
}

fn read_line(path: &Path, number: usize, text: &[u8]) -> Result<RunRecord, RecordError> {
    if text.len() > MAX_LINE {
        return Err(RecordError::TooLong {
            path: path.to_owned(),
            what: format!("line {number}"),
            found: text.len() as u64,
            limit: MAX_LINE as u64,
        });
    }
    let malformed = |source| RecordError::Malformed { path: path.to_owned(), line: number, source };
    // The version comes first: a newer layout need not parse as this one.
    let versioned: Versioned = serde_json::from_slice(text).map_err(malformed)?;
    refuse_newer(path, number, Some(versioned.format))?;
    let record: RunRecord = serde_json::from_slice(text).map_err(malformed)?;
    let expected = record.protocol.key();
    if record.key != expected {
        return Err(RecordError::OtherKey { path: path.to_owned(), line: number, found: record.key, expected });
    }
    // Format 1 had no checksum.
    if record.format > 1 || record.check.is_some() {
        let expected = checksum(&serde_json::from_slice(text).map_err(malformed)?);
        if record.check.as_deref() != Some(&expected) {
            let found = record.check.unwrap_or_else(|| "none".to_owned());
            return Err(RecordError::Changed { path: path.to_owned(), line: number, found, expected });
        }
    }
    Ok(record)
}

/// Whether a last line without its end is what a run that was stopped left of a record. Anything else belongs to somebody else, and is not ours to cut.
fn is_torn(number: usize, text: &[u8]) -> bool {
    // Where the power failed, the length of a record may be on disk before its bytes.
    let zeros = || number > 1 && text.iter().all(|&byte| byte == 0);
    text.starts_with(START) || START.starts_with(text) || zeros()
}

/// The first bytes of a line that is no record, to be shown.
fn beginning(text: &[u8]) -> String {
    let shown = String::from_utf8_lossy(&text[..text.len().min(SHOWN)]);
    shown.escape_debug().to_string()
}

fn refuse_newer(path: &Path, line: usize, format: Option<u64>) -> Result<(), RecordError> {
    match format {
        Some(found) if found > u64::from(FORMAT) => {
            Err(RecordError::Newer { path: path.to_owned(), line, found, known: FORMAT })
        }
        _ => Ok(()),
    }
}

/// The format of a record that was cut off, if that much is there.
fn cut_off_format(text: &[u8]) -> Option<u64> {
    let rest = text.strip_prefix(START)?;
    let end = rest.iter().position(|&byte| byte == b',')?;
    std::str::from_utf8(&rest[..end]).ok()?.trim().parse().ok()
}
