use std::path::{Path, PathBuf};

use super::arrays::{Block, ImageArray, Source};
use super::bytes_at::{FileAt, read_text};
use super::pixels::{Order, PictureShape};
use super::{ClassRule, DataError, Layout, Split};

const PICTURE: PictureShape = PictureShape { width: 32, height: 32, order: Order::Planes };

/// Opens one `.bin` file, or the batches of `split` in a folder, of CIFAR-10 or CIFAR-100: one or two label bytes, then the
/// red, green and blue plane of 32 x 32 pixels. Of CIFAR-100's two labels the fine one is used.
pub(super) fn open_cifar(path: &Path, split: Split, rule: &ClassRule) -> Result<ImageArray, DataError> {
    let (paths, folder) = if path.is_dir() {
        (batches(path, split), path)
    } else {
        (vec![path.to_path_buf()], path.parent().unwrap_or(Path::new("")))
    };
    if paths.is_empty() {
        return Err(DataError::NoImages { path: path.into() });
    }
    // CIFAR-100 calls its files `train.bin` and `test.bin`.
    let hundred = paths.iter().all(|p| p.file_name().is_some_and(|name| name == "train.bin" || name == "test.bin"));
    let label_bytes: usize = if hundred { 2 } else { 1 };
    let record = (label_bytes + PICTURE.len()) as u64;
    let (mut blocks, mut labels) = (Vec::new(), Vec::new());
    for path in &paths {
        let file = FileAt::open(path)?;
        if file.len() == 0 || !file.len().is_multiple_of(record) {
            let found = format!("{} bytes", file.len());
            return Err(DataError::format(path, "the length", found, format!("a multiple of {record}")));
        }
        let rows = file.len() / record;
        for row in 0..rows {
            labels.push(i64::from(file.read(row * record + label_bytes as u64 - 1, 1, "a label")?[0]));
        }
        let name = file.name();
        let source = Source::File(file, label_bytes as u64);
        // The length was checked above, with the label bytes that lie between two pictures.
        blocks.push(Block::new(source, PICTURE, 1)?.only(0, rows as usize).spaced(label_bytes, name)?);
    }
    let names = folder.join(if hundred { "fine_label_names.txt" } else { "batches.meta.txt" });
    let classes = match rule {
        ClassRule::Auto | ClassRule::Unlabelled if names.is_file() => class_lines(&read_text(&names)?),
        rule => rule.names(),
    };
    ImageArray::new(Layout::CifarBinary, blocks, classes).with_labels(&labels, &paths[0], rule)
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
