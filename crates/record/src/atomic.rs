use crate::RecordError;
use std::fs::File;
use std::path::Path;

/// [`flipcast_ground::write_whole`], with an error that names the file.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> Result<(), RecordError> {
    flipcast_ground::write_whole(path, bytes).map_err(|source| RecordError::Write { path: path.to_owned(), source })
}

/// Brings the name of a new or renamed file to disk. Some file systems cannot; the content is safe either way.
pub(crate) fn sync_folder(path: &Path) {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    if let Ok(folder) = File::open(folder) {
        let _ = folder.sync_all();
    }
}
