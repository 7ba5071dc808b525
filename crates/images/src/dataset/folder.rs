use std::collections::BTreeSet;
use std::fs::DirEntry;
use std::path::{Path, PathBuf};

use super::bytes_at::read_file;
use super::classes::ClassTable;
use super::{ClassRule, DataError, Dataset, Layout, Payload, Sample};
use crate::Label;

/// Deepest nesting that is followed, so that a link to a parent folder ends.
const MAX_DEPTH: usize = 16;
/// File name endings that count as images; the content decides what they really are.
const ENDINGS: [&str; 10] = ["jpg", "jpeg", "png", "webp", "bmp", "gif", "ppm", "pgm", "tif", "tiff"];

/// Whether a file of this name is listed as an image.
pub(super) fn is_image_name(name: &str) -> bool {
    let ending = name.rsplit_once('.').map(|(_, e)| e.to_ascii_lowercase());
    !name.starts_with('.') && ending.is_some_and(|e| ENDINGS.contains(&e.as_str()))
}

/// A folder of class folders, or of images without labels.
pub struct Folder {
    root: PathBuf,
    layout: Layout,
    /// Path below the root and label, ordered by label and then by path.
    entries: Vec<(String, Label)>,
    classes: Vec<String>,
}

impl Folder {
    /// Lists the images below `root`.
    pub fn open(root: &Path, rule: &ClassRule) -> Result<Self, DataError> {
        let mut loose = Vec::new();
        let mut folders = BTreeSet::new();
        let mut nested = Vec::new();
        for entry in read_dir(root)? {
            let (name, path) = (name_of(&entry), entry.path());
            if name.starts_with('.') {
                continue;
            }
            if path.is_dir() {
                let mut images = Vec::new();
                list_images(&path, &name, 1, &mut images)?;
                folders.insert(name.clone());
                nested.push((name, images));
            } else if is_image_name(&name) {
                loose.push(name);
            }
        }
        nested.retain(|(_, images)| !images.is_empty());
        if !loose.is_empty() && !nested.is_empty() {
            return Err(DataError::MixedFolder { path: root.into(), loose: loose.len(), folders: nested.len() });
        }
        if nested.is_empty() {
            return Self::flat(root, loose);
        }
        check_one_split(root, &nested)?;
        let table = ClassTable::build(root, &folders, rule)?;
        let mut entries = Vec::new();
        for (folder, images) in nested {
            if let Some(label) = table.label(&folder) {
                entries.extend(images.into_iter().map(|path| (path, label.clone())));
            }
        }
        entries.sort_by(|a, b| (a.1.class(), &a.0).cmp(&(b.1.class(), &b.0)));
        Ok(Self { root: root.into(), layout: Layout::ClassFolders, entries, classes: table.into_names() })
    }

    fn flat(root: &Path, mut names: Vec<String>) -> Result<Self, DataError> {
        if names.is_empty() {
            return Err(DataError::NoImages { path: root.into() });
        }
        names.sort();
        Ok(Self {
            root: root.into(),
            layout: Layout::FlatFolder,
            entries: names.into_iter().map(|n| (n, Label::Unknown)).collect(),
            classes: Vec::new(),
        })
    }
}

impl Dataset for Folder {
    fn layout(&self) -> Layout {
        self.layout
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

pub(super) fn read_dir(path: &Path) -> Result<Vec<DirEntry>, DataError> {
    let entries = std::fs::read_dir(path).and_then(Iterator::collect);
    entries.map_err(DataError::io(path))
}

pub(super) fn name_of(entry: &DirEntry) -> String {
    entry.file_name().to_string_lossy().into_owned()
}

fn list_images(folder: &Path, prefix: &str, depth: usize, images: &mut Vec<String>) -> Result<(), DataError> {
    for entry in read_dir(folder)? {
        let (name, path) = (name_of(&entry), entry.path());
        if name.starts_with('.') {
            continue;
        }
        let below = format!("{prefix}/{name}");
        if path.is_dir() {
            if depth < MAX_DEPTH {
                list_images(&path, &below, depth + 1, images)?;
            }
        } else if is_image_name(&name) {
            images.push(below);
        }
    }
    Ok(())
}

/// Folders that hold several folders of images and no images themselves are splits, not classes.
fn check_one_split(root: &Path, nested: &[(String, Vec<String>)]) -> Result<(), DataError> {
    let is_split = |images: &[String]| {
        let second: BTreeSet<&str> = images.iter().filter_map(|p| p.split('/').nth(1)).collect();
        let direct = images.iter().any(|p| p.matches('/').count() == 1);
        !direct && second.len() > 1
    };
    if nested.iter().all(|(_, images)| is_split(images)) {
        let names: Vec<&str> = nested.iter().take(5).map(|(n, _)| n.as_str()).collect();
        let more = if nested.len() > names.len() { ", ..." } else { "" };
        return Err(DataError::SeveralSplits { path: root.into(), splits: format!("{}{more}", names.join(", ")) });
    }
    Ok(())
}
