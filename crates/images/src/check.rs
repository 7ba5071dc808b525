//! What does this path hold? Layout, images, classes, splits, and the images that cannot be read.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::dataset::{DataError, Dataset, Ignored, Layout, OpenOptions, Part, open_with};
use crate::decode::DecodeOptions;
use crate::guard::guarded;
use crate::labelspace::{FolderClass, LabelFrom, builtin, builtin_names};

/// Most unreadable images that are named; more are only counted.
const MAX_NAMED: usize = 100;
/// Most splits that are looked at.
const MAX_SPLITS: usize = 1000;

/// How thoroughly a dataset is looked at.
#[derive(Clone, Debug)]
pub struct CheckOptions {
    /// How it is opened.
    pub open: OpenOptions,
    /// Whether and how images are decoded; `None` only counts them.
    pub decode: Option<DecodeOptions>,
    /// Threads that decode.
    pub threads: usize,
}

impl Default for CheckOptions {
    fn default() -> Self {
        Self {
            open: OpenOptions::default(),
            decode: Some(DecodeOptions::default()),
            threads: std::thread::available_parallelism().map_or(1, |n| n.get()),
        }
    }
}

/// What a path holds.
#[derive(Debug)]
pub struct CheckReport {
    /// One entry per split; a path that is one dataset has a single entry without a name.
    pub splits: Vec<SplitReport>,
}

/// What one split holds.
#[derive(Debug)]
pub struct SplitReport {
    /// Its path below the one checked.
    pub name: String,
    /// How it is stored.
    pub layout: Layout,
    /// Number of images.
    pub images: usize,
    /// How many have a label; 0 when images were not read.
    pub labelled: usize,
    /// Class names or folders, in label order.
    pub classes: Vec<String>,
    /// Built-in class spaces that know every class, the closest fit first.
    pub class_spaces: Vec<&'static str>,
    /// Files beside the images that are not read.
    pub ignored: Ignored,
    /// Number of images that could not be read or decoded.
    pub unreadable: usize,
    /// The first of them: id and reason.
    pub unreadable_named: Vec<(String, String)>,
}

impl CheckReport {
    /// Images in all splits.
    pub fn images(&self) -> usize {
        self.splits.iter().map(|s| s.images).sum()
    }

    /// Unreadable images in all splits.
    pub fn unreadable(&self) -> usize {
        self.splits.iter().map(|s| s.unreadable).sum()
    }
}

/// Finds out what `spec`, a path or a shard pattern, holds.
pub fn check(spec: &str, options: &CheckOptions) -> Result<CheckReport, DataError> {
    let splits = open_splits(spec, &options.open)?;
    let splits = splits.into_iter().map(|split| report(&*split.dataset, split.name, options)).collect();
    Ok(CheckReport { splits })
}

/// A dataset, or one of several below a path.
pub struct OpenedSplit {
    /// Its path below the one opened; empty for the only one.
    pub name: String,
    /// Its samples.
    pub dataset: Box<dyn Dataset>,
}

/// Opens `spec`, or each of the splits below it, such as the severities of corruptions.
pub fn open_splits(spec: &str, options: &OpenOptions) -> Result<Vec<OpenedSplit>, DataError> {
    let mut splits = Vec::new();
    visit(spec, String::new(), 2, options, &mut splits)?;
    Ok(splits)
}

/// Opens one dataset, or each of the splits found instead, at most `deeper` levels down.
fn visit(
    spec: &str,
    name: String,
    deeper: usize,
    options: &OpenOptions,
    splits: &mut Vec<OpenedSplit>,
) -> Result<(), DataError> {
    let error = match open_with(spec, options) {
        Ok(dataset) => {
            splits.push(OpenedSplit { name, dataset });
            return Ok(());
        }
        Err(error) => error,
    };
    // Of several splits each has parts of its own, so a part of them all is not defined.
    let part = !Path::new(spec).exists() && Part::split_off(spec).is_some();
    if !matches!(error, DataError::SeveralSplits { .. }) || deeper == 0 || part {
        return Err(error);
    }
    let entries = std::fs::read_dir(spec).map_err(DataError::io(Path::new(spec)))?;
    let below: BTreeSet<String> = entries
        .filter_map(|e| Some(e.ok()?.file_name().to_string_lossy().into_owned()))
        .filter(|n| !n.starts_with('.') && n != "labels.npy")
        .filter(|n| Path::new(spec).join(n).is_dir() || n.ends_with(".npy"))
        .collect();
    for part in below.into_iter().take(MAX_SPLITS) {
        let child = Path::new(spec).join(&part);
        let name = match name.as_str() {
            "" => part,
            above => format!("{above}/{part}"),
        };
        visit(&child.to_string_lossy(), name, deeper - 1, options, splits)?;
    }
    Ok(())
}

fn report(dataset: &dyn Dataset, name: String, options: &CheckOptions) -> SplitReport {
    let (labelled, mut unreadable) = match &options.decode {
        Some(decode) => read_all(dataset, decode, options.threads),
        None => (0, Vec::new()),
    };
    unreadable.sort();
    let count = unreadable.len();
    unreadable.truncate(MAX_NAMED);
    SplitReport {
        name,
        layout: dataset.layout(),
        images: dataset.len(),
        labelled,
        classes: dataset.classes().iter().filter(|name| !name.is_empty()).cloned().collect(),
        class_spaces: class_spaces(dataset.classes()),
        ignored: dataset.ignored().clone(),
        unreadable: count,
        unreadable_named: unreadable.into_iter().map(|(_, id, why)| (id, why)).collect(),
    }
}

/// Reads and decodes everything; gives the number of labels and, per bad image, index, id and reason.
fn read_all(dataset: &dyn Dataset, decode: &DecodeOptions, threads: usize) -> (usize, Vec<(usize, String, String)>) {
    let (next, labelled) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let bad = Mutex::new(Vec::new());
    let work = || {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= dataset.len() {
                break;
            }
            let read = || match dataset.sample(index) {
                Ok(sample) => {
                    labelled.fetch_add(usize::from(sample.label.is_known()), Ordering::Relaxed);
                    let image = sample.payload.into_image(decode);
                    image.err().map(|e| e.to_string())
                }
                Err(error) => Some(error.to_string()),
            };
            let refused = guarded(read).unwrap_or_else(Some);
            if let Some(reason) = refused {
                let mut bad = bad.lock().unwrap_or_else(|e| e.into_inner());
                bad.push((index, dataset.id(index), reason));
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(work);
        }
    });
    let bad = bad.into_inner().unwrap_or_else(|e| e.into_inner());
    (labelled.into_inner(), bad)
}

/// The built-in spaces in which every one of `folders`, the classes of a dataset, is a class, those with the fewest other
/// classes first.
pub fn class_spaces(folders: &[String]) -> Vec<&'static str> {
    let folders: Vec<&String> = folders.iter().filter(|name| !name.is_empty()).collect();
    let mut fitting = Vec::new();
    for name in builtin_names() {
        let Ok(space) = builtin(name) else { continue };
        if matches!(space.label_from(), LabelFrom::Record | LabelFrom::None) || folders.is_empty() {
            continue;
        }
        // Of the spaces whose labels are ImageNet's own, one per kind of folder name is enough.
        if space.classes().is_empty() && !["imagenet-1k", "imagenet-v2"].contains(&name) {
            continue;
        }
        let known = |f: &&String| matches!(space.label_of_folder(f), Ok(FolderClass::Labelled(_)));
        // Ten digits are no ImageNet-V2: numbers count only when all 1000 are there.
        let classes = match space.classes().len() {
            0 => space.outputs(),
            classes => classes,
        };
        let numbers = space.label_from() == LabelFrom::IntFolder && folders.len() != classes;
        if folders.iter().all(known) && !numbers {
            fitting.push((classes, name));
        }
    }
    fitting.sort();
    fitting.into_iter().map(|(_, name)| name).collect()
}
