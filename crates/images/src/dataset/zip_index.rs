use std::fs::File;
use std::path::Path;

use zip::{CompressionMethod, ZipArchive};

use super::DataError;
use super::archive::{ArchiveIndex, PackedFile, bad_entry, check_within, entry_path};
use super::bytes_at::FileAt;
use super::files::Packing;

/// Opens the directory of a zip archive.
pub(crate) fn open_zip(file: &FileAt) -> Result<ZipArchive<File>, DataError> {
    ZipArchive::new(file.rewound()?).map_err(|e| DataError::format(file.path(), "the archive", e, "a zip directory"))
}

/// The names in the directory.
pub(crate) fn names_in(archive: &ZipArchive<File>) -> Vec<String> {
    archive.file_names().filter_map(|name| Some(name.ok()?.into_owned())).collect()
}

/// Finds every entry. Nothing is unpacked, so that a bomb costs only the entry that is read, and no more than it declares.
pub(super) fn read_zip(file: &FileAt) -> Result<ArchiveIndex, DataError> {
    let path: &Path = file.path();
    let mut archive = open_zip(file)?;
    let (mut files, mut folders) = (Vec::new(), Vec::new());
    for number in 0..archive.len() {
        let entry = archive
            .by_index_raw(number)
            .map_err(|e| DataError::format(path, format!("entry {number}"), e, "an entry of the directory"))?;
        // Some Windows programs write backslashes.
        let name = String::from_utf8_lossy(entry.name_raw()).replace('\\', "/");
        let clean = entry_path(path, &name)?;
        if entry.is_dir() || name.ends_with('/') {
            folders.push(clean);
            continue;
        }
        if entry.is_symlink() {
            return Err(bad_entry(path, &name, "is a link"));
        }
        if entry.encrypted() {
            return Err(bad_entry(path, &name, "is encrypted"));
        }
        let packing = match entry.compression() {
            CompressionMethod::Stored => Packing::Plain,
            CompressionMethod::Deflated => Packing::Deflate { len: entry.size(), crc: entry.crc32() },
            _ => return Err(bad_entry(path, &name, "is neither stored nor deflated")),
        };
        let offset = entry.data_start().ok_or_else(|| bad_entry(path, &name, "has no data"))?;
        let stored = entry.compressed_size();
        check_within(file, &name, offset, stored)?;
        files.push(PackedFile { path: clean, offset, stored, packing });
    }
    Ok(ArchiveIndex { files, folders })
}
