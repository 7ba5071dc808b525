//! What a folder was written with, so that a second run continues the first and never mixes with another.

use flipcast_ground::{Hint, write_whole};
use serde::{Deserialize, Serialize};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Name of the settings file in an output folder.
const FILE: &str = "flipcast-settings.json";
/// Longest settings file that is read.
const MAX_BYTES: u64 = 1 << 16;
/// Raised when the fields change.
const VERSION: u32 = 1;

/// Everything the written files depend on, besides the corruptions asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    version: u32,
    /// Whose constants.
    pub set: String,
    /// How the files are laid out.
    pub layout: String,
    /// Number of clean images.
    pub images: usize,
    /// Digest of their paths, in order.
    pub image_names: String,
    /// What was done to them first.
    pub resize_crop: String,
    /// The seed of all draws.
    pub seed: u64,
    /// Which frost textures.
    pub frost: String,
}

/// An output folder that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// The settings differ.
    #[error("`{path}` was written with other settings: {differences}")]
    Differ {
        /// The folder.
        path: PathBuf,
        /// Each field that differs, with both values.
        differences: String,
    },
    /// The folder holds something else.
    #[error("`{path}` holds `{found}` and no `{FILE}`, but an empty folder or one this command wrote was expected")]
    Foreign {
        /// The folder.
        path: PathBuf,
        /// Something in it.
        found: String,
    },
    /// The settings file is damaged or newer.
    #[error("`{path}` is no settings file of this version")]
    NotUnderstood {
        /// The file.
        path: PathBuf,
        /// Why, where the parser says it.
        #[source]
        source: Option<serde_json::Error>,
    },
    /// The system refused.
    #[error("cannot use `{path}`")]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
}

impl Hint for SettingsError {
    fn hint(&self) -> Option<String> {
        let advice = match self {
            Self::Differ { .. } => "choose an empty folder, or repeat the settings of the earlier run",
            Self::Foreign { .. } => "choose an empty or new folder",
            Self::NotUnderstood { .. } => "choose an empty folder and write the set anew",
            Self::Io { .. } => return None,
        };
        Some(advice.to_owned())
    }
}

impl Settings {
    /// The settings of a run; `names_digest` tells the images apart.
    pub fn new(
        set: &str,
        layout: &str,
        (images, names_digest): (usize, u64),
        resize_crop: String,
        seed: u64,
        frost: String,
    ) -> Self {
        Self {
            version: VERSION,
            set: set.to_owned(),
            layout: layout.to_owned(),
            images,
            image_names: format!("{names_digest:016x}"),
            resize_crop,
            seed,
            frost,
        }
    }

    /// Leaves the settings in `folder`, or compares them with those that are there.
    pub fn claim(&self, folder: &Path) -> Result<(), SettingsError> {
        let path = folder.join(FILE);
        let io = |path: &Path| {
            let path = path.to_owned();
            move |source| SettingsError::Io { path, source }
        };
        match std::fs::metadata(&path) {
            Ok(metadata) if metadata.len() > MAX_BYTES => Err(SettingsError::NotUnderstood { path, source: None }),
            Ok(_) => {
                let bytes = std::fs::read(&path).map_err(io(&path))?;
                self.compare(folder, &path, &bytes)
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {
                std::fs::create_dir_all(folder).map_err(io(folder))?;
                refuse_foreign(folder).map_err(io(folder))??;
                let text = serde_json::to_string_pretty(self).expect("plain fields") + "\n";
                write_whole(&path, text.as_bytes()).map_err(io(&path))
            }
            Err(source) => Err(SettingsError::Io { path, source }),
        }
    }

    fn compare(&self, folder: &Path, path: &Path, bytes: &[u8]) -> Result<(), SettingsError> {
        let found: Self = serde_json::from_slice(bytes)
            .map_err(|error| SettingsError::NotUnderstood { path: path.to_owned(), source: Some(error) })?;
        if found.version != VERSION {
            return Err(SettingsError::NotUnderstood { path: path.to_owned(), source: None });
        }
        let pairs = [
            ("set", &found.set, &self.set),
            ("layout", &found.layout, &self.layout),
            ("images", &found.images.to_string(), &self.images.to_string()),
            ("names of the images", &found.image_names, &self.image_names),
            ("resize-crop", &found.resize_crop, &self.resize_crop),
            ("seed", &found.seed.to_string(), &self.seed.to_string()),
            ("frost", &found.frost, &self.frost),
        ];
        let differing = pairs.iter().filter(|(_, found, asked)| found != asked);
        let differences: Vec<String> =
            differing.map(|(what, found, asked)| format!("{what} {found} there, {asked} asked for")).collect();
        if differences.is_empty() {
            return Ok(());
        }
        Err(SettingsError::Differ { path: folder.to_owned(), differences: differences.join("; ") })
    }
}

/// Refuses a folder with files in it; names that start with a dot do not count.
fn refuse_foreign(folder: &Path) -> std::io::Result<Result<(), SettingsError>> {
    for entry in std::fs::read_dir(folder)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if !name.starts_with('.') {
            return Ok(Err(SettingsError::Foreign { path: folder.to_owned(), found: name }));
        }
    }
    Ok(Ok(()))
}
