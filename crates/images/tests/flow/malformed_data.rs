//! One small file per condition that a reader refuses, checked by error variant.

use std::path::Path;

use crate::made::{Folder, data, gzip, npy, png, png_rows, tar, zip};
use flipcast_ground::Hint;
use flipcast_images::dataset::{DataError, OpenOptions, Severity, open, open_with};

fn refused(path: &Path) -> DataError {
    match open(path.to_str().unwrap()) {
        Ok(_) => panic!("{} was accepted", path.display()),
        Err(error) => error,
    }
}

macro_rules! assert_refused {
    ($path:expr, $pattern:pat) => {
        let error = refused($path);
        assert!(matches!(error, $pattern), "{error}: {error:?}");
    };
}

#[test]
fn paths_without_a_dataset() {
    let folder = Folder::new();
    assert_refused!(&folder.path.join("absent"), DataError::Io { .. });
    assert_refused!(&folder.path, DataError::NoImages { .. });
    assert_refused!(&folder.put("empty.dat", ""), DataError::UnknownLayout { .. });
    assert_refused!(&folder.put("what.dat", "what?"), DataError::UnknownLayout { .. });
}

#[test]
fn folders_that_mix_or_nest() {
    let folder = Folder::new();
    let image = png(1, 1, [0; 3]);
    folder.put("loose.png", &image);
    folder.put("cat/a.png", &image);
    assert_refused!(&folder.path, DataError::MixedFolder { loose: 1, folders: 1, .. });

    let splits = Folder::new();
    for split in ["1", "2"] {
        splits.put(&format!("{split}/cat/a.png"), &image);
        splits.put(&format!("{split}/dog/a.png"), &image);
    }
    assert_refused!(&splits.path, DataError::SeveralSplits { .. });
    assert!(refused(&splits.path).hint().is_some());
}

#[test]
fn tars_with_hostile_entries() {
    let folder = Folder::new();
    let image = png(1, 1, [0; 3]);
    let entries: &[(&str, &[u8])] = &[("a/x.png", &image)];
    let whole = tar(entries);

    // The path is patched after writing, because the writer would refuse it.
    let patched = |path: &[u8]| {
        let mut bytes = whole.clone();
        bytes[..100].fill(0);
        bytes[..path.len()].copy_from_slice(path);
        checksum(&mut bytes);
        bytes
    };
    for path in [&b"../x.png"[..], b"/etc/x.png", b"a/../../x.png"] {
        let file = folder.put("climb.tar", patched(path));
        assert_refused!(&file, DataError::BadEntry { .. });
    }
    let mut link = whole.clone();
    link[156] = b'2';
    checksum(&mut link);
    assert_refused!(&folder.put("link.tar", link), DataError::BadEntry { .. });

    let mut huge = whole.clone();
    huge[124..136].copy_from_slice(b"77777777777\0");
    checksum(&mut huge);
    assert_refused!(&folder.put("huge.tar", huge), DataError::Truncated { .. });

    // Within the content, in its padding, and before the end mark.
    for len in [540, 600, 1024] {
        let cut = folder.put("cut.tar", &whole[..len]);
        assert_refused!(&cut, DataError::Truncated { .. });
    }
    assert_refused!(&folder.put("short.tar", "abc"), DataError::BadFormat { .. });
    let mut sum = whole.clone();
    sum[0] ^= 1;
    assert_refused!(&folder.put("sum.tar", sum), DataError::BadFormat { .. });
    assert_refused!(&folder.put("a.tar.gz", [0x1F, 0x8B, 8, 0, 0, 0, 0, 0]), DataError::Truncated { .. });
    assert_refused!(&folder.put("b.tgz", &gzip(&whole)[..90]), DataError::Truncated { .. });
    let xz = folder.put("a.tar.xz", [0xFD, b'7', b'z', b'X', b'Z', 0, 0, 0]);
    assert_refused!(&xz, DataError::BadFormat { .. });
    assert!(refused(&xz).hint().unwrap().contains(".tar.gz"));
    let text: &[(&str, &[u8])] = &[("a/readme.txt", b"no image")];
    assert_refused!(&folder.put("text.tar", tar(text)), DataError::OnlyIgnored { .. });
}

#[test]
fn sparse_entries_and_long_headers_are_refused_before_memory_is_taken() {
    let folder = Folder::new();
    let image = png(1, 1, [0; 3]);
    let whole = tar(&[("a/x.png", &image)]);
    let mut sparse = whole.clone();
    sparse[156] = b'S';
    checksum(&mut sparse);
    assert_refused!(&folder.put("sparse.tar", sparse), DataError::BadEntry { problem: "is sparse", .. });

    // A name of 4 GiB, in a file that claims 8 GiB and takes a few blocks of the disk.
    let mut long_name = whole.clone();
    long_name[156] = b'L';
    long_name[124..136].copy_from_slice(b"40000000000\0");
    checksum(&mut long_name);
    let path = folder.put("name.tar", long_name);
    std::fs::File::options().write(true).open(&path).unwrap().set_len(8 << 30).unwrap();
    assert_refused!(&path, DataError::TooLarge { .. });
}

#[test]
fn zips_with_hostile_entries() {
    let folder = Folder::new();
    let image = png(1, 1, [0; 3]);
    let whole = zip(&[("aaaaaa/x.png", &image)]);
    let patched = |from: &[u8], to: &[u8]| {
        let mut bytes = whole.clone();
        while let Some(at) = bytes.windows(from.len()).position(|w| w == from) {
            bytes[at..at + from.len()].copy_from_slice(to);
        }
        bytes
    };
    for path in [&b"../../"[..], b"/etc//"] {
        let file = folder.put("climb.zip", patched(b"aaaaaa", path));
        assert_refused!(&file, DataError::BadEntry { .. });
    }
    assert_refused!(&folder.put("empty.zip", zip(&[])), DataError::NoImages { .. });
    // An entry that unpacks to more than it declares is cut off and refused.
    let len = (image.len() as u32).to_le_bytes();
    let bomb = folder.put("bomb.zip", patched(&len, &9u32.to_le_bytes()));
    if let Ok(dataset) = open(bomb.to_str().unwrap()) {
        assert!(matches!(dataset.sample(0), Err(DataError::BadFormat { .. })));
    }
}

#[cfg(unix)]
#[test]
fn pipes_are_neither_waited_for_nor_lost() {
    let folder = Folder::new();
    folder.put("cat/a.png", png(1, 1, [0; 3]));
    let made = std::process::Command::new("mkfifo").arg(folder.path.join("cat/b.png")).status();
    if !made.is_ok_and(|status| status.success()) {
        println!("skipped: there is no `mkfifo`");
        return;
    }
    let dataset = open(folder.text()).unwrap();
    assert_eq!((dataset.len(), dataset.ignored().examples()), (1, &["cat/b.png".to_owned()][..]));
    let pipe = folder.path.join("cat/b.png");
    assert_refused!(&pipe, DataError::NotAFile { .. });
    assert!(refused(&pipe).hint().unwrap().contains("standard input"));
}

#[cfg(unix)]
#[test]
fn links_to_parents_are_followed_once() {
    let folder = Folder::new();
    for class in ["cat", "dog"] {
        folder.put(&format!("{class}/a.png"), png(1, 1, [0; 3]));
        std::os::unix::fs::symlink("..", folder.path.join(class).join("up")).unwrap();
        std::os::unix::fs::symlink(".", folder.path.join(class).join("here")).unwrap();
    }
    let dataset = open(folder.text()).unwrap();
    assert_eq!((dataset.len(), dataset.ignored().count()), (2, 4));
}

/// Writes the header checksum of the first entry.
fn checksum(bytes: &mut [u8]) {
    bytes[148..156].fill(b' ');
    let sum: u32 = bytes[..512].iter().map(|&b| u32::from(b)).sum();
    bytes[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
}

#[test]
fn a_folder_of_unrelated_tars() {
    let folder = Folder::new();
    let image = png(1, 1, [0; 3]);
    let texts: &[(&str, &[u8])] = &[("classes.txt", b"cat"), ("licence.txt", b"none")];
    let images: &[(&str, &[u8])] = &[("cat/a.png", &image)];
    folder.put("about.tar", tar(texts));
    folder.put("images.tar", tar(images));
    let error = refused(&folder.path);
    assert!(matches!(&error, DataError::NoImageField { sample, .. } if sample == "classes"), "{error:?}");
    let hint = error.hint().unwrap();
    assert!(hint.contains("name one tar"), "{hint}");
    assert!(hint.contains("serial_{00000..00012}.tar"), "{hint}");
}

#[test]
fn shards_with_broken_samples() {
    let folder = Folder::new();
    let image = png(1, 1, [0; 3]);
    let lonely: &[(&str, &[u8])] = &[("0.cls", b"1"), ("1.jpg", &image), ("1.cls", b"1")];
    assert_refused!(&folder.put("lonely.tar", tar(lonely)), DataError::NoImageField { .. });

    let word: &[(&str, &[u8])] = &[("0.jpg", &image), ("0.cls", b"cat")];
    let path = folder.put("word.tar", tar(word));
    let dataset = open(path.to_str().unwrap()).unwrap();
    assert!(matches!(dataset.sample(0), Err(DataError::BadFormat { .. })));
    let long: &[(&str, &[u8])] = &[("0.jpg", &image), ("0.cls", &[b'1'; 100])];
    let path = folder.put("long.tar", tar(long));
    let dataset = open(path.to_str().unwrap()).unwrap();
    assert!(matches!(dataset.sample(0), Err(DataError::TooLarge { .. })));
}

#[test]
fn arrays_that_contradict_themselves() {
    let folder = Folder::new();
    let short = npy("|u1", "(10, 1, 2, 3)", &[0; 59]);
    assert_refused!(&folder.put("a/short.npy", short), DataError::Truncated { .. });
    let floats = npy("<f4", "(1, 1, 1, 3)", &[0; 12]);
    assert_refused!(&folder.put("b/floats.npy", floats), DataError::BadFormat { .. });
    let flat = npy("|u1", "(12,)", &[0; 12]);
    assert_refused!(&folder.put("c/flat.npy", flat), DataError::BadFormat { .. });
    let bomb = npy("|u1", "(1, 99999999, 99999999, 3)", &[0; 12]);
    assert_refused!(&folder.put("d/bomb.npy", bomb), DataError::TooLarge { .. });
    let none = npy("|u1", "(0, 2, 2, 3)", &[]);
    assert_refused!(&folder.put("e/none.npy", none), DataError::NoImages { .. });

    let images = folder.put("f/x.npy", npy("|u1", "(2, 1, 1, 3)", &[0; 6]));
    folder.put("f/labels.npy", npy("|u1", "(3,)", &[0; 3]));
    assert_refused!(&images, DataError::LabelCount { labels: 3, images: 2, .. });
    let options = OpenOptions { severity: Severity::Only(6), ..OpenOptions::default() };
    let alone = folder.put("g/x.npy", npy("|u1", "(5, 1, 1, 3)", &[0; 15]));
    let wrong = open_with(alone.to_str().unwrap(), &options);
    assert!(matches!(wrong.err(), Some(DataError::BadFormat { .. })));
}

#[test]
fn idx_files_that_lie() {
    let folder = Folder::new();
    let head = [0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 2];
    let short = [&head[..], &[0; 7]].concat();
    assert_refused!(&folder.put("x-idx3-ubyte", short), DataError::Truncated { .. });
    assert_refused!(&folder.put("y-idx3-ubyte", &head[..9]), DataError::Truncated { .. });
    let mut bomb = head;
    bomb[4..16].fill(0x7F);
    assert_refused!(&folder.put("z-idx3-ubyte", bomb), DataError::TooLarge { .. });
    let gz = folder.put("w-idx3-ubyte.gz", [0x1F, 0x8B, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9]);
    assert_refused!(&gz, DataError::BadFormat { .. });
}

#[test]
fn cifar_files_of_another_length() {
    let folder = Folder::new();
    assert_refused!(&folder.put("data_batch_1.bin", [0; 3072]), DataError::BadFormat { .. });
}

#[test]
fn npz_files_without_images_or_directory() {
    let folder = Folder::new();
    assert_refused!(&folder.put("x.npz", b"PK\x03\x04 and nothing more"), DataError::BadFormat { .. });
    let mut bytes = std::fs::read(data("arrays.npz")).unwrap();
    // Calls the array something else, in the entry and in the directory.
    while let Some(at) = bytes.windows(6).position(|w| w == b"images") {
        bytes[at..at + 6].copy_from_slice(b"imxges");
    }
    assert_refused!(&folder.put("y.npz", bytes), DataError::BadFormat { .. });
}

#[test]
fn parquet_files_cut_or_damaged() {
    let folder = Folder::new();
    let whole = std::fs::read(data("hub.parquet")).unwrap();
    for len in [4, 8, whole.len() / 2, whole.len() - 1] {
        let path = folder.put("cut.parquet", &whole[..len]);
        assert_refused!(&path, DataError::BadFormat { .. });
    }
    // Damage within the pages is met when a sample is read, not before, and is an error, not a wrong picture.
    let mut damaged = whole;
    damaged[4..600].fill(0xFF);
    let path = folder.put("damaged.parquet", damaged);
    let outcome = open(path.to_str().unwrap()).and_then(|d| d.sample(0));
    assert!(matches!(outcome, Err(DataError::BadFormat { .. })));
}

#[test]
fn png_rows_of_another_width_or_count() {
    let folder = Folder::new();
    folder.put("test_lables.json", "[1]");
    folder.put("test_batch.png", png_rows(4, &[vec![0; 12]]));
    assert_refused!(&folder.path, DataError::BadFormat { .. });
    folder.put("test_batch.png", png_rows(1024, &[vec![0; 3072], vec![0; 3072]]));
    assert_refused!(&folder.path, DataError::LabelCount { labels: 1, images: 2, .. });
    folder.put("test_lables.json", "{}");
    folder.put("test_batch.png", png_rows(1024, &[vec![0; 3072]]));
    assert_refused!(&folder.path, DataError::BadFormat { .. });
}

#[test]
fn lists_without_lines_or_with_missing_files() {
    let folder = Folder::new();
    assert_refused!(&folder.put("none.csv", "path,label\n"), DataError::NoImages { .. });
    assert_refused!(&folder.put("bytes.csv", [0xFF, 0xFE, b'\n']), DataError::BadFormat { .. });
    let path = folder.put("gone.csv", "gone.png,1\n");
    let dataset = open(path.to_str().unwrap()).unwrap();
    assert!(matches!(dataset.sample(0), Err(DataError::Io { .. })));
}
