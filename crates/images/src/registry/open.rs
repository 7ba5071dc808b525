use std::path::{Path, PathBuf};

use flipcast_ground::nearest_quoted;

use super::{Count, DATASETS, DatasetInfo, Splits};
use crate::dataset::{ClassRule, DataError, Dataset, OpenOptions, Severity, open_with};
use crate::labelspace::builtin;

/// Whether another number of images than published is accepted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CountRule {
    /// No: an incomplete copy gives other results.
    #[default]
    Published,
    /// Yes.
    Any,
}

/// An opened split of a known dataset.
pub struct Named {
    /// What is known about the dataset.
    pub info: DatasetInfo,
    /// The split, empty when there is only one.
    pub split: String,
    /// Its samples.
    pub dataset: Box<dyn Dataset>,
}

/// The dataset called `name`.
pub fn find(name: &str) -> Result<DatasetInfo, DataError> {
    let known = DATASETS.into_iter().find(|d| d.name == name);
    known.ok_or_else(|| DataError::UnknownDataset {
        name: name.into(),
        nearest: nearest_quoted(name, DATASETS.iter().map(|d| d.name)),
    })
}

/// Opens `split` of the dataset called `name` below `root`.
pub fn open_named(name: &str, root: &Path, split: &str, count: CountRule) -> Result<Named, DataError> {
    let info = find(name)?;
    let names = info.splits.names();
    if !names.iter().any(|n| n == split) {
        return Err(DataError::UnknownSplit {
            dataset: info.name,
            split: split.into(),
            nearest: nearest_quoted(split, names.iter().map(String::as_str)),
        });
    }
    let mut options = OpenOptions::default();
    if !info.class_space.is_empty() {
        let space = builtin(info.class_space).map_err(DataError::label(root))?;
        options.classes = ClassRule::Space(space);
    }
    if let Count::First(images) = info.images {
        options.limit = Some(images);
    }
    let path = match severity_array(&info, root, split) {
        Some((array, severity)) => {
            options.severity = severity;
            array
        }
        None => place(&info, root, split)?,
    };
    let dataset = open_with(&path.to_string_lossy(), &options)?;
    let found = dataset.len();
    let expected = match info.images {
        Count::Exactly(expected) | Count::First(expected) => Some(expected),
        Count::Reported(_) | Count::Unknown => None,
    };
    match expected {
        Some(expected) if expected != found && count == CountRule::Published => {
            Err(DataError::ImageCount { dataset: info.name, split: split.into(), found, expected })
        }
        _ => Ok(Named { info, split: split.into(), dataset }),
    }
}

/// `<corruption>.npy` and its severity, where the dataset is stored so.
fn severity_array(info: &DatasetInfo, root: &Path, split: &str) -> Option<(PathBuf, Severity)> {
    if !matches!(info.splits, Splits::Severities(_)) {
        return None;
    }
    let (corruption, severity) = split.split_once('/')?;
    let array = root.join(format!("{corruption}.npy"));
    let severity = Severity::Only(severity.parse().ok()?);
    array.is_file().then_some((array, severity))
}

/// The first of the dataset's places that exists.
fn place(info: &DatasetInfo, root: &Path, split: &str) -> Result<PathBuf, DataError> {
    let candidates = info.places.iter().map(|p| match p.replace("{split}", split).as_str() {
        "" => root.to_path_buf(),
        below => root.join(below),
    });
    let mut candidates: Vec<PathBuf> = candidates.collect();
    candidates.extend(numbered_folder(info, root, split));
    let first = candidates[0].clone();
    let found = candidates.into_iter().find(|p| p.exists());
    found.ok_or_else(|| DataError::io(&first)(std::io::ErrorKind::NotFound.into()))
}

/// C-bar calls its severity folders by the generator's number (`sparkles/3.00`): the n-th smallest is severity n.
fn numbered_folder(info: &DatasetInfo, root: &Path, split: &str) -> Option<PathBuf> {
    if !matches!(info.splits, Splits::Severities(_)) {
        return None;
    }
    let (corruption, severity) = split.split_once('/')?;
    let severity: usize = severity.parse().ok()?;
    let entries = std::fs::read_dir(root.join(corruption)).ok()?;
    let mut folders: Vec<(f64, PathBuf)> = entries
        .filter_map(|entry| {
            let path = entry.ok()?.path();
            let number: f64 = path.file_name()?.to_str()?.parse().ok()?;
            (path.is_dir() && number.is_finite()).then_some((number, path))
        })
        .collect();
    folders.sort_by(|a, b| a.0.total_cmp(&b.0));
    (folders.len() == 5).then(|| folders.swap_remove(severity.clamp(1, 5) - 1).1)
}
