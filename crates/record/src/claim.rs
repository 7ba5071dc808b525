use std::fs::{File, OpenOptions, TryLockError};
use std::path::Path;

/// The right to make something, among runs that share a folder. It ends when it is dropped, and with the process, however that ends.
#[derive(Debug)]
pub struct Claim {
    /// Locked; `None` where there is nobody to share with, or no lock to be had.
    _file: Option<File>,
}

impl Claim {
    /// Where nobody else makes anything.
    pub fn alone() -> Self {
        Self { _file: None }
    }

    /// Claims `name` in `folder`; `None` while another run has it. On a file system without locks everybody gets everything: work is then done twice, and no record is wrong.
    pub(crate) fn new(folder: &Path, name: &str) -> Option<Self> {
        let claims = folder.join("claims");
        let file = std::fs::create_dir_all(&claims)
            .and_then(|()| OpenOptions::new().write(true).create(true).truncate(false).open(claims.join(name)));
        let Ok(file) = file else { return Some(Self::alone()) };
        match file.try_lock() {
            Ok(()) => Some(Self { _file: Some(file) }),
            Err(TryLockError::WouldBlock) => None,
            Err(TryLockError::Error(_)) => Some(Self::alone()),
        }
    }
}
