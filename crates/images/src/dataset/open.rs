use std::path::{Path, PathBuf};

use super::archive::holds_class_folders;
use super::bytes_at::{FileAt, read_pipe, read_text};
use super::cifar::{is_cifar_folder, open_cifar};
use super::files::{ImageFiles, Listing};
use super::folder::{name_of, open_images, open_objects, read_dir};
use super::idx::{image_file, open_idx};
use super::list::open_list;
use super::npy::open_npy;
use super::npz::{holds_both, open_npz};
use super::object_list::{MAGIC, open_object_list};
use super::part::{take_half, take_sample};
use super::png_rows::{is_png_rows_folder, open_png_rows};
use super::tar_index::TarFile;
use super::webdataset::looks_like_samples;
use super::zip_index::{names_in, open_zip, read_zip};
use super::{
    Address, ClassRule, DataError, Dataset, Layout, Parquet, Part, Severity, WebDataset, expand_shards, is_address,
    local_path,
};

/// The name under which a list of images is read from standard input.
const STANDARD_INPUT: &str = "-";
/// How names of tar archives end.
const TAR_ENDINGS: [&str; 3] = [".tar", ".tar.gz", ".tgz"];

/// Which part of a dataset that stores training and test images side by side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Split {
    /// The training images.
    Train,
    /// The test images.
    #[default]
    Test,
}

impl Split {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Train => "train",
            Self::Test => "test",
        }
    }
}

/// What cannot be seen from the files.
#[derive(Clone, Debug, Default)]
pub struct OpenOptions {
    /// How folders and numbers become labels.
    pub classes: ClassRule,
    /// Training or test images, where a folder holds both.
    pub split: Split,
    /// Which severity block of a `-C` array.
    pub severity: Severity,
    /// Index no more shards than this many samples need.
    pub limit: Option<usize>,
}

/// Opens `spec`, a path or a shard pattern, and finds out its layout. A [`Part`] may follow it: `cifar10#train`. `-` is a list
/// of image paths on standard input, which can be read once.
pub fn open(spec: &str) -> Result<Box<dyn Dataset>, DataError> {
    open_with(spec, &OpenOptions::default())
}

/// The same with `options`.
pub fn open_with(spec: &str, options: &OpenOptions) -> Result<Box<dyn Dataset>, DataError> {
    let spec = local_path(spec);
    let path = Path::new(spec);
    if spec == STANDARD_INPUT {
        let text = read_pipe(path, std::io::stdin().lock())?;
        return Ok(Box::new(open_list(path, Path::new(""), &text, &options.classes)?));
    }
    if is_address(spec) {
        if let Some((whole, part)) = Part::split_off(spec) {
            return open_part(whole, part, options);
        }
        if let Some(address) = Address::parse(spec)? {
            return Ok(Box::new(open_objects(&address, &options.classes)?));
        }
    }
    // A path that exists is taken as it is, braces and hashes in its name included.
    if !path.exists() {
        if let Some((whole, part)) = Part::split_off(spec) {
            return open_part(whole, part, options);
        }
        if spec.contains(['{', '*']) {
            return open_many(path, &expand_shards(spec)?, options);
        }
    }
    let found = std::fs::metadata(path).map_err(DataError::io(path))?;
    if found.is_dir() {
        return open_folder(path, options);
    }
    if !found.is_file() && is_inherited(path) {
        let text = read_pipe(path, std::fs::File::open(path).map_err(DataError::io(path))?)?;
        return Ok(Box::new(open_list(path, Path::new(""), &text, &options.classes)?));
    }
    open_file(path, options)
}

/// Whether the shell gave this pipe to the program, as `<(find ...)` does: it has a writer, so that reading it ends. A named
/// pipe may have none, and would be waited for without end.
fn is_inherited(path: &Path) -> bool {
    ["/dev/fd", "/dev/stdin", "/proc/self/fd"].iter().any(|start| path.starts_with(start))
}

fn open_part(whole: &str, part: Part, options: &OpenOptions) -> Result<Box<dyn Dataset>, DataError> {
    match part {
        Part::Sample { images, seed } => {
            let dataset = open_with(whole, options)?;
            Ok(Box::new(take_sample(whole, dataset, images, seed)?))
        }
        Part::Half { half, seed } => {
            let dataset = open_with(whole, options)?;
            Ok(Box::new(take_half(whole, dataset, half, seed)?))
        }
        Part::Split(split) => open_split(whole, split, options),
    }
}

/// The folder of that name below `whole`, or the split of a layout that stores both.
fn open_split(whole: &str, split: Split, options: &OpenOptions) -> Result<Box<dyn Dataset>, DataError> {
    let below = Path::new(local_path(whole)).join(split.name());
    if below.is_dir() || is_address(whole) {
        return open_with(&below.to_string_lossy(), options);
    }
    let options = OpenOptions { split, ..options.clone() };
    let dataset = open_with(whole, &options)?;
    let holds_both = match dataset.layout() {
        Layout::PngRows => true,
        Layout::Npz => holds_both(Path::new(whole))?,
        Layout::CifarBinary | Layout::Idx => Path::new(whole).is_dir(),
        _ => false,
    };
    if holds_both {
        return Ok(dataset);
    }
    Err(DataError::NoSplit {
        path: whole.into(),
        split: split.name(),
        found: format!("its layout is {}", dataset.layout()),
    })
}

fn open_folder(path: &Path, options: &OpenOptions) -> Result<Box<dyn Dataset>, DataError> {
    let rule = &options.classes;
    if is_png_rows_folder(path) {
        return Ok(Box::new(open_png_rows(path, options.split, rule)?));
    }
    if is_cifar_folder(path) {
        return Ok(Box::new(open_cifar(path, options.split, rule)?));
    }
    if image_file(path, options.split).is_some() {
        return Ok(Box::new(open_idx(path, options.split, rule)?));
    }
    let entries = read_dir(path)?;
    let ending = |ends: &[&str]| -> Vec<PathBuf> {
        let fits = |name: &str| !name.starts_with('.') && ends.iter().any(|end| name.ends_with(end));
        entries.iter().filter(|entry| fits(&name_of(entry))).map(|entry| entry.path()).collect()
    };
    let parquet = ending(&[".parquet"]);
    if !parquet.is_empty() {
        return Ok(Box::new(Parquet::open(&parquet, rule)?));
    }
    let tars = ending(&TAR_ENDINGS);
    if !tars.is_empty() {
        return open_tars(path, &tars, options);
    }
    let arrays: Vec<PathBuf> =
        ending(&[".npy"]).into_iter().filter(|p| p.file_name().is_some_and(|n| n != "labels.npy")).collect();
    match arrays.as_slice() {
        [] => Ok(Box::new(open_images(path, rule)?)),
        [one] => open_file(one, options),
        many => {
            let stems = many.iter().take(5).filter_map(|p| p.file_stem()?.to_str());
            Err(DataError::SeveralSplits { path: path.into(), splits: stems.collect::<Vec<_>>().join(", ") })
        }
    }
}

/// Files are told by their content where it has a signature, otherwise by their name.
fn open_file(path: &Path, options: &OpenOptions) -> Result<Box<dyn Dataset>, DataError> {
    let rule = &options.classes;
    let file = FileAt::open(path)?;
    let start = file.read(0, file.len().min(512), "the start")?;
    let name = file.name().to_ascii_lowercase();
    let gzipped = start.starts_with(&[0x1F, 0x8B]);
    if start.is_empty() {
        return Err(DataError::UnknownLayout { path: path.into(), found: "an empty file".into() });
    }
    Ok(if start.starts_with(MAGIC) {
        Box::new(open_object_list(path, rule)?)
    } else if start.starts_with(b"PAR1") {
        Box::new(Parquet::open(&[path.into()], rule)?)
    } else if start.starts_with(b"\x93NUMPY") {
        Box::new(open_npy(path, options.severity, rule)?)
    } else if start.starts_with(b"PK\x03\x04") || start.starts_with(b"PK\x05\x06") {
        return open_zipped(file, options);
    } else if start.starts_with(&[0, 0, 8, 3]) || (gzipped && name.contains("idx3")) {
        Box::new(open_idx(path, options.split, rule)?)
    } else if start.get(257..262) == Some(b"ustar") || name.contains(".tar") || (gzipped && name.ends_with(".tgz")) {
        return open_tars(path, &[path.into()], options);
    } else if name.ends_with(".bin") {
        Box::new(open_cifar(path, options.split, rule)?)
    } else if [".csv", ".tsv", ".txt"].iter().any(|end| name.ends_with(end)) {
        Box::new(open_list(path, path.parent().unwrap_or(Path::new("")), &read_text(path)?, rule)?)
    } else {
        let shown: Vec<String> = start.iter().take(8).map(|b| format!("{b:02x}")).collect();
        return Err(DataError::UnknownLayout {
            path: path.into(),
            found: format!("a file that starts with {}", shown.join(" ")),
        });
    })
}

/// The files of a pattern: Parquet files, or tars.
fn open_many(pattern: &Path, paths: &[PathBuf], options: &OpenOptions) -> Result<Box<dyn Dataset>, DataError> {
    if paths.iter().all(|path| path.extension().is_some_and(|ending| ending == "parquet")) {
        return Ok(Box::new(Parquet::open(paths, &options.classes)?));
    }
    open_tars(pattern, paths, options)
}

/// A zip archive of images, or of arrays as numpy writes them.
fn open_zipped(file: FileAt, options: &OpenOptions) -> Result<Box<dyn Dataset>, DataError> {
    let names = names_in(&open_zip(&file)?);
    if names.iter().any(|name| name.ends_with(".npy")) {
        return Ok(Box::new(open_npz(&file, options.split, &options.classes)?));
    }
    let (path, index) = (file.path().to_path_buf(), read_zip(&file)?);
    let mut listing = Listing::default();
    listing.add_archive(file, index);
    Ok(Box::new(ImageFiles::by_class(&path, Layout::Zip, listing, &options.classes)?))
}

/// Tars of class folders, one tar of images without labels, or the shards of a WebDataset. The first tar decides.
fn open_tars(source: &Path, paths: &[PathBuf], options: &OpenOptions) -> Result<Box<dyn Dataset>, DataError> {
    let Some((first, rest)) = paths.split_first() else {
        return Err(DataError::NoImages { path: source.into() });
    };
    let first = TarFile::open(first)?;
    let alone = rest.is_empty() || holds_class_folders(&first.index);
    if looks_like_samples(&first.index) || !alone {
        return Ok(Box::new(WebDataset::open(first, rest, &options.classes, options.limit)?));
    }
    let mut listing = Listing::default();
    listing.add_archive(first.file, first.index);
    for path in rest {
        let TarFile { file, index } = TarFile::open(path)?;
        listing.add_archive(file, index);
    }
    Ok(Box::new(ImageFiles::by_class(source, Layout::Tar, listing, &options.classes)?))
}
