use std::path::PathBuf;

use super::archive::{ArchiveIndex, PackedFile};
use super::bytes_at::FileAt;
use super::classes::record_label;
use super::files::is_image_name;
use super::tar_index::TarFile;
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
    /// Indexes `first` and the other `shards` in order; `limit` stops after that many samples, so that later shards are not
    /// touched.
    pub(super) fn open(
        first: TarFile,
        shards: &[PathBuf],
        rule: &ClassRule,
        limit: Option<usize>,
    ) -> Result<Self, DataError> {
        let limit = limit.unwrap_or(usize::MAX);
        let (mut files, mut samples) = (Vec::new(), Vec::new());
        for shard in std::iter::once(Ok(first)).chain(shards.iter().map(|path| TarFile::open(path))) {
            let TarFile { file, index } = shard?;
            group(index.files, files.len() as u32, &file, &mut samples)?;
            files.push(file);
            if samples.len() >= limit {
                break;
            }
        }
        samples.truncate(limit);
        if samples.is_empty() {
            return Err(DataError::NoImages { path: files[0].path().into() });
        }
        Ok(Self { shards: files, samples, classes: rule.names(), rule: rule.clone() })
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
pub(super) fn looks_like_samples(index: &ArchiveIndex) -> bool {
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

fn group(files: Vec<PackedFile>, shard: u32, file: &FileAt, samples: &mut Vec<Entry>) -> Result<(), DataError> {
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
            let place = Some((entry.offset, entry.stored));
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
        format!("{}/{}", self.shards[entry.shard as usize].name(), entry.key)
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
