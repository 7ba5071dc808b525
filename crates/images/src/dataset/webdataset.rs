use std::path::PathBuf;

use super::bytes_at::FileAt;
use super::classes::record_label;
use super::folder::is_image_name;
use super::tar_index::{TarFile, TarIndex};
use super::{ClassRule, DataError, Dataset, Layout, Payload, Sample};
use crate::Label;

/// Longest label field.
const MAX_LABEL_BYTES: u64 = 64;

/// WebDataset shards: files whose names agree up to the first dot belong to one sample. The field that ends like an
/// image is the picture (`input.jpg`, `jpg`, `png`, ...), the one that ends in `cls` the label. Samples keep the order
/// of the shards and of the entries in them.
pub struct WebDataset {
    shards: Vec<FileAt>,
    samples: Vec<Entry>,
    classes: Vec<String>,
    rule: ClassRule,
}

/// Where one sample lies.
struct Entry {
    shard: u32,
    key: String,
    image: (u64, u64),
    label: Option<(u64, u64)>,
}

impl WebDataset {
    /// Indexes `shards` in order; `limit` stops after that many samples, so that later shards are not touched.
    pub fn open(shards: &[PathBuf], rule: &ClassRule, limit: Option<usize>) -> Result<Self, DataError> {
        let limit = limit.unwrap_or(usize::MAX);
        let (mut files, mut samples) = (Vec::new(), Vec::new());
        for path in shards {
            if samples.len() >= limit {
                break;
            }
            let index = TarIndex::read(path)?;
            let file = FileAt::open(path)?;
            let shard = files.len() as u32;
            group(index.files, shard, &file, &mut samples)?;
            files.push(file);
        }
        samples.truncate(limit);
        if samples.is_empty() {
            let path = shards.first().cloned().unwrap_or_default();
            return Err(DataError::NoImages { path });
        }
        let classes = match rule {
            ClassRule::Names(names) => names.clone(),
            ClassRule::Space(space) => space.class_names(),
            ClassRule::Auto | ClassRule::Unlabelled => Vec::new(),
        };
        Ok(Self { shards: files, samples, classes, rule: rule.clone() })
    }

    fn label_of(&self, entry: &Entry) -> Result<Label, DataError> {
        let Some((offset, len)) = entry.label else {
            return Ok(Label::Unknown);
        };
        let file = &self.shards[entry.shard as usize];
        let what = format!("the label of `{}`", entry.key);
        if len > MAX_LABEL_BYTES {
            return Err(DataError::TooLarge { path: file.path().into(), what, declared: len, limit: MAX_LABEL_BYTES });
        }
        let bytes = file.read(offset, len, &what)?;
        let text = String::from_utf8_lossy(&bytes);
        match text.trim().parse() {
            Ok(value) => record_label(file.path(), value, &self.rule),
            Err(_) => Err(DataError::format(file.path(), what, text, "a number")),
        }
    }
}

/// Whether neighbours share a key and one of them is an image: samples of several fields rather than single images.
pub(super) fn looks_like_samples(index: &TarIndex) -> bool {
    let start = &index.files[..index.files.len().min(64)];
    start.windows(2).any(|pair| {
        let (a, b) = (key_and_field(&pair[0].path), key_and_field(&pair[1].path));
        a.0 == b.0 && is_image_field(a.1) != is_image_field(b.1)
    })
}

fn is_image_field(field: &str) -> bool {
    is_image_name(&format!("x.{field}"))
}

/// `dir/000.input.jpg` is key `dir/000` and field `input.jpg`.
fn key_and_field(path: &str) -> (&str, &str) {
    let name = path.rfind('/').map_or(0, |slash| slash + 1);
    match path[name..].find('.') {
        Some(dot) => (&path[..name + dot], &path[name + dot + 1..]),
        None => (path, ""),
    }
}

fn group(files: Vec<TarFile>, shard: u32, file: &FileAt, samples: &mut Vec<Entry>) -> Result<(), DataError> {
    /// A sample whose image may not have been seen yet.
    struct Open {
        key: String,
        image: Option<(u64, u64)>,
        label: Option<(u64, u64)>,
    }
    let mut close = |open: Option<Open>| match open {
        None => Ok(()),
        Some(open) => {
            let image = open
                .image
                .ok_or_else(|| DataError::NoImageField { path: file.path().into(), sample: open.key.clone() })?;
            samples.push(Entry { shard, key: open.key, image, label: open.label });
            Ok(())
        }
    };
    let mut open: Option<Open> = None;
    for entry in files {
        let (key, field) = key_and_field(&entry.path);
        if open.as_ref().is_none_or(|o| o.key != key) {
            close(open.take())?;
            open = Some(Open { key: key.to_owned(), image: None, label: None });
        }
        if let Some(sample) = open.as_mut() {
            let place = Some((entry.offset, entry.len));
            if is_image_field(field) && sample.image.is_none() {
                sample.image = place;
            } else if field == "cls" || field.ends_with(".cls") {
                sample.label = place;
            }
        }
    }
    close(open)
}

impl Dataset for WebDataset {
    fn layout(&self) -> Layout {
        Layout::WebDataset
    }

    fn len(&self) -> usize {
        self.samples.len()
    }

    fn classes(&self) -> &[String] {
        &self.classes
    }

    fn id(&self, index: usize) -> String {
        let entry = &self.samples[index];
        let shard = self.shards[entry.shard as usize].path().file_name();
        let shard = shard.unwrap_or_default().to_string_lossy();
        format!("{shard}/{}", entry.key)
    }

    fn label(&self, index: usize) -> Result<Label, DataError> {
        self.label_of(&self.samples[index])
    }

    fn sample(&self, index: usize) -> Result<Sample, DataError> {
        let entry = &self.samples[index];
        let (offset, len) = entry.image;
        let bytes = self.shards[entry.shard as usize].read(offset, len, &entry.key)?;
        Ok(Sample { id: self.id(index), payload: Payload::Encoded(bytes), label: self.label_of(entry)? })
    }

    fn is_stream(&self) -> bool {
        true
    }
}
