//! Reading the published photographs.

use std::error::Error;
use std::path::{Path, PathBuf};

use flipcast_ground::Hint;
use flipcast_images::Image;

use super::scale::FrostTextures;

/// The files the published generator chooses from. Its sixth, `frost6.jpg`, is never used.
pub const FROST_FILES: [&str; 5] = ["frost1.png", "frost2.png", "frost3.png", "frost4.jpg", "frost5.jpg"];

/// Longest frost file that is read.
const MAX_FILE_BYTES: u64 = 64 << 20;

/// A folder of frost photographs that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FrostError {
    /// A file is missing or unreadable.
    #[error("cannot read frost texture `{path}`")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// A file is far longer than a photograph.
    #[error("frost texture `{path}` has {found} bytes, but at most {limit} are read")]
    TooLong {
        /// The file.
        path: PathBuf,
        /// Its length.
        found: u64,
        /// The limit.
        limit: u64,
    },
    /// A file is no image.
    #[error("cannot decode frost texture `{path}`")]
    Decode {
        /// The file.
        path: PathBuf,
        /// What the decoder said.
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
    /// A picture has no pixels.
    #[error("frost texture `{path}` has no pixels")]
    Empty {
        /// The file.
        path: PathBuf,
    },
}

impl Hint for FrostError {
    fn hint(&self) -> Option<String> {
        let advice = "the folder must hold frost1.png, frost2.png, frost3.png, frost4.jpg and frost5.jpg as the published \
                      generator ships them; without a folder, procedural textures are used";
        Some(advice.to_owned())
    }
}

impl FrostTextures {
    /// Reads the five published photographs from `folder`, decoding them as RGB with `decode`.
    pub fn from_folder<E>(folder: &Path, decode: impl Fn(&[u8]) -> Result<Image, E>) -> Result<Self, FrostError>
    where
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        let mut textures = Vec::with_capacity(FROST_FILES.len());
        for name in FROST_FILES {
            let path = folder.join(name);
            let bytes = read_bounded(&path)?;
            let texture =
                decode(&bytes).map_err(|source| FrostError::Decode { path: path.clone(), source: source.into() })?;
            if texture.rgb().is_empty() {
                return Err(FrostError::Empty { path });
            }
            textures.push(texture);
        }
        Ok(Self::from_full(textures))
    }
}

fn read_bounded(path: &Path) -> Result<Vec<u8>, FrostError> {
    let failed = |source| FrostError::Read { path: path.to_owned(), source };
    let found = std::fs::metadata(path).map_err(failed)?.len();
    if found > MAX_FILE_BYTES {
        return Err(FrostError::TooLong { path: path.to_owned(), found, limit: MAX_FILE_BYTES });
    }
    std::fs::read(path).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_file_is_named() {
        let decode = |_: &[u8]| Err::<Image, _>("never called");
        let error = FrostTextures::from_folder(Path::new("no-such-folder"), decode).expect_err("nothing is there");
        assert!(matches!(&error, FrostError::Read { path, .. } if path.ends_with("frost1.png")));
        assert!(error.hint().expect("advice").contains("frost4.jpg"));
    }
}
