use crate::RecordError;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Writes `bytes` to the file at `path`, which holds either what it held before or all of them, whatever happens.
///
/// They go to a temporary file beside it, which is brought to disk and renamed. What is no plain file, such as a pipe,
/// is written to directly.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> Result<(), RecordError> {
    let write_error = |source| RecordError::Write { path: path.to_owned(), source };
    if is_special(path) {
        return std::fs::write(path, bytes).map_err(write_error);
    }
    let temporary = temporary_path(path);
    let written = File::create(&temporary).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()
    });
    let renamed = written.and_then(|()| std::fs::rename(&temporary, path));
    if let Err(source) = renamed {
        // The error that matters is the first one.
        let _ = std::fs::remove_file(&temporary);
        return Err(write_error(source));
    }
    sync_folder(path);
    Ok(())
}

/// Whether `path` exists and is neither a file nor a folder: renaming over a device would replace it.
pub(crate) fn is_special(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir())
}

/// A hidden name beside `path` that no other process uses.
fn temporary_path(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.{}.partial", std::process::id()))
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
