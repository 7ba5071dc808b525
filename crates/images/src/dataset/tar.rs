use std::collections::BTreeSet;
use std::path::Path;

use super::bytes_at::FileAt;
use super::classes::ClassTable;
use super::folder::is_image_name;
use super::tar_index::{TarFile, TarIndex};
use super::{ClassRule, DataError, Dataset, Layout, Payload, Sample};
use crate::Label;

/// A tar archive of class folders, or of images without labels. One folder around everything is looked through.
pub struct Tar {
    file: FileAt,
    /// File and label in archive order.
    entries: Vec<(TarFile, Label)>,
    classes: Vec<String>,
}

impl Tar {
    /// Indexes the archive.
    pub fn open(path: &Path, rule: &ClassRule) -> Result<Self, DataError> {
        Self::from_index(path, TarIndex::read(path)?, rule)
    }

    pub(super) fn from_index(path: &Path, index: TarIndex, rule: &ClassRule) -> Result<Self, DataError> {
        let mut images = index.files;
        images.retain(|f| is_image_name(f.path.rsplit('/').next().unwrap_or_default()));
        if images.is_empty() {
            return Err(DataError::NoImages { path: path.into() });
        }
        let prefix = common_folder(&images);
        let class_of = |p: &str| -> Option<String> {
            let (class, _) = p[prefix.len()..].split_once('/')?;
            Some(class.to_owned())
        };
        let loose = images.iter().filter(|f| class_of(&f.path).is_none()).count();
        if loose > 0 && loose < images.len() {
            return Err(DataError::MixedFolder { path: path.into(), loose, folders: images.len() - loose });
        }
        // Folders without images keep their place among the classes.
        let named = index.folders.iter().filter_map(|f| f.strip_prefix(prefix.as_str()));
        let mut folders: BTreeSet<String> =
            named.filter_map(|f| f.split('/').next().filter(|f| !f.is_empty())).map(str::to_owned).collect();
        folders.extend(images.iter().filter_map(|f| class_of(&f.path)));
        let table = ClassTable::build(path, &folders, rule)?;
        let label = |f: &TarFile| match class_of(&f.path) {
            Some(class) => table.label(&class),
            None => Some(Label::Unknown),
        };
        let entries = images.into_iter().filter_map(|f| label(&f).map(|l| (f, l)));
        let entries: Vec<_> = entries.collect();
        Ok(Self {
            file: FileAt::open(path)?,
            classes: if loose > 0 { Vec::new() } else { table.into_names() },
            entries,
        })
    }
}

/// `root/` when every image lies at least two folders deep below the same one, otherwise nothing.
fn common_folder(images: &[TarFile]) -> String {
    let first = images[0].path.split('/').next().unwrap_or_default();
    let prefix = format!("{first}/");
    let shared = |f: &TarFile| f.path.strip_prefix(&prefix).is_some_and(|rest| rest.contains('/'));
    if images.iter().all(shared) { prefix } else { String::new() }
}

impl Dataset for Tar {
    fn layout(&self) -> Layout {
        Layout::Tar
    }

    fn len(&self) -> usize {
        self.entries.len()
    }

    fn classes(&self) -> &[String] {
        &self.classes
    }

    fn id(&self, index: usize) -> String {
        self.entries[index].0.path.clone()
    }

    fn label(&self, index: usize) -> Result<Label, DataError> {
        Ok(self.entries[index].1.clone())
    }

    fn sample(&self, index: usize) -> Result<Sample, DataError> {
        let (entry, label) = &self.entries[index];
        Ok(Sample {
            id: entry.path.clone(),
            payload: Payload::Encoded(self.file.read(entry.offset, entry.len, &entry.path)?),
            label: label.clone(),
        })
    }
}
