use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;

use super::array::{PictureArray, Source, names_for};
use super::pixels::{Order, PictureShape};
use super::{ClassRule, DataError, Dataset, Layout, Sample, Split};
use crate::Label;

/// Signatures: bytes in three dimensions, bytes in one.
const IMAGES: u32 = 0x0803;
const LABELS: u32 = 0x0801;
/// Largest file held in memory.
const MAX_BYTES: u64 = 2 << 30;

/// MNIST's format: a signature, the dimensions, then the bytes; plain or gzipped. The labels are the file whose name
/// has `labels` for `images` and `idx1` for `idx3`.
pub struct Idx {
    pictures: PictureArray,
    classes: Vec<String>,
}

impl Idx {
    /// Opens an image file, or the image file of `split` in a folder.
    pub fn open(path: &Path, split: Split, rule: &ClassRule) -> Result<Self, DataError> {
        let path = if path.is_dir() {
            image_file(path, split).ok_or_else(|| DataError::NoImages { path: path.into() })?
        } else {
            path.to_path_buf()
        };
        let (dimensions, bytes) = read_idx(&path, IMAGES)?;
        let shape = PictureShape { width: dimensions[2], height: dimensions[1], order: Order::Grey };
        let source = Source::Memory(bytes, path.clone());
        let mut pictures = PictureArray::new(source, shape, dimensions[0])?;
        if let Some(labels) = label_file(&path) {
            let (_, bytes) = read_idx(&labels, LABELS)?;
            let values: Vec<i64> = bytes.iter().map(|&b| b.into()).collect();
            pictures = pictures.with_labels(&values, &labels, rule)?;
        }
        Ok(Self { pictures, classes: names_for(rule) })
    }
}

/// The image file of `split` under its usual names.
pub(super) fn image_file(folder: &Path, split: Split) -> Option<PathBuf> {
    let stem = match split {
        Split::Test => "t10k-images",
        Split::Train => "train-images",
    };
    let names = ["-idx3-ubyte", "-idx3-ubyte.gz", ".idx3-ubyte", ".idx3-ubyte.gz"];
    let mut paths = names.iter().map(|n| folder.join(format!("{stem}{n}")));
    paths.find(|p| p.is_file())
}

fn label_file(images: &Path) -> Option<PathBuf> {
    let name = images.file_name()?.to_str()?;
    let name = name.replace("images", "labels").replace("idx3", "idx1");
    let path = images.with_file_name(name);
    let other = match path.extension() {
        Some(end) if end == "gz" => path.with_extension(""),
        _ => PathBuf::from(format!("{}.gz", path.display())),
    };
    [path, other].into_iter().find(|p| p != images && p.is_file())
}

/// The dimensions and the bytes after them, exactly as many as the dimensions say.
fn read_idx(path: &Path, signature: u32) -> Result<(Vec<usize>, Vec<u8>), DataError> {
    let file = File::open(path).map_err(DataError::io(path))?;
    let gzipped = {
        let mut start = Vec::new();
        let read = (&file).take(2).read_to_end(&mut start);
        read.map_err(DataError::io(path))?;
        start == [0x1F, 0x8B]
    };
    let file = File::open(path).map_err(DataError::io(path))?;
    let mut reader: Box<dyn Read> = match gzipped {
        true => Box::new(GzDecoder::new(file)),
        false => Box::new(std::io::BufReader::new(file)),
    };
    let mut field = || -> Result<u32, DataError> {
        let mut bytes = [0; 4];
        reader.read_exact(&mut bytes).map_err(|e| cut_or_damaged(path, e, 4, 0))?;
        Ok(u32::from_be_bytes(bytes))
    };
    let found = field()?;
    if found != signature {
        let expected = format!("{signature:#06x}");
        return Err(DataError::format(path, "the signature", format!("{found:#06x}"), expected));
    }
    let count = (signature & 0xFF) as usize;
    let dimensions: Result<Vec<u32>, DataError> = (0..count).map(|_| field()).collect();
    let dimensions: Vec<usize> = dimensions?.into_iter().map(|d| d as usize).collect();
    let declared = dimensions.iter().fold(1u64, |n, &d| n.saturating_mul(d as u64));
    if declared > MAX_BYTES {
        return Err(DataError::TooLarge { path: path.into(), what: "the array".into(), declared, limit: MAX_BYTES });
    }
    let mut bytes = Vec::new();
    (&mut reader).take(declared).read_to_end(&mut bytes).map_err(|e| cut_or_damaged(path, e, declared, 0))?;
    if (bytes.len() as u64) < declared {
        let found = bytes.len() as u64;
        return Err(cut_or_damaged(path, std::io::ErrorKind::UnexpectedEof.into(), declared, found));
    }
    Ok((dimensions, bytes))
}

fn cut_or_damaged(path: &Path, error: std::io::Error, declared: u64, found: u64) -> DataError {
    if error.kind() == std::io::ErrorKind::UnexpectedEof {
        return DataError::Truncated { path: path.into(), what: "the array".into(), declared, found };
    }
    DataError::format(path, "the data", error, "idx, plain or gzipped")
}

impl Dataset for Idx {
    fn layout(&self) -> Layout {
        Layout::Idx
    }

    fn len(&self) -> usize {
        self.pictures.len()
    }

    fn classes(&self) -> &[String] {
        &self.classes
    }

    fn id(&self, index: usize) -> String {
        self.pictures.id(index)
    }

    fn label(&self, index: usize) -> Result<Label, DataError> {
        Ok(self.pictures.label(index))
    }

    fn sample(&self, index: usize) -> Result<Sample, DataError> {
        self.pictures.sample(index)
    }
}
