//! Files that appear whole or not at all.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

/// Writes `bytes` to the file at `path`, which holds either what it held before or all of them, whatever happens.
pub fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    write_whole_with(path, |file| file.write_all(bytes))
}

/// Lets `write` fill the file at `path`, which holds either what it held before or all that was written.
///
/// It is written beside its place under a hidden name, brought to disk and renamed. What is no plain file, such as a pipe,
/// is written to directly, since renaming over a device would replace it.
pub fn write_whole_with(path: &Path, write: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
    if is_special(path) {
        return write(&mut File::options().write(true).open(path)?);
    }
    let folder = folder_of(path);
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name().ok_or(io::ErrorKind::InvalidFilename)?);
    let mut builder = tempfile::Builder::new();
    builder.prefix(&name).suffix(".partial");
    // The umask decides, as for any other file; a temporary file would be the owner's alone.
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    let mut file = builder.tempfile_in(folder)?;
    write(file.as_file_mut())?;
    file.as_file().sync_all()?;
    file.persist(path).map_err(|error| error.error)?;
    // Some file systems cannot bring a name to disk; the content is safe either way.
    if let Ok(folder) = File::open(folder) {
        let _ = folder.sync_all();
    }
    Ok(())
}

/// What helps where a write failed with `error`, if anything does.
pub fn write_hint(error: &io::Error) -> Option<String> {
    let text = match error.kind() {
        io::ErrorKind::StorageFull => "the disk is full; make room and run the same command again",
        io::ErrorKind::QuotaExceeded => "the quota is used up; make room and run the same command again",
        _ => return None,
    };
    Some(text.to_owned())
}

/// Whether `path` exists and is neither a file nor a folder.
pub fn is_special(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir())
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_write_leaves_the_old_file_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.json");
        write_whole(&path, b"old").unwrap();
        let failed = write_whole_with(&path, |file| {
            file.write_all(b"half")?;
            Err(io::Error::other("stopped"))
        });
        assert!(failed.is_err());
        assert_eq!(std::fs::read(&path).unwrap(), b"old");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_device_is_written_to_and_not_replaced() {
        let device = Path::new("/dev/null");
        if device.exists() {
            write_whole(device, b"gone").unwrap();
            assert!(is_special(device));
        }
    }
}
