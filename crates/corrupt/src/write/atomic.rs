//! Files that appear whole or not at all.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use super::error::WriteError;

/// The name under which a file is written before it is whole.
pub fn partial_path(path: &Path) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(".partial");
    path.with_file_name(name)
}

/// Writes `bytes` under a temporary name and renames it to `path`, making the folders on the way.
///
/// Unlike [`flipcast_ground::write_whole`] it does not wait for the disk, which would take longer than the corruption of an
/// image; a set has millions of them.
pub fn write_image(path: &Path, bytes: &[u8]) -> Result<(), WriteError> {
    let partial = partial_path(path);
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(|source| WriteError::Io { path: folder.to_owned(), source })?;
    }
    fs::write(&partial, bytes).map_err(|source| WriteError::Io { path: partial.clone(), source })?;
    finish(&partial, path)
}

/// Gives a finished file its name.
pub fn finish(partial: &Path, path: &Path) -> Result<(), WriteError> {
    fs::rename(partial, path).map_err(|source| WriteError::Io { path: path.to_owned(), source })
}
