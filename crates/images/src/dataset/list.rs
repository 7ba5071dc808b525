use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::bytes_at::{read_file, read_text};
use super::classes::{ClassTable, record_label};
use super::{ClassRule, DataError, Dataset, Layout, Payload, Sample};
use crate::Label;

/// First cells that mark a header line.
const HEADERS: [&str; 6] = ["path", "file", "filename", "file_name", "image", "image_path"];

/// A CSV or TSV file with a path and perhaps a label in each line. Paths are relative to the list. Labels are numbers,
/// several numbers joined by `;`, or class names; names are ranked unless a class list or class space is given.
pub struct List {
    root: PathBuf,
    entries: Vec<(String, Label)>,
    classes: Vec<String>,
}

impl List {
    /// Reads the list, not the images.
    pub fn open(path: &Path, rule: &ClassRule) -> Result<Self, DataError> {
        let text = read_text(path)?;
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
        Ok(Self {
            root: path.parent().unwrap_or(Path::new("")).into(),
            entries: rows.into_iter().map(|(p, _)| p).zip(labels).collect(),
            classes,
        })
    }
}

impl Dataset for List {
    fn layout(&self) -> Layout {
        Layout::List
    }

    fn len(&self) -> usize {
        self.entries.len()
    }

    fn classes(&self) -> &[String] {
        &self.classes
    }

    fn id(&self, index: usize) -> String {
        self.entries[index].0.clone()
    }

    fn label(&self, index: usize) -> Result<Label, DataError> {
        Ok(self.entries[index].1.clone())
    }

    fn sample(&self, index: usize) -> Result<Sample, DataError> {
        let (path, label) = &self.entries[index];
        Ok(Sample {
            id: path.clone(),
            payload: Payload::Encoded(read_file(&self.root.join(path))?),
            label: label.clone(),
        })
    }
}

/// Numbers if every stated label is one, otherwise class names.
fn labels_of(path: &Path, rows: &[(String, String)], rule: &ClassRule) -> Result<(Vec<Label>, Vec<String>), DataError> {
    let numbers = |cell: &str| -> Option<Vec<i64>> { cell.split(';').map(|n| n.trim().parse().ok()).collect() };
    let stated = || rows.iter().map(|(_, cell)| cell).filter(|c| !c.is_empty());
    if stated().all(|cell| numbers(cell).is_some()) {
        let label = |cell: &String| match numbers(cell).as_deref() {
            None => Ok(Label::Unknown),
            Some([one]) => record_label(path, *one, rule),
            Some(many) => {
                let classes = many.iter().map(|&n| record_label(path, n, rule));
                let classes: Result<Vec<Label>, DataError> = classes.collect();
                Ok(Label::AnyOf(classes?.iter().filter_map(Label::class).collect()))
            }
        };
        let labels: Result<Vec<Label>, DataError> = rows.iter().map(|(_, c)| label(c)).collect();
        let names = match rule {
            ClassRule::Names(names) => names.clone(),
            ClassRule::Space(space) => space.class_names(),
            ClassRule::Auto | ClassRule::Unlabelled => Vec::new(),
        };
        return Ok((labels?, names));
    }
    let folders: BTreeSet<String> = stated().cloned().collect();
    let table = ClassTable::build(path, &folders, rule)?;
    let labels = rows.iter().map(|(_, c)| table.label(c).unwrap_or_default());
    Ok((labels.collect(), table.into_names()))
}
