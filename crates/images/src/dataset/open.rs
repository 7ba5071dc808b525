use std::path::{Path, PathBuf};

use super::bytes_at::FileAt;
use super::cifar::is_cifar_folder;
use super::folder::{name_of, read_dir};
use super::idx::image_file;
use super::npz::holds_both;
use super::part::{take_half, take_sample};
use super::png_rows::is_png_rows_folder;
use super::tar_index::TarIndex;
use super::webdataset::looks_like_samples;
use super::{
    Cifar, ClassRule, DataError, Dataset, Folder, Idx, Layout, List, Npy, Npz, Parquet, Part, PngRows, Severity, Tar,
    WebDataset, expand_shards,
};

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

/// Opens `spec`, a path or a shard pattern, and finds out its layout. A [`Part`] may follow it: `cifar10#train`.
pub fn open(spec: &str) -> Result<Box<dyn Dataset>, DataError> {
    open_with(spec, &OpenOptions::default())
}

/// The same with `options`.
pub fn open_with(spec: &str, options: &OpenOptions) -> Result<Box<dyn Dataset>, DataError> {
    let path = Path::new(spec);
    // A path that exists is taken as it is, braces and hashes in its name included.
    if !path.exists() {
        if let Some((whole, part)) = Part::split_off(spec) {
            return open_part(whole, part, options);
        }
        if spec.contains('{') {
            return open_shards(&expand_shards(spec)?, options);
        }
    }
    let metadata = std::fs::metadata(path).map_err(DataError::io(path))?;
    if metadata.is_dir() { open_folder(path, options) } else { open_file(path, options) }
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
    let below = Path::new(whole).join(split.name());
    if below.is_dir() {
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
        return Ok(Box::new(PngRows::open(path, options.split, rule)?));
    }
    if is_cifar_folder(path) {
        return Ok(Box::new(Cifar::open(path, options.split, rule)?));
    }
    if image_file(path, options.split).is_some() {
        return Ok(Box::new(Idx::open(path, options.split, rule)?));
    }
    let mut names: Vec<String> = read_dir(path)?.iter().map(name_of).collect();
    names.sort();
    let ending = |end: &str| -> Vec<PathBuf> {
        let matching = names.iter().filter(|n| n.ends_with(end) && !n.starts_with('.'));
        matching.map(|n| path.join(n)).collect()
    };
    let parquet = ending(".parquet");
    if !parquet.is_empty() {
        return Ok(Box::new(Parquet::open(&parquet, rule)?));
    }
    let tars = ending(".tar");
    if !tars.is_empty() {
        return open_shards(&tars, options);
    }
    let arrays: Vec<PathBuf> =
        ending(".npy").into_iter().filter(|p| p.file_name().is_some_and(|n| n != "labels.npy")).collect();
    match arrays.as_slice() {
        [] => Ok(Box::new(Folder::open(path, rule)?)),
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
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    let gzipped_idx = start.starts_with(&[0x1F, 0x8B]) && name.contains("idx3");
    if start.is_empty() {
        return Err(DataError::UnknownLayout { path: path.into(), found: "an empty file".into() });
    }
    Ok(if start.starts_with(b"PAR1") {
        Box::new(Parquet::open(&[path.into()], rule)?)
    } else if start.starts_with(b"\x93NUMPY") {
        Box::new(Npy::open(path, options.severity, rule)?)
    } else if start.starts_with(b"PK\x03\x04") {
        Box::new(Npz::open(path, options.split, rule)?)
    } else if start.starts_with(&[0, 0, 8, 3]) || gzipped_idx {
        Box::new(Idx::open(path, options.split, rule)?)
    } else if start.get(257..262) == Some(b"ustar") || name.contains(".tar") {
        return open_shards(&[path.into()], options);
    } else if name.ends_with(".bin") {
        Box::new(Cifar::open(path, options.split, rule)?)
    } else if [".csv", ".tsv", ".txt"].iter().any(|end| name.ends_with(end)) {
        Box::new(List::open(path, rule)?)
    } else {
        let shown: Vec<String> = start.iter().take(8).map(|b| format!("{b:02x}")).collect();
        return Err(DataError::UnknownLayout {
            path: path.into(),
            found: format!("a file that starts with {}", shown.join(" ")),
        });
    })
}

/// One plain tar of images, or the shards of a WebDataset.
fn open_shards(paths: &[PathBuf], options: &OpenOptions) -> Result<Box<dyn Dataset>, DataError> {
    if let [path] = paths {
        let index = TarIndex::read(path)?;
        if !looks_like_samples(&index) {
            return Ok(Box::new(Tar::from_index(path, index, &options.classes)?));
        }
    }
    let dataset = WebDataset::open(paths, &options.classes, options.limit)?;
    Ok(Box::new(dataset))
}
