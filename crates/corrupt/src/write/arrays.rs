//! Array files, one per corruption.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::Path;

use flipcast_ground::write_whole;
use flipcast_images::Image;

use super::atomic::{finish, partial_path};
use super::error::WriteError;
use super::npy::header;
use super::parallel::map_in_order;
use super::progress::{Progress, WriteOptions};
use super::settings::claim;
use super::source::ImageSource;
use crate::corruptor::Corruptor;
use crate::set::CorruptionSet;
use crate::spec::{CorruptionSpec, Severity};

/// Images corrupted before they are written together.
const CHUNK: usize = 256;

/// Writes every image of `source` with every corruption `names` of `set` at all five severities below `out`.
///
/// A file that was cut short is continued after its last whole image. The first failure stops the run.
pub fn write_arrays(
    out: &Path,
    source: &dyn ImageSource,
    set: CorruptionSet,
    names: &[&str],
    corruptor: &Corruptor,
    options: &WriteOptions<'_>,
) -> Result<Progress, WriteError> {
    if source.is_empty() {
        return Err(WriteError::NoImages);
    }
    let first = load(source, 0)?;
    let size = (first.width(), first.height());
    let frost = corruptor.frost_name();
    let settings = format!(
        "layout arrays, set {set}, {} images of {} x {}, seed {}, {frost}\n",
        source.len(),
        size.0,
        size.1,
        corruptor.seed()
    );
    let _claim = claim(out, &settings)?;
    write_labels(out, source)?;
    let per_file = 5 * source.len();
    let mut progress = Progress { done: 0, skipped: 0, total: names.len() * per_file };
    for name in names {
        let specs = Severity::ALL.map(|severity| CorruptionSpec::new(set, name, severity));
        let mut plan = Vec::with_capacity(specs.len());
        for spec in specs {
            plan.push(spec.map_err(|source| WriteError::Corrupt { index: 0, path: String::new(), source })?);
        }
        let path = out.join(format!("{name}.npy"));
        if path.exists() {
            progress.done += per_file;
            progress.skipped += per_file;
            (options.on_progress)(progress);
            continue;
        }
        let array = Array { source, plan: &plan, corruptor, options, size };
        array.write(&path, &mut progress)?;
    }
    Ok(progress)
}

fn load(source: &dyn ImageSource, index: usize) -> Result<Image, WriteError> {
    source.load(index).map_err(|cause| WriteError::Load { index, path: source.relative_path(index), source: cause })
}

/// `labels.npy`: the labels five times over. Without labels there is no such file.
fn write_labels(out: &Path, source: &dyn ImageSource) -> Result<(), WriteError> {
    let labels: Option<Vec<i64>> = (0..source.len()).map(|index| source.label(index)).collect();
    let Some(labels) = labels else { return Ok(()) };
    let mut bytes = header("<i8", &[5 * labels.len()]);
    for _ in 0..5 {
        bytes.extend(labels.iter().flat_map(|label| label.to_le_bytes()));
    }
    let path = out.join("labels.npy");
    write_whole(&path, &bytes).map_err(|source| WriteError::Io { path, source })
}

/// One file: severity 1 of all images, then severity 2 and so on.
struct Array<'a> {
    source: &'a dyn ImageSource,
    plan: &'a [CorruptionSpec],
    corruptor: &'a Corruptor,
    options: &'a WriteOptions<'a>,
    /// Width and height of every image.
    size: (usize, usize),
}

impl Array<'_> {
    fn write(&self, path: &Path, progress: &mut Progress) -> Result<(), WriteError> {
        let partial = partial_path(path);
        let failed = |source| WriteError::Io { path: partial.clone(), source };
        let count = self.source.len();
        let total = self.plan.len() * count;
        let header = header("|u1", &[total, self.size.1, self.size.0, 3]);
        let (mut file, there) = self.resume(&partial, &header, total).map_err(failed)?;
        progress.done += there;
        progress.skipped += there;
        (self.options.on_progress)(*progress);
        let mut position = there;
        while position < total {
            // A chunk ends with its severity at the latest.
            let chunk = (position..total.min(position + CHUNK).min((position / count + 1) * count)).collect::<Vec<_>>();
            let threads = self.options.threads;
            for image in map_in_order(&chunk, threads, |&position| self.corrupt_one(position))? {
                file.write_all(image.rgb()).map_err(failed)?;
            }
            position += chunk.len();
            progress.done += chunk.len();
            (self.options.on_progress)(*progress);
        }
        file.flush().map_err(failed)?;
        drop(file);
        finish(&partial, path)
    }

    /// Opens the unfinished file behind its last whole image, or a new one; says how many images are in it.
    fn resume(&self, partial: &Path, header: &[u8], total: usize) -> io::Result<(File, usize)> {
        let image_bytes = (3 * self.size.0 * self.size.1) as u64;
        let mut file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(partial)?;
        let length = fs::metadata(partial)?.len();
        let mut start = vec![0; header.len()];
        let same_header =
            length >= header.len() as u64 && io::Read::read_exact(&mut file, &mut start).is_ok() && start == header;
        if !same_header {
            file.set_len(0)?;
            file.seek(SeekFrom::Start(0))?;
            file.write_all(header)?;
            return Ok((file, 0));
        }
        let images = ((length - header.len() as u64) / image_bytes).min(total as u64);
        let end = header.len() as u64 + images * image_bytes;
        file.set_len(end)?;
        file.seek(SeekFrom::Start(end))?;
        Ok((file, images as usize))
    }

    fn corrupt_one(&self, position: usize) -> Result<Image, WriteError> {
        let (severity, index) = (position / self.source.len(), position % self.source.len());
        let image = load(self.source, index)?;
        if (image.width(), image.height()) != self.size {
            return Err(WriteError::SizeMismatch {
                index,
                width: image.width(),
                height: image.height(),
                expected_width: self.size.0,
                expected_height: self.size.1,
            });
        }
        let number = self.source.stored_index(index) as u64;
        let path = || self.source.relative_path(index);
        let corrupted = self.corruptor.corrupt(&image, &self.plan[severity], number);
        corrupted.map_err(|source| WriteError::Corrupt { index, path: path(), source })
    }
}
