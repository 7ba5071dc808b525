//! Datasets are written whole, resumed exactly and never mixed.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use flipcast_corrupt::write::{ImageSource, Progress, WriteError, WriteOptions, write_arrays, write_folder};
use flipcast_corrupt::{CorruptionSet, CorruptionSpec, Corruptor, Severity, Storage, corrupt};
use flipcast_ground::Hint;
use flipcast_images::Image;

/// Made-up images; reading fails once the budget is used up.
struct Pictures {
    count: usize,
    side: usize,
    reads_left: AtomicUsize,
}

impl Pictures {
    fn new(count: usize, side: usize) -> Self {
        Self { count, side, reads_left: AtomicUsize::new(usize::MAX) }
    }

    fn picture(&self, index: usize) -> Image {
        let rgb = (0..3 * self.side * self.side).map(|i| (i * (index + 3) % 251) as u8).collect();
        Image::new(self.side, self.side, rgb).expect("sizes match")
    }
}

impl ImageSource for Pictures {
    fn len(&self) -> usize {
        self.count
    }

    fn relative_path(&self, index: usize) -> String {
        format!("class{}/picture_{index}.png", index % 2)
    }

    fn label(&self, index: usize) -> Option<i64> {
        Some((index % 2) as i64)
    }

    fn load(&self, index: usize) -> Result<Image, Box<dyn Error + Send + Sync>> {
        if self.reads_left.fetch_sub(1, Ordering::Relaxed) == 0 {
            return Err("the disk is gone".into());
        }
        Ok(self.picture(index))
    }
}

/// A folder that disappears with the test.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("flipcast-corrupt-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut open = vec![folder.to_owned()];
    while let Some(next) = open.pop() {
        for entry in fs::read_dir(next).expect("a folder").map(|entry| entry.expect("readable").path()) {
            if entry.is_dir() {
                open.push(entry);
            } else {
                let bytes = fs::read(&entry).expect("readable");
                found.insert(entry.strip_prefix(folder).expect("below").to_owned(), bytes);
            }
        }
    }
    found
}

fn specs() -> Vec<CorruptionSpec> {
    [("gaussian_noise", 1), ("gaussian_noise", 5), ("fog", 2)]
        .map(|(name, severity)| {
            CorruptionSpec::new(CorruptionSet::CifarC, name, Severity::ALL[severity - 1]).expect("listed")
        })
        .to_vec()
}

fn options(threads: usize) -> WriteOptions<'static> {
    WriteOptions { threads, on_progress: &|_| {} }
}

#[test]
fn folders_have_the_published_layout_whatever_the_threads() {
    let (one, many) = (Scratch::new("one"), Scratch::new("many"));
    let source = Pictures::new(5, 16);
    let told = Mutex::new(Vec::new());
    let telling = WriteOptions { threads: 3, on_progress: &|progress| told.lock().expect("no panic").push(progress) };
    write_folder(&one.0, &source, &specs(), &Corruptor::new(1), &options(1)).expect("writable");
    let done = write_folder(&many.0, &source, &specs(), &Corruptor::new(1), &telling).expect("writable");
    assert_eq!(done, Progress { done: 15, skipped: 0, total: 15 });
    assert_eq!(told.into_inner().expect("no panic").len(), 15);
    let written = files(&one.0);
    assert_eq!(written, files(&many.0));
    assert_eq!(written.len(), 15 + 1);
    assert!(written.contains_key(Path::new("gaussian_noise/5/class1/picture_3.JPEG")));
    assert!(written.contains_key(Path::new("fog/2/class0/picture_4.JPEG")));
}

#[test]
fn files_are_compressed_once_whatever_the_storage_step() {
    let (plain, stored) = (Scratch::new("plain"), Scratch::new("stored"));
    let source = Pictures::new(1, 16);
    let twice = Corruptor::new(1).with_storage(Storage::Jpeg85);
    write_folder(&plain.0, &source, &specs(), &Corruptor::new(1), &options(1)).expect("writable");
    write_folder(&stored.0, &source, &specs(), &twice, &options(1)).expect("writable");
    assert_eq!(files(&plain.0), files(&stored.0));
}

#[test]
fn an_interrupted_folder_is_completed_to_the_same_files() {
    let (whole, broken) = (Scratch::new("whole"), Scratch::new("broken"));
    let source = Pictures::new(6, 8);
    write_folder(&whole.0, &source, &specs(), &Corruptor::new(4), &options(1)).expect("writable");
    source.reads_left.store(3, Ordering::Relaxed);
    let error = write_folder(&broken.0, &source, &specs(), &Corruptor::new(4), &options(2)).expect_err("reads fail");
    assert!(matches!(error, WriteError::Load { .. }));
    source.reads_left.store(usize::MAX, Ordering::Relaxed);
    let done = write_folder(&broken.0, &source, &specs(), &Corruptor::new(4), &options(2)).expect("writable");
    assert!(done.skipped > 0 && done.done == done.total);
    assert_eq!(files(&whole.0), files(&broken.0));
}

#[test]
fn other_settings_and_hostile_paths_are_refused() {
    struct Escaping;
    impl ImageSource for Escaping {
        fn len(&self) -> usize {
            1
        }
        fn relative_path(&self, _: usize) -> String {
            "../outside.png".to_owned()
        }
        fn label(&self, _: usize) -> Option<i64> {
            None
        }
        fn load(&self, _: usize) -> Result<Image, Box<dyn Error + Send + Sync>> {
            Err("never read".into())
        }
    }
    let scratch = Scratch::new("settings");
    let source = Pictures::new(1, 8);
    write_folder(&scratch.0, &source, &specs(), &Corruptor::new(1), &options(1)).expect("writable");
    let error = write_folder(&scratch.0, &source, &specs(), &Corruptor::new(2), &options(1)).expect_err("mixed");
    assert!(matches!(error, WriteError::OtherSettings { .. }) && error.hint().is_some());
    let error = write_folder(&scratch.0, &Escaping, &specs(), &Corruptor::new(1), &options(1)).expect_err("hostile");
    assert!(matches!(error, WriteError::UnsafePath { .. }));
}

#[test]
fn c_bar_folders_are_named_after_the_severity_number() {
    let scratch = Scratch::new("bar");
    let spec = CorruptionSpec::new(CorruptionSet::ImageNetCBar, "sparkles", Severity::ALL[2]).expect("listed");
    write_folder(&scratch.0, &Pictures::new(1, 8), &[spec], &Corruptor::new(1), &options(1)).expect("writable");
    assert!(scratch.0.join("sparkles/3.00/class0/picture_0.JPEG").exists());
}

#[test]
fn arrays_hold_severity_blocks_and_labels_five_times() {
    let scratch = Scratch::new("arrays");
    let source = Pictures::new(7, 8);
    let set = CorruptionSet::CifarC;
    write_arrays(&scratch.0, &source, set, &["contrast"], &Corruptor::new(1), &options(2)).expect("writable");
    let bytes = fs::read(scratch.0.join("contrast.npy")).expect("written");
    let data = &bytes[bytes.len() - 5 * 7 * 192..];
    assert_eq!((bytes.len() - data.len()) % 64, 0);
    assert!(String::from_utf8_lossy(&bytes[..128]).contains("'shape': (35, 8, 8, 3)"));
    for (position, found) in data.chunks_exact(192).enumerate() {
        let spec = CorruptionSpec::new(set, "contrast", Severity::ALL[position / 7]).expect("listed");
        let expected = corrupt(&source.picture(position % 7), &spec, 1, (position % 7) as u64).expect("small");
        assert_eq!(found, expected.rgb());
    }
    let labels = fs::read(scratch.0.join("labels.npy")).expect("written");
    let labels: Vec<i64> = labels[labels.len() - 35 * 8..]
        .chunks_exact(8)
        .map(|bytes| i64::from_le_bytes(bytes.try_into().expect("eight bytes")))
        .collect();
    assert_eq!(labels, [0, 1, 0, 1, 0, 1, 0].repeat(5));
}

#[test]
fn an_interrupted_array_is_continued_after_its_last_whole_image() {
    let (whole, broken) = (Scratch::new("array-whole"), Scratch::new("array-broken"));
    let source = Pictures::new(4, 8);
    let write = |out: &Path| {
        let names = ["gaussian_noise", "snow"];
        write_arrays(out, &source, CorruptionSet::CifarC, &names, &Corruptor::new(1), &options(1))
    };
    write(&whole.0).expect("writable");
    source.reads_left.store(7, Ordering::Relaxed);
    write(&broken.0).expect_err("reads fail");
    assert!(!broken.0.join("gaussian_noise.npy").exists());
    // As if the process had been stopped in the middle of an image.
    let partial = broken.0.join(".gaussian_noise.npy.partial");
    let mut torn = fs::read(&partial).expect("started");
    torn.extend([7; 100]);
    fs::write(&partial, torn).expect("writable");
    source.reads_left.store(usize::MAX, Ordering::Relaxed);
    write(&broken.0).expect("writable");
    assert_eq!(files(&whole.0), files(&broken.0));
}

#[test]
fn arrays_refuse_images_of_different_sizes() {
    struct Growing;
    impl ImageSource for Growing {
        fn len(&self) -> usize {
            2
        }
        fn relative_path(&self, index: usize) -> String {
            index.to_string()
        }
        fn label(&self, _: usize) -> Option<i64> {
            None
        }
        fn load(&self, index: usize) -> Result<Image, Box<dyn Error + Send + Sync>> {
            let side = 4 + index;
            Ok(Image::new(side, side, vec![1; 3 * side * side]).expect("sizes match"))
        }
    }
    let scratch = Scratch::new("sizes");
    let error = write_arrays(&scratch.0, &Growing, CorruptionSet::CifarC, &["fog"], &Corruptor::new(1), &options(1));
    assert!(matches!(error, Err(WriteError::SizeMismatch { index: 1, .. })));
}

#[test]
fn a_second_run_on_a_folder_is_refused_while_the_first_one_writes() {
    let scratch = Scratch::new("two-runs");
    let source = Pictures::new(2, 8);
    let refused = Mutex::new(Vec::new());
    let second = |_| {
        let options = options(1);
        let folder = write_folder(&scratch.0, &source, &specs(), &Corruptor::new(1), &options);
        let arrays = write_arrays(&scratch.0, &source, CorruptionSet::CifarC, &["fog"], &Corruptor::new(1), &options);
        refused.lock().expect("no panic").extend([folder, arrays]);
    };
    let first = WriteOptions { threads: 1, on_progress: &second };
    write_folder(&scratch.0, &source, &specs(), &Corruptor::new(1), &first).expect("nobody else writes");
    let refused = refused.into_inner().expect("no panic");
    assert_eq!(refused.len(), 2 * 6);
    for error in refused {
        let error = error.expect_err("the folder is taken");
        assert!(matches!(&error, WriteError::InUse { path } if *path == scratch.0) && error.hint().is_some());
    }
    // What the first run leaves does not block the next one.
    write_folder(&scratch.0, &source, &specs(), &Corruptor::new(1), &options(1)).expect("the first run has ended");
}

#[test]
fn settings_that_were_cut_off_are_completed() {
    let scratch = Scratch::new("torn");
    let source = Pictures::new(1, 8);
    let write = || write_folder(&scratch.0, &source, &specs(), &Corruptor::new(1), &options(1));
    write().expect("writable");
    let path = scratch.0.join("flipcast-corrupt.txt");
    let whole = fs::read(&path).expect("written");
    fs::write(&path, &whole[..9]).expect("writable");
    write().expect("the same settings");
    assert_eq!(fs::read(&path).expect("written"), whole);
}
