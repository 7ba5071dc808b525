use std::path::{Component, Path};

use super::DataError;
use super::bytes_at::FileAt;
use super::files::{Found, Listing, Packing, Place, is_image_name};

/// A file in an archive and where its bytes lie.
pub(super) struct PackedFile {
    pub path: String,
    pub offset: u64,
    /// Bytes it takes in the archive.
    pub stored: u64,
    pub packing: Packing,
}

/// What an archive holds, in its order.
pub(super) struct ArchiveIndex {
    pub files: Vec<PackedFile>,
    /// Every folder named, with or without files, without a trailing slash.
    pub folders: Vec<String>,
}

impl Listing {
    /// Adds the images of an archive. One folder around everything is looked through.
    pub fn add_archive(&mut self, file: FileAt, index: ArchiveIndex) {
        let archive = self.archives.len() as u32;
        let (images, others): (Vec<_>, Vec<_>) =
            index.files.into_iter().filter(|f| !is_hidden(&f.path)).partition(|f| is_image_name(last_part(&f.path)));
        others.iter().for_each(|other| self.ignored.note(&other.path));
        let outer = common_folder(&images);
        let named = index.folders.iter().filter(|f| !is_hidden(f)).filter_map(|f| f.strip_prefix(outer.as_str()));
        self.folders.extend(named.filter_map(|f| f.split('/').next().filter(|f| !f.is_empty())).map(str::to_owned));
        self.images.extend(images.into_iter().map(|file| Found {
            class_at: outer.len(),
            place: Place::Packed { archive, offset: file.offset, stored: file.stored, packing: file.packing },
            path: file.path,
        }));
        self.archives.push(file);
    }
}

/// Whether every image lies in a folder, and there is one.
pub(super) fn holds_class_folders(index: &ArchiveIndex) -> bool {
    let mut images = index.files.iter().filter(|f| !is_hidden(&f.path) && is_image_name(last_part(&f.path))).peekable();
    images.peek().is_some() && images.all(|f| f.path.contains('/'))
}

/// `root/` when every image lies at least two folders deep below the same one, otherwise nothing.
fn common_folder(images: &[PackedFile]) -> String {
    let first = images.first().and_then(|f| f.path.split('/').next()).unwrap_or_default();
    let prefix = format!("{first}/");
    let shared = |f: &PackedFile| f.path.strip_prefix(&prefix).is_some_and(|rest| rest.contains('/'));
    if images.iter().all(shared) { prefix } else { String::new() }
}

fn last_part(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Whether a part of the path starts with a dot, or the file is what macOS adds to archives.
fn is_hidden(path: &str) -> bool {
    path.split('/').any(|part| part.starts_with('.') || part == "__MACOSX")
}

/// The path of an entry of `archive` with `.` parts removed; an error when it is absolute or climbs.
pub(super) fn entry_path(archive: &Path, name: &str) -> Result<String, DataError> {
    let mut parts = Vec::new();
    for part in Path::new(name).components() {
        match part {
            Component::Normal(part) => parts.push(part.to_string_lossy()),
            Component::CurDir => {}
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => {
                return Err(bad_entry(archive, name, "leaves the archive"));
            }
        }
    }
    Ok(parts.join("/"))
}

pub(super) fn bad_entry(archive: &Path, entry: &str, problem: &'static str) -> DataError {
    DataError::BadEntry { path: archive.into(), entry: entry.into(), problem }
}

/// Checks that an entry lies within its archive.
pub(super) fn check_within(file: &FileAt, entry: &str, offset: u64, len: u64) -> Result<(), DataError> {
    let (declared, found) = (offset.saturating_add(len), file.len());
    if declared > found {
        let what = format!("entry `{entry}`");
        return Err(DataError::Truncated { path: file.path().into(), what, declared, found });
    }
    Ok(())
}
