//! The files of a command: what it writes is none that it reads, and nothing is written twice.

use super::inputs::ModelArgs;
use crate::failure::Advised;
use anyhow::Result;
use flipcast_corrupt::DataSpec;
use flipcast_ground::is_special;
use flipcast_models::{ModelCard, RestoredNorms};
use std::path::{Path, PathBuf};

/// The files that a command line names, gathered before any work.
#[derive(Default)]
pub struct Files<'a> {
    read: Vec<Read<'a>>,
    written: Vec<Written<'a>>,
}

/// A file that is read.
struct Read<'a> {
    /// What it is, such as `the calibration`.
    what: &'static str,
    path: PathBuf,
    /// The file that the user named for it.
    named: &'a Path,
}

/// A file that is written.
struct Written<'a> {
    flag: &'static str,
    /// How the names of such files end.
    ending: &'static str,
    path: &'a Path,
}

impl<'a> Files<'a> {
    /// With a file that is read; `what` says what it is.
    pub fn reads(mut self, what: &'static str, path: Option<&'a Path>) -> Self {
        self.read.extend(path.map(|path| Read { what, path: path.to_owned(), named: path }));
        self
    }

    /// With images, where they are a file.
    pub fn reads_data(mut self, specs: impl IntoIterator<Item = &'a String>) -> Self {
        let read = |spec: &'a String| Read { what: "the data", path: data_file(spec), named: Path::new(spec) };
        self.read.extend(specs.into_iter().map(read));
        self
    }

    /// With record files, and those of folders.
    pub fn reads_records(mut self, runs: &'a [PathBuf]) -> Self {
        for named in runs {
            let entries = named.read_dir().into_iter().flatten().flatten().map(|entry| entry.path());
            let records = entries.filter(|path| {
                let name = path.to_string_lossy();
                name.ends_with(".jsonl") || name.ends_with(".jsonl.gz")
            });
            let read = |path| Read { what: "one of the records of", path, named };
            self.read.push(Read { what: "the file of records", path: named.clone(), named });
            self.read.extend(records.map(read));
        }
        self
    }

    /// With the model's weights, and with what stands beside them.
    pub fn reads_model(mut self, model: &'a ModelArgs) -> Self {
        let named = model.weight_file();
        let mut add = |what, path| self.read.push(Read { what, path, named });
        add("the weight file", named.to_owned());
        add("the place of the model card of", ModelCard::place_beside(named));
        add("the place of the restored norms of", RestoredNorms::place_beside(named));
        for entry in named.read_dir().into_iter().flatten().flatten() {
            add("a file of the model", entry.path());
        }
        self
    }

    /// With the file of `flag`, which is written; `ending` is how the names of such files end.
    pub fn writes(mut self, flag: &'static str, ending: &'static str, path: Option<&'a Path>) -> Self {
        self.written.extend(path.map(|path| Written { flag, ending, path }));
        self
    }

    /// Refuses what cannot be written, what would replace a file that is read, and two files in one place.
    pub fn check(&self) -> Result<()> {
        for (number, written) in self.written.iter().enumerate() {
            let Written { flag, path, .. } = written;
            check_writable(path)?;
            // What is no plain file, such as `/dev/null`, is not replaced.
            if is_special(path) {
                continue;
            }
            if let Some(read) = self.read.iter().find(|read| is_same(&read.path, path)) {
                let lost = if path.exists() { " and would be overwritten" } else { "" };
                let (shown, Read { what, named, .. }) = (path.display(), read);
                let problem = format!("`{flag}` is `{shown}`, which is {what} `{}`{lost}", named.display());
                return Err(written.elsewhere(problem, &data_file(&read.named.to_string_lossy())));
            }
            if let Some(other) = self.written[..number].iter().find(|other| is_same(other.path, path)) {
                let problem = format!("`{flag}` is `{}`, and so is `{}`", path.display(), other.flag);
                return Err(written.elsewhere(problem, path));
            }
        }
        Ok(())
    }
}

impl Written<'_> {
    /// The refusal, with a name that would do, made from that of `beside`.
    fn elsewhere(&self, problem: String, beside: &Path) -> anyhow::Error {
        let name = beside.with_extension(self.ending);
        Advised { problem, hint: format!("give another name, such as `{} {}`", self.flag, name.display()) }.into()
    }
}

/// Refuses to write where nothing can be written, before hours of work.
pub fn check_writable(path: &Path) -> Result<()> {
    let folder = folder_of(path);
    if folder.is_dir() && !path.is_dir() {
        return Ok(());
    }
    let problem = if path.is_dir() {
        format!("`{}` is a folder, expected the name of a file", path.display())
    } else {
        format!("the folder `{}` does not exist", folder.display())
    };
    Err(Advised { problem, hint: "give the path of a file in a folder that exists".to_owned() }.into())
}

/// Whether two paths lead to one file, or would if it were there.
fn is_same(one: &Path, other: &Path) -> bool {
    match (one.canonicalize(), other.canonicalize()) {
        (Ok(one), Ok(other)) => one == other,
        _ => place(one) == place(other),
    }
}

/// The path with its folder made plain, so that two spellings of one file are equal.
fn place(path: &Path) -> PathBuf {
    match (folder_of(path).canonicalize(), path.file_name()) {
        (Ok(folder), Some(name)) => folder.join(name),
        _ => path.to_owned(),
    }
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// The file behind `--data`: without a corruption, a part and the start of an address.
fn data_file(spec: &str) -> PathBuf {
    if Path::new(spec).exists() {
        return PathBuf::from(spec);
    }
    let path = spec.parse().map_or_else(|_| spec.to_owned(), |spec: DataSpec| spec.path);
    let path = path.strip_prefix("file://").unwrap_or(&path);
    let whole = path.split_once('#').map_or(path, |(whole, _)| whole);
    PathBuf::from(if Path::new(path).exists() { path } else { whole })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_behind_images_is_found() {
        for spec in ["a/b.npy", "a/b.npy@fog:3", "a/b.npy#first-half:7", "a/b.npy#test@fog:3", "file://a/b.npy"] {
            assert_eq!(data_file(spec), Path::new("a/b.npy"), "{spec}");
        }
        assert_eq!(data_file("me@home/b.npy"), Path::new("me@home/b.npy"));
    }
}
