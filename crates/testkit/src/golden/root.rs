use std::path::PathBuf;

/// The folder with the goldens: `FLIPCAST_GOLDEN` when it is set, otherwise the repository's own.
pub fn golden_root() -> PathBuf {
    match std::env::var_os("FLIPCAST_GOLDEN") {
        Some(root) => PathBuf::from(root),
        None => PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../golden")),
    }
}
