use super::contents::Contents;
use super::errors::ImportError;
use super::pickle::{StorageRef, read_pickle};
use super::state_dict::read_state_dict;
use super::zip::{Archive, ZipError};
use crate::text::shown;
use std::ops::Range;

/// The record that holds the pickled object, in the archive's one folder.
const PICKLE: &str = "data.pkl";

/// Reads the archive `torch.save` writes since version 1.6: the object in `data.pkl`, each storage in a record of its
/// own. `wanted` names the state dict where there are several.
pub(super) fn read_torch_zip(
    bytes: &[u8],
    archive: &Archive<'_>,
    wanted: Option<&str>,
) -> Result<Contents, ImportError> {
    let folder = find_folder(archive)?;
    check_byte_order(bytes, archive, folder)?;
    let record = archive.locate(&format!("{folder}/{PICKLE}"))?;
    let pickle = read_pickle(&bytes[record.clone()])?;
    if pickle.len != record.len() {
        return Err(ImportError::TrailingBytes { what: "the pickle", found: (record.len() - pickle.len) as u64 });
    }
    let locate = |storage: &StorageRef<'_>| locate_storage(archive, folder, storage);
    read_state_dict(&pickle, wanted, &locate)
}

/// The folder all records are in.
fn find_folder<'a>(archive: &Archive<'a>) -> Result<&'a str, ImportError> {
    let folders = archive.names().filter_map(|name| {
        let (folder, file) = name.split_once('/')?;
        (file == PICKLE).then_some(folder)
    });
    let folders: Vec<&str> = folders.collect();
    match folders[..] {
        [folder] => {
            let constants = format!("{folder}/constants.pkl");
            if archive.holds(&constants) {
                return Err(ImportError::TorchScript);
            }
            Ok(folder)
        }
        [] => {
            let record = PICKLE.to_owned();
            Err(ZipError::MissingRecord { record }.into())
        }
        _ => {
            let found = folders.len();
            Err(ZipError::SeveralPickles { found }.into())
        }
    }
}

/// Archives without the record come from versions that wrote little-endian files only.
pub(super) fn check_byte_order(bytes: &[u8], archive: &Archive<'_>, folder: &str) -> Result<(), ImportError> {
    let record = format!("{folder}/byteorder");
    if !archive.holds(&record) {
        return Ok(());
    }
    let order = &bytes[archive.locate(&record)?];
    if order == b"little" {
        return Ok(());
    }
    let start = &order[..order.len().min(16)];
    Err(ImportError::ByteOrder { found: shown(&String::from_utf8_lossy(start)) })
}

/// The record of a storage, which must be as long as the pickle says.
fn locate_storage(archive: &Archive<'_>, folder: &str, storage: &StorageRef<'_>) -> Result<Range<usize>, ImportError> {
    let range = archive.locate(&format!("{folder}/data/{}", storage.key))?;
    let declared = storage.len.checked_mul(storage.dtype.size() as u64);
    if declared != Some(range.len() as u64) {
        return Err(ImportError::StorageMismatch {
            key: shown(storage.key),
            unit: "bytes",
            declared: declared.unwrap_or(u64::MAX),
            found: range.len() as u64,
        });
    }
    Ok(range)
}
