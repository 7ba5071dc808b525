use std::path::{Path, PathBuf};

use super::bytes_at::{FileAt, read_text};
use super::classes::record_label;
use super::pixels::{Order, PictureShape};
use super::{ClassRule, DataError, Dataset, Layout, Payload, Sample, Split};
use crate::Label;

const PICTURE: PictureShape = PictureShape { width: 32, height: 32, order: Order::Planes };

/// CIFAR-10 or CIFAR-100 binary batches: one or two label bytes, then the red, green and blue plane of 32 x 32 pixels.
/// Of CIFAR-100's two labels the fine one is used.
pub struct Cifar {
    files: Vec<FileAt>,
    /// Label bytes in front of each picture.
    label_bytes: usize,
    per_file: Vec<usize>,
    classes: Vec<String>,
    rule: ClassRule,
}

impl Cifar {
    /// Opens one `.bin` file, or the batches of `split` in a folder.
    pub fn open(path: &Path, split: Split, rule: &ClassRule) -> Result<Self, DataError> {
        let (paths, folder) = if path.is_dir() {
            (batches(path, split), path)
        } else {
            let folder = path.parent().unwrap_or(Path::new(""));
            (vec![path.to_path_buf()], folder)
        };
        if paths.is_empty() {
            return Err(DataError::NoImages { path: path.into() });
        }
        let name = |p: &Path| p.file_name().unwrap_or_default().to_string_lossy().into_owned();
        // CIFAR-100 calls its files `train.bin` and `test.bin`.
        let hundred = paths.iter().all(|p| ["train.bin", "test.bin"].contains(&name(p).as_str()));
        let label_bytes = if hundred { 2 } else { 1 };
        let record = (label_bytes + PICTURE.len()) as u64;
        let files: Result<Vec<FileAt>, DataError> = paths.iter().map(|p| FileAt::open(p)).collect();
        let files = files?;
        let mut per_file = Vec::new();
        for file in &files {
            if file.len() == 0 || file.len() % record != 0 {
                let found = format!("{} bytes", file.len());
                let expected = format!("a multiple of {record}");
                return Err(DataError::format(file.path(), "the length", found, expected));
            }
            per_file.push((file.len() / record) as usize);
        }
        let names = if hundred { "fine_label_names.txt" } else { "batches.meta.txt" };
        let names = folder.join(names);
        let classes = match rule {
            ClassRule::Names(given) => given.clone(),
            ClassRule::Space(space) => space.class_names(),
            _ if names.is_file() => class_lines(&read_text(&names)?),
            _ => Vec::new(),
        };
        Ok(Self { files, label_bytes, per_file, classes, rule: rule.clone() })
    }

    fn record_bytes(&self) -> usize {
        self.label_bytes + PICTURE.len()
    }

    fn place(&self, mut index: usize) -> (usize, usize) {
        for (file, &count) in self.per_file.iter().enumerate() {
            if index < count {
                return (file, index);
            }
            index -= count;
        }
        panic!("the index is below `len`");
    }
}

/// Whether `folder` holds batches.
pub(super) fn is_cifar_folder(folder: &Path) -> bool {
    !batches(folder, Split::Test).is_empty() || !batches(folder, Split::Train).is_empty()
}

fn batches(folder: &Path, split: Split) -> Vec<PathBuf> {
    let names: &[&str] = match split {
        Split::Test => &["test_batch.bin", "test.bin"],
        Split::Train => &[
            "data_batch_1.bin",
            "data_batch_2.bin",
            "data_batch_3.bin",
            "data_batch_4.bin",
            "data_batch_5.bin",
            "train.bin",
        ],
    };
    let paths = names.iter().map(|n| folder.join(n));
    paths.filter(|p| p.is_file()).collect()
}

fn class_lines(text: &str) -> Vec<String> {
    let lines = text.lines().map(str::trim).filter(|l| !l.is_empty());
    lines.map(str::to_owned).collect()
}

impl Dataset for Cifar {
    fn layout(&self) -> Layout {
        Layout::CifarBinary
    }

    fn len(&self) -> usize {
        self.per_file.iter().sum()
    }

    fn classes(&self) -> &[String] {
        &self.classes
    }

    fn id(&self, index: usize) -> String {
        let (file, row) = self.place(index);
        let name = self.files[file].path().file_name().unwrap_or_default();
        format!("{}/{row}", name.to_string_lossy())
    }

    fn label(&self, index: usize) -> Result<Label, DataError> {
        let (file, row) = self.place(index);
        let file = &self.files[file];
        let last = row * self.record_bytes() + self.label_bytes - 1;
        let label = file.read(last as u64, 1, "a label")?;
        record_label(file.path(), i64::from(label[0]), &self.rule)
    }

    fn sample(&self, index: usize) -> Result<Sample, DataError> {
        let (file, row) = self.place(index);
        let file = &self.files[file];
        let record = self.record_bytes();
        let bytes = file.read((row * record) as u64, record as u64, "a record")?;
        let (labels, picture) = bytes.split_at(self.label_bytes);
        let label = i64::from(labels[self.label_bytes - 1]);
        Ok(Sample {
            id: self.id(index),
            payload: Payload::Pixels(PICTURE.picture(picture)),
            label: record_label(file.path(), label, &self.rule)?,
        })
    }
}
