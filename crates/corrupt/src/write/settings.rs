//! A file that says how a folder was written, so that two runs never mix.

use std::fs::{self, File, TryLockError};
use std::io::{Read, Write};
use std::path::Path;

use super::error::WriteError;

/// Name of the settings file in an output folder.
const SETTINGS_FILE: &str = "flipcast-corrupt.txt";
/// Longest settings file that is read.
const MAX_BYTES: u64 = 4096;

/// The right to write to a folder. The system takes it back when the process ends, however it ends.
#[must_use = "the folder is open to other runs again when this is dropped"]
pub struct Claim {
    _settings: File,
}

/// Leaves a settings file in `folder`, or checks the one that is there, and keeps it locked.
pub fn claim(folder: &Path, settings: &str) -> Result<Claim, WriteError> {
    let path = folder.join(SETTINGS_FILE);
    let failed = |source| WriteError::Io { path: path.clone(), source };
    fs::create_dir_all(folder).map_err(failed)?;
    let mut file = File::options().read(true).append(true).create(true).open(&path).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(WriteError::InUse { path: folder.to_owned() }),
        Err(TryLockError::Error(source)) => return Err(failed(source)),
    }
    let mut found = Vec::new();
    (&file).take(MAX_BYTES).read_to_end(&mut found).map_err(failed)?;
    // A run that was stopped while it wrote its settings has written nothing else, and only a start of them.
    match settings.as_bytes().strip_prefix(found.as_slice()) {
        Some(missing) => file.write_all(missing).map_err(failed)?,
        None => {
            let found = String::from_utf8_lossy(&found).into_owned();
            return Err(WriteError::OtherSettings { path, found, expected: settings.to_owned() });
        }
    }
    Ok(Claim { _settings: file })
}
