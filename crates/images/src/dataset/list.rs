use std::collections::BTreeSet;
use std::path::Path;

use super::classes::{ClassTable, record_labels};
use super::files::{ImageFiles, Place, StoredImage};
use super::{ClassRule, DataError};
use crate::Label;

/// First cells that mark a header line.
const HEADERS: [&str; 6] = ["path", "file", "filename", "file_name", "image", "image_path"];

/// Reads `text`, the list called `path`: CSV or TSV with an image's path and perhaps a label in each line. Paths are relative
/// to `root`. Labels are numbers, several numbers joined by `;`, or class names; names are ranked unless a class list or
/// class space is given.
pub(super) fn open_list(path: &Path, root: &Path, text: &str, rule: &ClassRule) -> Result<ImageFiles, DataError> {
    let first = text.lines().next().unwrap_or_default();
    let delimiter = if first.contains('\t') { b'\t' } else { b',' };
    let mut reader = csv::ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .trim(csv::Trim::All)
        .delimiter(delimiter)
        .from_reader(text.as_bytes());
    let mut rows: Vec<(String, String)> = Vec::new();
    for (line, record) in reader.records().enumerate() {
        let record = record.map_err(|e| DataError::format(path, "a line", e, "delimited text"))?;
        let cell = |i: usize| record.get(i).unwrap_or_default().to_owned();
        let header = HEADERS.contains(&cell(0).to_ascii_lowercase().as_str());
        if !(cell(0).is_empty() || line == 0 && header) {
            rows.push((cell(0), cell(1)));
        }
    }
    if rows.is_empty() {
        return Err(DataError::NoImages { path: path.into() });
    }
    let (labels, classes) = labels_of(path, &rows, rule)?;
    let image = |((id, _), label): ((String, String), Label)| StoredImage { id, place: Place::ById, label };
    Ok(ImageFiles::listed(root.into(), rows.into_iter().zip(labels).map(image).collect(), classes))
}

/// Numbers if every stated label is one, otherwise class names.
fn labels_of(path: &Path, rows: &[(String, String)], rule: &ClassRule) -> Result<(Vec<Label>, Vec<String>), DataError> {
    let numbers = |cell: &str| -> Option<Vec<i64>> { cell.split(';').map(|n| n.trim().parse().ok()).collect() };
    let stated = || rows.iter().map(|(_, cell)| cell).filter(|c| !c.is_empty());
    if stated().all(|cell| numbers(cell).is_some()) {
        let label = |(_, cell): &(String, String)| record_labels(path, &numbers(cell).unwrap_or_default(), rule);
        let labels: Result<Vec<Label>, DataError> = rows.iter().map(label).collect();
        return Ok((labels?, rule.names()));
    }
    let folders: BTreeSet<String> = stated().cloned().collect();
    let table = ClassTable::build(path, &folders, rule)?;
    let labels = rows.iter().map(|(_, c)| table.label(c).unwrap_or_default());
    Ok((labels.collect(), table.into_names()))
}
