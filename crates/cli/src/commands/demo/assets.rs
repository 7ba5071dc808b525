//! What the demo works on, carried in the program.

use anyhow::{Context, Result};
use flipcast_record::write_atomically;
use std::path::{Path, PathBuf};

const FILES: [(&str, &[u8]); 5] = [
    (WEIGHTS, include_bytes!("../../../assets/demo/resnet20.fashion_mnist.safetensors")),
    ("resnet20.fashion_mnist.json", include_bytes!("../../../assets/demo/resnet20.fashion_mnist.json")),
    (CALIBRATION, include_bytes!("../../../assets/demo/calibration.json")),
    ("images/t10k-images-idx3-ubyte.gz", include_bytes!("../../../assets/demo/t10k-images-idx3-ubyte.gz")),
    ("images/t10k-labels-idx1-ubyte.gz", include_bytes!("../../../assets/demo/t10k-labels-idx1-ubyte.gz")),
];
const WEIGHTS: &str = "resnet20.fashion_mnist.safetensors";
const CALIBRATION: &str = "calibration.json";

/// A folder with the demo's files.
pub struct Folder(PathBuf);

/// Writes the files to `keep`, or to a folder of this process's own.
pub fn unpack(keep: Option<&Path>) -> Result<Folder> {
    let folder = match keep {
        Some(folder) => folder.to_owned(),
        None => std::env::temp_dir().join(format!("flipcast-demo-{}", std::process::id())),
    };
    let cannot = || format!("cannot write the demo's files to `{}`", folder.display());
    std::fs::create_dir_all(folder.join("images")).with_context(cannot)?;
    for (name, bytes) in FILES {
        write_atomically(&folder.join(name), bytes).with_context(cannot)?;
    }
    Ok(Folder(folder))
}

impl Folder {
    pub fn weights(&self) -> PathBuf {
        self.0.join(WEIGHTS)
    }

    pub fn calibration(&self) -> PathBuf {
        self.0.join(CALIBRATION)
    }

    pub fn images(&self) -> String {
        self.0.join("images").to_string_lossy().into_owned()
    }

    /// Removes the folder unless it is kept.
    pub fn close(self, keep: bool) -> Result<()> {
        if keep {
            return Ok(());
        }
        std::fs::remove_dir_all(&self.0).with_context(|| format!("cannot remove `{}`", self.0.display()))
    }
}
