//! One shard: a tar of samples that appears whole or not at all.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use serde_json::json;
use tar::{Builder, Header};

use super::atomic::{finish, partial_path};
use super::error::WriteError;
use crate::ccc::Cell;

/// One image of a stream, ready to be stored.
pub struct ShardSample {
    /// Number of the image in the stream.
    pub position: u64,
    /// The corrupted image as a JPEG file.
    pub jpeg: Vec<u8>,
    /// Its label.
    pub label: i64,
    /// Path of the clean image below its dataset.
    pub source: String,
    /// What was done to it.
    pub cell: Cell,
}

/// A shard that is being written under a temporary name.
pub struct ShardFile {
    path: PathBuf,
    partial: PathBuf,
    tar: Builder<BufWriter<File>>,
}

impl ShardFile {
    /// Starts the shard `path` anew; what an earlier run left unfinished is lost.
    pub fn create(path: &Path) -> Result<Self, WriteError> {
        let partial = partial_path(path);
        let created = path.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| File::create(&partial));
        match created {
            Ok(file) => Ok(Self { path: path.to_owned(), partial, tar: Builder::new(BufWriter::new(file)) }),
            Err(source) => Err(WriteError::Io { path: partial, source }),
        }
    }

    /// Adds the three fields of a sample.
    pub fn append(&mut self, sample: &ShardSample) -> Result<(), WriteError> {
        let Cell { pair, severities, .. } = sample.cell;
        let info = json!({
            "source": sample.source,
            "corruptions": [pair.first, pair.second],
            "severities": [severities.0.value(), severities.1.value()],
        });
        let (label, info) = (sample.label.to_string(), info.to_string());
        for (field, bytes) in
            [("input.jpg", sample.jpeg.as_slice()), ("output.cls", label.as_bytes()), ("info", info.as_bytes())]
        {
            let name = format!("sample_{}.{field}", sample.position);
            self.add(&name, bytes).map_err(|source| WriteError::Io { path: self.partial.clone(), source })?;
        }
        Ok(())
    }

    /// Adds a file without owner and time, so that a shard depends on its samples alone.
    fn add(&mut self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let mut header = Header::new_ustar();
        header.set_path(name)?;
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(0);
        header.set_cksum();
        self.tar.append(&header, bytes)
    }

    /// Ends the archive and gives it its name.
    pub fn finish(self) -> Result<(), WriteError> {
        let ended = self.tar.into_inner().and_then(|mut file| file.flush());
        match ended {
            Ok(()) => finish(&self.partial, &self.path),
            Err(source) => Err(WriteError::Io { path: self.partial, source }),
        }
    }
}
