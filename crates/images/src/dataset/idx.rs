use std::io::{Read, Seek};
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;

use super::arrays::{Block, ImageArray, Source};
use super::bytes_at::open_regular;
use super::pixels::{Order, PictureShape};
use super::{ClassRule, DataError, Layout, Split};

/// Signatures: bytes in three dimensions, bytes in one.
const IMAGES: u32 = 0x0803;
const LABELS: u32 = 0x0801;
/// Largest file held in memory.
const MAX_BYTES: u64 = 2 << 30;

/// Opens an image file in MNIST's format, or the image file of `split` in a folder: a signature, the dimensions, then the
/// bytes; plain or gzipped. The labels are the file whose name has `labels` for `images` and `idx1` for `idx3`.
pub(super) fn open_idx(path: &Path, split: Split, rule: &ClassRule) -> Result<ImageArray, DataError> {
    let path = if path.is_dir() {
        image_file(path, split).ok_or_else(|| DataError::NoImages { path: path.into() })?
    } else {
        path.to_path_buf()
    };
    let (dimensions, bytes) = read_idx(&path, IMAGES)?;
    let shape = PictureShape { width: dimensions[2], height: dimensions[1], order: Order::Grey };
    let block = Block::new(Source::Memory(bytes, path.clone()), shape, dimensions[0])?;
    let array = ImageArray::new(Layout::Idx, vec![block], rule.names());
    let Some(labels) = label_file(&path) else {
        return Ok(array);
    };
    let (_, bytes) = read_idx(&labels, LABELS)?;
    let values: Vec<i64> = bytes.iter().map(|&b| b.into()).collect();
    array.with_labels(&values, &labels, rule)
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
    let mut file = open_regular(path)?;
    let mut start = Vec::new();
    (&mut file).take(2).read_to_end(&mut start).map_err(DataError::io(path))?;
    let gzipped = start == [0x1F, 0x8B];
    file.rewind().map_err(DataError::io(path))?;
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
