//! A file that says how a folder was written, so that two runs never mix.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use super::atomic::write_whole;
use super::error::WriteError;

/// Name of the settings file in an output folder.
const SETTINGS_FILE: &str = "flipcast-corrupt.txt";
/// Longest settings file that is read.
const MAX_BYTES: u64 = 4096;

/// Leaves a settings file in `folder`, or checks the one that is there.
pub fn claim(folder: &Path, settings: &str) -> Result<(), WriteError> {
    let path = folder.join(SETTINGS_FILE);
    let failed = |source| WriteError::Io { path: path.clone(), source };
    match fs::metadata(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => write_whole(&path, settings.as_bytes()),
        Err(error) => Err(failed(error)),
        Ok(metadata) => {
            let found = if metadata.len() > MAX_BYTES {
                format!("{} bytes", metadata.len())
            } else {
                String::from_utf8_lossy(&fs::read(&path).map_err(failed)?).into_owned()
            };
            if found == settings {
                return Ok(());
            }
            Err(WriteError::OtherSettings { path, found, expected: settings.to_owned() })
        }
    }
}
