use std::collections::{BTreeMap, BTreeSet};
use std::fs::DirEntry;
use std::path::{Path, PathBuf};

use super::files::{Found, ImageFiles, Listing, Place, is_image_name};
use super::objects::Objects;
use super::{Address, ClassRule, DataError, Layout};
use crate::registry::is_corruption;

/// Deepest nesting that is followed.
const MAX_DEPTH: usize = 16;

/// Lists the images below `root`: class folders, or images without labels.
pub(super) fn open_images(root: &Path, rule: &ClassRule) -> Result<ImageFiles, DataError> {
    let mut listing = Listing::default();
    let mut parents = vec![root.canonicalize().map_err(DataError::io(root))?];
    list(root, "", true, &mut parents, &mut listing)?;
    by_folders(root, listing, rule)
}

/// The images of an object store: below `address`, as if it were a folder.
pub(super) fn open_objects(address: &Address, rule: &ClassRule) -> Result<ImageFiles, DataError> {
    let objects = Objects::open(address)?;
    let listing = objects.list()?;
    Ok(by_folders(Path::new(address.text.trim_end_matches('/')), listing, rule)?.in_store(objects))
}

pub(super) fn by_folders(root: &Path, listing: Listing, rule: &ClassRule) -> Result<ImageFiles, DataError> {
    check_one_split(root, &listing)?;
    let flat = listing.images.iter().all(|image| image.class().is_none());
    let layout = if flat { Layout::FlatFolder } else { Layout::ClassFolders };
    Ok(ImageFiles::by_class(root, layout, listing, rule)?.sorted())
}

pub(super) fn read_dir(path: &Path) -> Result<Vec<DirEntry>, DataError> {
    let entries: std::io::Result<Vec<DirEntry>> = std::fs::read_dir(path).and_then(Iterator::collect);
    let mut entries = entries.map_err(DataError::io(path))?;
    entries.sort_by_key(DirEntry::file_name);
    Ok(entries)
}

pub(super) fn name_of(entry: &DirEntry) -> String {
    entry.file_name().to_string_lossy().into_owned()
}

/// Adds what lies in `folder`. `parents` are the folders it lies in, links resolved, itself last; `exact` says whether
/// `prefix`, its path below the root, has lost nothing to UTF-8.
fn list(
    folder: &Path,
    prefix: &str,
    exact: bool,
    parents: &mut Vec<PathBuf>,
    listing: &mut Listing,
) -> Result<(), DataError> {
    for entry in read_dir(folder)? {
        let (name, path) = (name_of(&entry), entry.path());
        if name.starts_with('.') {
            continue;
        }
        let exact = exact && entry.file_name().to_str().is_some();
        let below = format!("{prefix}{name}");
        let own_kind = entry.file_type().map_err(DataError::io(&path))?;
        // A link is what it points at; a broken one keeps its name and fails when it is read.
        let kind = match own_kind.is_symlink() {
            true => std::fs::metadata(&path).ok().map(|found| found.file_type()),
            false => Some(own_kind),
        };
        if kind.is_some_and(|kind| kind.is_dir()) {
            let resolved = path.canonicalize().map_err(DataError::io(&path))?;
            // A link to a parent would be followed for ever.
            if parents.contains(&resolved) || parents.len() > MAX_DEPTH {
                listing.ignored.note(&below);
                continue;
            }
            if prefix.is_empty() {
                listing.folders.insert(name);
            }
            parents.push(resolved);
            list(&path, &format!("{below}/"), exact, parents, listing)?;
            parents.pop();
        } else if is_image_name(&name) && kind.is_none_or(|kind| kind.is_file()) {
            let place = if exact { Place::ById } else { Place::File(path) };
            listing.images.push(Found { path: below, class_at: 0, place });
        } else {
            listing.ignored.note(&below);
        }
    }
    Ok(())
}

/// Folders that hold several folders of images and no images themselves are splits, not classes; and so are the severities
/// of a corruption, however many there are.
fn check_one_split(root: &Path, listing: &Listing) -> Result<(), DataError> {
    let mut folders: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for image in &listing.images {
        match image.path.split_once('/') {
            Some((folder, rest)) => folders.entry(folder).or_default().push(rest),
            // Images beside the folders are another mistake.
            None => return Ok(()),
        }
    }
    let is_split = |(folder, images): (&&str, &Vec<&str>)| {
        let below: Option<BTreeSet<&str>> = images.iter().map(|path| Some(path.split_once('/')?.0)).collect();
        below.is_some_and(|below| below.len() > 1 || (is_corruption(folder) && are_severities(below.iter().copied())))
    };
    let resolved = root.canonicalize().unwrap_or_else(|_| root.to_owned());
    let own_name = resolved.file_name().and_then(|name| Some(name.to_str()?.to_owned()));
    let severities = own_name.is_some_and(|name| is_corruption(&name)) && are_severities(folders.keys().copied());
    if !folders.is_empty() && (severities || folders.iter().all(is_split)) {
        let names: Vec<&str> = folders.keys().copied().take(5).collect();
        let more = if folders.len() > names.len() { ", ..." } else { "" };
        return Err(DataError::SeveralSplits { path: root.into(), splits: format!("{}{more}", names.join(", ")) });
    }
    Ok(())
}

/// `1` to `5`, or the numbers with decimals that the C-bar sets use.
fn are_severities<'a>(names: impl Iterator<Item = &'a str>) -> bool {
    let names: Vec<&str> = names.collect();
    let number = |name: &&str| name.bytes().all(|b| b.is_ascii_digit() || b == b'.') && name.parse::<f64>().is_ok();
    !names.is_empty() && names.len() <= 5 && names.iter().all(number)
}
