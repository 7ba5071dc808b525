use std::collections::BTreeSet;
use std::io::Read;
use std::path::{Path, PathBuf};

use flate2::read::DeflateDecoder;

use super::bytes_at::{FileAt, check_size, read_file};
use super::classes::ClassTable;
use super::objects::Objects;
use super::{ClassRule, DataError, Dataset, Ignored, Layout, Payload, Sample};
use crate::Label;

/// File name endings that count as images; the content decides what they really are.
const ENDINGS: [&str; 10] = ["jpg", "jpeg", "png", "webp", "bmp", "gif", "ppm", "pgm", "tif", "tiff"];

/// Whether a file of this name is listed as an image.
pub(super) fn is_image_name(name: &str) -> bool {
    let ending = name.rsplit_once('.').map(|(_, e)| e.to_ascii_lowercase());
    !name.starts_with('.') && ending.is_some_and(|e| ENDINGS.contains(&e.as_str()))
}

/// Images that are files of their own: in a folder, named by a list, or packed into archives. Archives are indexed once
/// and read in place.
pub struct ImageFiles {
    root: PathBuf,
    layout: Layout,
    images: Vec<StoredImage>,
    archives: Vec<FileAt>,
    objects: Option<Objects>,
    classes: Vec<String>,
    ignored: Ignored,
}

/// Objects of a store that are asked for at once: the answers take long, and little work while they are waited for.
const OBJECTS_AT_ONCE: usize = 64;

/// One image of the dataset.
pub(super) struct StoredImage {
    pub id: String,
    pub place: Place,
    pub label: Label,
}

/// Where the bytes of an image lie.
#[derive(Clone, Debug)]
pub(super) enum Place {
    /// In the file that its id names below the root.
    ById,
    /// In a file whose name is not UTF-8.
    File(PathBuf),
    /// In the object that its id names below the address, of so many bytes.
    Object { size: u64 },
    /// In an archive.
    Packed { archive: u32, offset: u64, stored: u64, packing: Packing },
}

/// How an archive stores a file.
#[derive(Clone, Copy, Debug)]
pub(super) enum Packing {
    /// As it is.
    Plain,
    /// Deflated, from this many bytes with this checksum.
    Deflate { len: u64, crc: u32 },
}

/// What lies in a folder or in archives, before it has labels.
#[derive(Default)]
pub(super) struct Listing {
    pub images: Vec<Found>,
    /// The folders that are classes, those without images included.
    pub folders: BTreeSet<String>,
    pub archives: Vec<FileAt>,
    pub ignored: Ignored,
}

/// An image that was found.
pub(super) struct Found {
    /// Its path, with `/` between the parts.
    pub path: String,
    /// Where the class folder starts in it.
    pub class_at: usize,
    pub place: Place,
}

impl Found {
    /// The class folder; `None` for an image beside the class folders.
    pub fn class(&self) -> Option<&str> {
        Some(self.path[self.class_at..].split_once('/')?.0)
    }
}

impl ImageFiles {
    /// Labels what was found at `root` by its class folders; images without any stay unlabelled.
    pub(super) fn by_class(root: &Path, layout: Layout, listing: Listing, rule: &ClassRule) -> Result<Self, DataError> {
        let Listing { images, mut folders, archives, ignored } = listing;
        if images.is_empty() {
            return Err(match ignored.summary() {
                None => DataError::NoImages { path: root.into() },
                Some(_) => DataError::OnlyIgnored { path: root.into(), ignored: Box::new(ignored) },
            });
        }
        let with_images: BTreeSet<String> = images.iter().filter_map(|f| f.class().map(str::to_owned)).collect();
        let loose = images.iter().filter(|f| f.class().is_none()).count();
        if loose > 0 && !with_images.is_empty() {
            return Err(DataError::MixedFolder { path: root.into(), loose, folders: with_images.len() });
        }
        let table = match loose {
            0 => {
                folders.extend(with_images);
                Some(ClassTable::build(root, &folders, rule)?)
            }
            _ => None,
        };
        let several = archives.len() > 1;
        let stored = |found: Found| {
            let label = match (&table, found.class()) {
                (Some(table), Some(class)) => table.label(class)?,
                _ => Label::Unknown,
            };
            let id = match &found.place {
                Place::Packed { archive, .. } if several => {
                    format!("{}/{}", archives[*archive as usize].name(), found.path)
                }
                _ => found.path,
            };
            Some(StoredImage { id, place: found.place, label })
        };
        let images = images.into_iter().filter_map(stored).collect();
        let classes = table.map_or_else(Vec::new, ClassTable::into_names);
        Ok(Self { root: root.into(), layout, images, archives, objects: None, classes, ignored })
    }

    /// The same images, which lie in an object store.
    pub(super) fn in_store(self, objects: Objects) -> Self {
        Self { objects: Some(objects), ..self }
    }

    /// The images of a list, whose paths are relative to `root`.
    pub(super) fn listed(root: PathBuf, images: Vec<StoredImage>, classes: Vec<String>) -> Self {
        let (archives, ignored) = (Vec::new(), Ignored::none());
        Self { root, layout: Layout::List, images, archives, objects: None, classes, ignored }
    }

    /// Orders images by label and then by id.
    pub(super) fn sorted(mut self) -> Self {
        self.images.sort_by(|a, b| (a.label.class(), &a.id).cmp(&(b.label.class(), &b.id)));
        self
    }

    fn read(&self, image: &StoredImage) -> Result<Vec<u8>, DataError> {
        match &image.place {
            Place::ById => read_file(&self.root.join(&image.id)),
            Place::File(path) => read_file(path),
            Place::Object { size } => match &self.objects {
                Some(objects) => objects.read(&image.id, *size),
                None => Err(DataError::NoImages { path: self.root.clone() }),
            },
            Place::Packed { archive, offset, stored, packing } => {
                let archive = &self.archives[*archive as usize];
                match *packing {
                    Packing::Plain => archive.read(*offset, *stored, &image.id),
                    Packing::Deflate { len, crc } => {
                        check_size(archive.path(), &image.id, len)?;
                        let packed = archive.read(*offset, *stored, &image.id)?;
                        inflate(archive.path(), &image.id, &packed, len, crc)
                    }
                }
            }
        }
    }
}

/// Unpacks one entry of a zip archive. What arrives is bounded by the declared length, whatever the data would unpack to.
fn inflate(path: &Path, id: &str, packed: &[u8], len: u64, crc: u32) -> Result<Vec<u8>, DataError> {
    let bad = |found: String| DataError::format(path, format!("entry `{id}`"), found, format!("{len} intact bytes"));
    let mut bytes = Vec::new();
    DeflateDecoder::new(packed).take(len + 1).read_to_end(&mut bytes).map_err(|e| bad(e.to_string()))?;
    if bytes.len() as u64 != len {
        return Err(bad(if bytes.len() as u64 > len { "longer".into() } else { format!("{} bytes", bytes.len()) }));
    }
    let mut sum = flate2::Crc::new();
    sum.update(&bytes);
    if sum.sum() != crc {
        return Err(bad("data with another checksum".into()));
    }
    Ok(bytes)
}

impl Dataset for ImageFiles {
    fn layout(&self) -> Layout {
        self.layout
    }

    fn len(&self) -> usize {
        self.images.len()
    }

    fn classes(&self) -> &[String] {
        &self.classes
    }

    fn id(&self, index: usize) -> String {
        self.images[index].id.clone()
    }

    fn label(&self, index: usize) -> Result<Label, DataError> {
        Ok(self.images[index].label.clone())
    }

    fn sample(&self, index: usize) -> Result<Sample, DataError> {
        let image = &self.images[index];
        Ok(Sample { id: image.id.clone(), payload: Payload::Encoded(self.read(image)?), label: image.label.clone() })
    }

    fn ignored(&self) -> &Ignored {
        &self.ignored
    }

    fn reads_at_once(&self) -> usize {
        if self.objects.is_some() { OBJECTS_AT_ONCE } else { 1 }
    }
}
