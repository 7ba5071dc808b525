//! Folder trees of JPEG files.

use std::collections::HashMap;
use std::path::{Component, Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::atomic::write_image;
use super::error::WriteError;
use super::progress::{Progress, WriteOptions};
use super::settings::claim;
use super::source::ImageSource;
use crate::blocks::jpeg::encode;
use crate::corruptor::Corruptor;
use crate::set::CorruptionSet;
use crate::spec::CorruptionSpec;
use crate::storage::STORED_QUALITY;

/// Writes every image of `source` with every corruption of `specs` as a JPEG below `out`.
///
/// The files are the storage step: one that `corruptor` is set to is left out. Files that exist are left alone. The first failure stops the run; finished files stay.
pub fn write_folder(
    out: &Path,
    source: &dyn ImageSource,
    specs: &[CorruptionSpec],
    corruptor: &Corruptor,
    options: &WriteOptions<'_>,
) -> Result<Progress, WriteError> {
    let names = output_names(source)?;
    let mut sets: Vec<&str> = specs.iter().map(|spec| spec.set.name()).collect();
    sets.sort_unstable();
    sets.dedup();
    let settings = format!(
        "layout folder, set {}, {} images, seed {}, {}\n",
        sets.join(" and "),
        source.len(),
        corruptor.seed(),
        corruptor.frost_name()
    );
    let _claim = claim(out, &settings)?;
    let run = Run {
        out,
        source,
        specs,
        corruptor,
        options,
        names,
        next: AtomicUsize::new(0),
        stopped: AtomicBool::new(false),
        counts: Mutex::new(Progress { done: 0, skipped: 0, total: specs.len() * source.len() }),
    };
    let failure = Mutex::new(None);
    std::thread::scope(|scope| {
        for _ in 0..options.threads.max(1) {
            scope.spawn(|| {
                if let Err(error) = run.work() {
                    run.stopped.store(true, Ordering::Relaxed);
                    failure.lock().expect("no holder panics").get_or_insert(error);
                }
            });
        }
    });
    match failure.into_inner().expect("no holder panics") {
        Some(error) => Err(error),
        None => Ok(run.counts.into_inner().expect("no holder panics")),
    }
}

struct Run<'a> {
    out: &'a Path,
    source: &'a dyn ImageSource,
    specs: &'a [CorruptionSpec],
    corruptor: &'a Corruptor,
    options: &'a WriteOptions<'a>,
    names: Vec<PathBuf>,
    next: AtomicUsize,
    stopped: AtomicBool,
    counts: Mutex<Progress>,
}

impl Run<'_> {
    /// Takes images until none is left.
    fn work(&self) -> Result<(), WriteError> {
        loop {
            let index = self.next.fetch_add(1, Ordering::Relaxed);
            if index >= self.names.len() || self.stopped.load(Ordering::Relaxed) {
                return Ok(());
            }
            self.write_image(index)?;
        }
    }

    fn write_image(&self, index: usize) -> Result<(), WriteError> {
        let path = || self.source.relative_path(index);
        let outputs = self.specs.iter().map(|spec| (spec, self.output(spec, index)));
        let (there, missing): (Vec<_>, Vec<_>) = outputs.partition(|(_, output)| output.exists());
        for _ in &there {
            self.report(1);
        }
        if missing.is_empty() {
            return Ok(());
        }
        let image = self.source.load(index).map_err(|source| WriteError::Load { index, path: path(), source })?;
        for (spec, output) in missing {
            let corrupted = self
                .corruptor
                .corrupt_unstored(&image, spec, self.source.stored_index(index) as u64)
                .map_err(|source| WriteError::Corrupt { index, path: path(), source })?;
            let file = encode(&corrupted, STORED_QUALITY).map_err(|source| WriteError::Encode {
                index,
                path: path(),
                source,
            })?;
            write_image(&output, &file)?;
            self.report(0);
        }
        Ok(())
    }

    fn output(&self, spec: &CorruptionSpec, index: usize) -> PathBuf {
        self.out.join(spec.name).join(severity_folder(spec)).join(&self.names[index])
    }

    fn report(&self, skipped: usize) {
        let progress = {
            let mut counts = self.counts.lock().expect("no holder panics");
            counts.done += 1;
            counts.skipped += skipped;
            *counts
        };
        (self.options.on_progress)(progress);
    }
}

/// `3`, or the severity number with two decimals for the C-bar sets.
fn severity_folder(spec: &CorruptionSpec) -> String {
    match spec.set {
        CorruptionSet::ImageNetCBar | CorruptionSet::CifarCBar => {
            let number = spec.entry().map_or(0.0, |entry| entry.rows[spec.severity.index()][0]);
            format!("{number:.2}")
        }
        CorruptionSet::ImageNetC
        | CorruptionSet::TinyImageNetC
        | CorruptionSet::CifarC
        | CorruptionSet::Calibration => spec.severity.to_string(),
    }
}

/// The path of every output below its severity folder.
fn output_names(source: &dyn ImageSource) -> Result<Vec<PathBuf>, WriteError> {
    let mut seen: HashMap<PathBuf, usize> = HashMap::with_capacity(source.len());
    let mut names = Vec::with_capacity(source.len());
    for index in 0..source.len() {
        let path = source.relative_path(index);
        let plain = !path.is_empty()
            && !path.contains('\0')
            && Path::new(&path).components().all(|part| matches!(part, Component::Normal(_)));
        if !plain {
            return Err(WriteError::UnsafePath { path });
        }
        let mut name = PathBuf::from(&path);
        let is_jpeg = name.extension().is_some_and(|ending| ending == "JPEG");
        if !is_jpeg {
            name.set_extension("JPEG");
        }
        if let Some(&first) = seen.get(&name) {
            return Err(WriteError::SamePath { first, second: index, path: name.display().to_string() });
        }
        seen.insert(name.clone(), index);
        names.push(name);
    }
    Ok(names)
}

#[cfg(test)]
mod tests;
