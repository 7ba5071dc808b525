use std::path::{Path, PathBuf};

use flipcast_ground::{Hint, write_hint};

use super::{Ignored, is_address};
use crate::labelspace::LabelError;

/// Why a dataset could not be opened or a sample not be read.
#[derive(Debug, thiserror::Error)]
pub enum DataError {
    /// The operating system refused.
    #[error("cannot read `{path}`")]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The system refused to write, or the disk is full.
    #[error("cannot write `{path}`")]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// An object store does not give what was asked for.
    #[error("`{object}` cannot be read, after {attempts} attempts")]
    Store {
        /// The object or prefix.
        object: String,
        /// How often it was asked for; the store's client asks several times for each.
        attempts: u32,
        /// What the store said last.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// An object store, in a build that reads none.
    #[error("`{address}` lies in an object store, which this build does not read: it lacks the feature `objects`")]
    NoObjects {
        /// What was asked for.
        address: String,
    },
    /// An address of no known kind.
    #[error(
        "`{address}` is no address of images: `s3://`, `gs://` or `az://` with a bucket, or `file:///` with a path was expected"
    )]
    BadAddress {
        /// What was asked for.
        address: String,
    },
    /// An address of an object store was needed.
    #[error("`{address}` lies in no object store: `s3://`, `gs://` or `az://` with a bucket was expected")]
    NoStore {
        /// What was asked for.
        address: String,
    },
    /// No reader fits.
    #[error(
        "`{path}` is no dataset: {found}, but an image folder, list, tar, zip, Parquet, npy, npz, idx or CIFAR file was expected"
    )]
    UnknownLayout {
        /// What was opened.
        path: PathBuf,
        /// What was found.
        found: String,
    },
    /// Neither a file nor a folder.
    #[error("`{path}` is {found}, but a file was expected")]
    NotAFile {
        /// What was opened.
        path: PathBuf,
        /// What was found.
        found: &'static str,
    },
    /// There are files, but none of them is read.
    #[error("`{path}` holds no image that is read: {}", ignored.summary().unwrap_or_default())]
    OnlyIgnored {
        /// What was opened.
        path: PathBuf,
        /// What was found.
        ignored: Box<Ignored>,
    },
    /// A reader fits, but there is nothing in it.
    #[error("`{path}` holds no images, but at least one was expected")]
    NoImages {
        /// What was opened.
        path: PathBuf,
    },
    /// A sample larger than what it is taken from.
    #[error("`{path}` holds {found} images, but a sample of {expected} was asked for")]
    TooFew {
        /// What was opened.
        path: PathBuf,
        /// Its images.
        found: usize,
        /// Those asked for.
        expected: usize,
    },
    /// Images both beside and inside class folders.
    #[error("`{path}` holds {loose} images beside {folders} folders with images, but either alone was expected")]
    MixedFolder {
        /// The folder.
        path: PathBuf,
        /// Images directly in it.
        loose: usize,
        /// Folders with images.
        folders: usize,
    },
    /// Several datasets side by side.
    #[error("`{path}` holds the splits {splits}, but one dataset was expected")]
    SeveralSplits {
        /// The folder.
        path: PathBuf,
        /// Names of the first few splits.
        splits: String,
    },
    /// Training or test images of something that does not hold both.
    #[error("`{path}` has no split `{split}`: {found}, but training and test images side by side were expected")]
    NoSplit {
        /// What was opened.
        path: PathBuf,
        /// What was asked for.
        split: &'static str,
        /// What was found.
        found: String,
    },
    /// A subset of images that are not there.
    #[error("a subset names image {index}, but the dataset has {images} images, counted from 0")]
    SubsetIndex {
        /// The index given.
        index: usize,
        /// Number of images.
        images: usize,
    },
    /// A subset that counts an image more than once.
    #[error("a subset names image {index} more than once, but every image at most once was expected")]
    SubsetTwice {
        /// The index given.
        index: usize,
    },
    /// The file stops early.
    #[error("`{path}` ends after {found} bytes, but {what} needs {declared}")]
    Truncated {
        /// The file.
        path: PathBuf,
        /// What was being read.
        what: String,
        /// Bytes needed.
        declared: u64,
        /// Bytes there.
        found: u64,
    },
    /// More than will be held in memory.
    #[error("`{path}`: {what} has {declared} bytes, but at most {limit} are read")]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// What is too large.
        what: String,
        /// Its declared size.
        declared: u64,
        /// The limit.
        limit: u64,
    },
    /// A header or record that contradicts its format.
    #[error("`{path}`: {what} is {found}, but {expected} was expected")]
    BadFormat {
        /// The file.
        path: PathBuf,
        /// The field.
        what: String,
        /// What was found.
        found: String,
        /// What was expected.
        expected: String,
    },
    /// An archive entry that points outside of the archive or is no file.
    #[error("`{path}`: entry `{entry}` {problem}, but plain files below the archive's root were expected")]
    BadEntry {
        /// The archive.
        path: PathBuf,
        /// The entry.
        entry: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// A sample of a WebDataset without a picture.
    #[error("`{path}`: sample `{sample}` has no image field, but one such as `jpg` or `png` was expected")]
    NoImageField {
        /// The shard.
        path: PathBuf,
        /// The key of the sample.
        sample: String,
    },
    /// Images and labels of different number.
    #[error("`{path}` has {labels} labels for {images} images")]
    LabelCount {
        /// The label file.
        path: PathBuf,
        /// Number of labels.
        labels: usize,
        /// Number of images.
        images: usize,
    },
    /// A folder or label outside of the class space.
    #[error("cannot label the images of `{path}`")]
    Label {
        /// The dataset.
        path: PathBuf,
        /// Why.
        #[source]
        source: LabelError,
    },
    /// A shard pattern that cannot be expanded.
    #[error(
        "shard pattern `{pattern}` has {found}, but one range such as `{{00000..00012}}`, or `*` in the file name, was expected"
    )]
    BadPattern {
        /// The pattern.
        pattern: String,
        /// What is wrong with it.
        found: String,
    },
    /// No dataset of that name.
    #[error("no dataset is called `{name}`; the nearest are {nearest}")]
    UnknownDataset {
        /// What was asked for.
        name: String,
        /// Known names, nearest first.
        nearest: String,
    },
    /// No split of that name.
    #[error("`{dataset}` has no split `{split}`; the nearest are {nearest}")]
    UnknownSplit {
        /// The dataset.
        dataset: &'static str,
        /// What was asked for.
        split: String,
        /// Known names, nearest first.
        nearest: String,
    },
    /// Another number of images than published.
    #[error("`{dataset}` split `{split}` has {found} images, but {expected} were published")]
    ImageCount {
        /// The dataset.
        dataset: &'static str,
        /// The split.
        split: String,
        /// Images found.
        found: usize,
        /// Images published.
        expected: usize,
    },
}

impl DataError {
    pub(crate) fn io(path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_path_buf();
        move |source| Self::Io { path, source }
    }

    pub(crate) fn write(path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_path_buf();
        move |source| Self::Write { path, source }
    }

    pub(crate) fn format(
        path: &Path,
        what: impl Into<String>,
        found: impl ToString,
        expected: impl Into<String>,
    ) -> Self {
        Self::BadFormat { path: path.into(), what: what.into(), found: found.to_string(), expected: expected.into() }
    }

    pub(crate) fn label(path: &Path) -> impl Fn(LabelError) -> Self {
        let path = path.to_path_buf();
        move |source| Self::Label { path: path.clone(), source }
    }
}

impl Hint for DataError {
    fn hint(&self) -> Option<String> {
        match self {
            Self::SeveralSplits { path, .. } => Some(format!(
                "open one of them, such as `{}/<split>`, or name the dataset and its split",
                path.display()
            )),
            Self::Io { path, .. } if path.to_string_lossy().contains('#') => Some(
                "behind a `#` follows `train`, `test`, `first-half`, `second-half` or `sample:500`, all but the first two with a \
                 seed if it is not 0, as in `first-half:7`"
                    .into(),
            ),
            Self::NoSplit { .. } => {
                Some("name the folder or file of the images that are meant".into())
            }
            Self::MixedFolder { .. } => {
                Some("move the loose images into a folder of their own".into())
            }
            Self::ImageCount { .. } => {
                Some("complete the download, or allow another number of images".into())
            }
            Self::NoImageField { path, .. } => Some(format!(
                "the tars of a folder are read as shards of one dataset; if they are none, name one tar, \
                 or a shard pattern such as `{}`",
                path.with_file_name("serial_{00000..00012}.tar").display()
            )),
            Self::Truncated { .. } => Some("copy or download the file again".into()),
            Self::BadFormat { found, .. } if ["xz data", "zstd data", "bzip2 data"].contains(&found.as_str()) => {
                Some("unpack it first, or pack it as `.tar` or `.tar.gz`".into())
            }
            Self::NotAFile { found: "a pipe or device", .. } => {
                Some("a list of image paths can come from standard input: name `-`".into())
            }
            Self::Store { .. } => Some(
                "check the address, the connection and the credentials in the environment, then run again: no image is left out because a store \
                 did not answer"
                    .into(),
            ),
            Self::NoObjects { .. } => Some("build the program with the Cargo feature `objects`".into()),
            Self::NoStore { address } if !is_address(address) => {
                Some("images of a folder need no list: name the folder itself as the data".into())
            }
            Self::Write { source, .. } => write_hint(source),
            Self::OnlyIgnored { ignored, .. } => ignored.hint(),
            Self::Label { source, .. } => source.hint(),
            _ => None,
        }
    }
}
