//! Every layout reads what was written: ids, labels, pixels, order.

use std::sync::Arc;

use crate::made::{Folder, data, gzip, npy, png, png_rows, tar, zip};
use flipcast_ground::Hint;
use flipcast_images::Label;
use flipcast_images::check::open_splits;
use flipcast_images::dataset::{
    ClassRule, DataError, Dataset, Layout, OpenOptions, Sample, Severity, Split, open, open_with,
};
use flipcast_images::decode::DecodeOptions;
use flipcast_images::labelspace::builtin;

/// The first pixel's red value, which the tests use as the image's number.
fn red(sample: Sample) -> u8 {
    let image = sample.payload.into_image(&DecodeOptions::default()).unwrap();
    image.rgb()[0]
}

/// Id, label and number of every sample.
fn all(dataset: &dyn Dataset) -> Vec<(String, Label, u8)> {
    (0..dataset.len())
        .map(|i| {
            let sample = dataset.sample(i).unwrap();
            assert_eq!(sample.id, dataset.id(i));
            assert_eq!(sample.label, dataset.label(i).unwrap());
            (sample.id.clone(), sample.label.clone(), red(sample))
        })
        .collect()
}

fn labels(dataset: &dyn Dataset) -> Vec<Option<u32>> {
    let label = |i| dataset.sample(i).unwrap().label.class();
    (0..dataset.len()).map(label).collect()
}

fn with_space(name: &str) -> OpenOptions {
    OpenOptions { classes: ClassRule::Space(builtin(name).unwrap()), ..OpenOptions::default() }
}

fn one(colour: u8) -> Vec<u8> {
    png(2, 2, [colour, 0, 0])
}

#[test]
fn class_folders_are_ranked_and_empty_ones_count() {
    let folder = Folder::new();
    folder.put("dog/b.png", one(3));
    folder.put("dog/a.PNG", one(2));
    folder.put("ant/deep/x.jpeg", one(1));
    folder.make_dir("bee");
    folder.put("README.txt", "no image");
    let dataset = open(folder.text()).unwrap();
    assert_eq!(dataset.layout(), Layout::ClassFolders);
    assert_eq!(dataset.classes(), ["ant", "bee", "dog"]);
    let expected = [
        ("ant/deep/x.jpeg".to_owned(), Label::Class(0), 1),
        ("dog/a.PNG".to_owned(), Label::Class(2), 2),
        ("dog/b.png".to_owned(), Label::Class(2), 3),
    ];
    assert_eq!(all(&*dataset), expected);
}

#[test]
fn number_folders_sort_as_numbers() {
    let folder = Folder::new();
    for i in 0..12 {
        folder.put(&format!("{i}/x.png"), one(i));
    }
    let dataset = open(folder.text()).unwrap();
    let found: Vec<u8> = all(&*dataset).into_iter().map(|(_, _, n)| n).collect();
    assert_eq!(found, (0..12).collect::<Vec<u8>>());
    assert_eq!(labels(&*dataset), (0..12).map(Some).collect::<Vec<_>>());
}

#[test]
fn a_class_space_looks_folders_up_and_drops_unused_ones() {
    let folder = Folder::new();
    folder.put("bed/x.png", one(1));
    folder.put("couch/x.png", one(2));
    folder.put("firetruck/x.png", one(3));
    let dataset = open_with(folder.text(), &with_space("imagenet-d")).unwrap();
    let found = labels(&*dataset);
    assert_eq!(found.len(), 2);
    assert_eq!(found[0], found[1]);

    folder.put("nonsense/x.png", one(4));
    let refused = open_with(folder.text(), &with_space("imagenet-d"));
    assert!(matches!(refused.err(), Some(DataError::Label { .. })));
}

#[test]
fn a_flat_folder_has_no_labels() {
    let folder = Folder::new();
    folder.put("b.png", one(2));
    folder.put("a.png", one(1));
    let dataset = open(folder.text()).unwrap();
    assert_eq!(dataset.layout(), Layout::FlatFolder);
    let expected = [("a.png".to_owned(), Label::Unknown, 1), ("b.png".to_owned(), Label::Unknown, 2)];
    assert_eq!(all(&*dataset), expected);
}

#[test]
fn lists_take_numbers_names_several_and_none() {
    let folder = Folder::new();
    folder.put("img/a.png", one(1));
    folder.put("img/b.png", one(2));
    let numbers = folder.put("n.csv", "path,label\nimg/a.png,4\nimg/b.png,3;5\n");
    let dataset = open(numbers.to_str().unwrap()).unwrap();
    let found = all(&*dataset);
    assert_eq!((found[0].1.clone(), found[0].2), (Label::Class(4), 1));
    assert_eq!(found[1].1, Label::AnyOf(vec![3, 5]));
    let names = folder.put("n.tsv", "img/a.png\tzebra\nimg/b.png\tape\n");
    let dataset = open(names.to_str().unwrap()).unwrap();
    assert_eq!(labels(&*dataset), [Some(1), Some(0)]);
    assert_eq!(dataset.classes(), ["ape", "zebra"]);
    let bare = folder.put("bare.txt", "img/b.png\n\nimg/a.png\n");
    let dataset = open(bare.to_str().unwrap()).unwrap();
    assert_eq!(labels(&*dataset), [None, None]);
}

#[test]
fn a_tar_reads_in_place_with_or_without_an_outer_folder() {
    let folder = Folder::new();
    let images = [one(1), one(2), one(3)];
    let plain: &[(&str, &[u8])] =
        &[("ant/", b""), ("bee/", b""), ("ant/1.png", &images[0]), ("cat/2.png", &images[1]), ("classes.txt", b"ant")];
    let path = folder.put("plain.tar", tar(plain));
    let dataset = open(path.to_str().unwrap()).unwrap();
    assert_eq!(dataset.layout(), Layout::Tar);
    assert_eq!(dataset.classes(), ["ant", "bee", "cat"]);
    assert_eq!(labels(&*dataset), [Some(0), Some(2)]);
    // Reading backwards gives the same images.
    assert_eq!(red(dataset.sample(1).unwrap()), 2);
    assert_eq!(red(dataset.sample(0).unwrap()), 1);

    let nested: &[(&str, &[u8])] = &[("./set/n01443537/a.png", &images[0]), ("./set/n01440764/b.png", &images[2])];
    let path = folder.put("nested.tar", tar(nested));
    let dataset = open_with(path.to_str().unwrap(), &with_space("imagenet-1k")).unwrap();
    assert_eq!(labels(&*dataset), [Some(1), Some(0)]);
    assert!(!dataset.is_stream());
}

#[test]
fn gzipped_tars_and_zips_hold_class_folders_too() {
    let folder = Folder::new();
    let images = [one(1), one(2)];
    let files: &[(&str, &[u8])] = &[
        ("set/ant/", b""),
        ("set/bee/1.png", &images[0]),
        ("set/cat/2.png", &images[1]),
        ("set/notes.md", b"text"),
        ("__MACOSX/set/bee/._1.png", b"not an image"),
    ];
    for (name, layout, bytes) in [
        ("x.tar.gz", Layout::Tar, gzip(&tar(files))),
        ("x.tgz", Layout::Tar, gzip(&tar(files))),
        ("x.zip", Layout::Zip, zip(files)),
    ] {
        let path = folder.put(name, bytes);
        let dataset = open(path.to_str().unwrap()).unwrap();
        assert_eq!(dataset.layout(), layout);
        assert_eq!(dataset.classes(), ["ant", "bee", "cat"], "{name}");
        let expected =
            [("set/bee/1.png".to_owned(), Label::Class(1), 1), ("set/cat/2.png".to_owned(), Label::Class(2), 2)];
        assert_eq!(all(&*dataset), expected, "{name}");
        assert_eq!(dataset.ignored().endings(), [(".md", 1)], "{name}");
    }
}

#[test]
fn several_tars_of_class_folders_keep_their_labels() {
    let folder = Folder::new();
    let images = [one(1), one(2), one(3)];
    folder.put("a.tar", tar(&[("dog/1.png", &images[0]), ("ant/2.png", &images[1])]));
    folder.put("b.tar.gz", gzip(&tar(&[("cat/1.png", &images[2])])));
    let expected = [
        ("a.tar/dog/1.png".to_owned(), Label::Class(2), 1),
        ("a.tar/ant/2.png".to_owned(), Label::Class(0), 2),
        ("b.tar.gz/cat/1.png".to_owned(), Label::Class(1), 3),
    ];
    for spec in [folder.text().to_owned(), format!("{}/*.tar*", folder.text())] {
        let dataset = open(&spec).unwrap();
        assert_eq!(dataset.classes(), ["ant", "cat", "dog"]);
        assert_eq!(all(&*dataset), expected, "{spec}");
        assert!(!dataset.is_stream());
    }
    let nothing = open(&format!("{}/*.zip", folder.text()));
    assert!(matches!(nothing.err(), Some(DataError::BadPattern { .. })));
}

#[test]
fn files_that_are_not_read_are_counted_and_named() {
    let folder = Folder::new();
    for i in 0..3 {
        folder.put(&format!("cat/{i}.png"), one(i));
        folder.put(&format!("cat/{i}.avif"), "no reader");
        folder.put(&format!("dog/{i}.HEIC"), "no reader");
    }
    folder.put("dog/x.jpg", one(9));
    let dataset = open(folder.text()).unwrap();
    assert_eq!((dataset.len(), dataset.ignored().count()), (4, 6));
    assert_eq!(dataset.ignored().endings(), [(".avif", 3), (".heic", 3)]);
    let alone = Folder::new();
    alone.put("a/1.heic", "no reader");
    let refused = open(alone.text()).err().unwrap();
    assert!(refused.to_string().contains("1 file ignored: 1 .heic"), "{refused}");
    assert!(refused.hint().unwrap().contains("convert"));
}

#[cfg(unix)]
#[test]
fn names_that_are_not_utf_8_are_read() {
    use std::os::unix::ffi::OsStrExt;
    let folder = Folder::new();
    folder.put("cat/a.png", one(1));
    let name = std::ffi::OsStr::from_bytes(b"caf\xe9.png");
    if std::fs::write(folder.path.join("cat").join(name), one(2)).is_err() {
        println!("skipped: the file system takes UTF-8 names only");
        return;
    }
    let dataset = open(folder.text()).unwrap();
    let numbers: Vec<u8> = all(&*dataset).into_iter().map(|f| f.2).collect();
    assert_eq!(numbers, [1, 2]);
}

#[test]
fn severities_of_a_corruption_are_splits_and_not_classes() {
    let folder = Folder::new();
    for (severity, image) in [("1", 1), ("3", 3)] {
        folder.put(&format!("flat/fog/{severity}/a.png"), one(image));
        folder.put(&format!("deep/fog/{severity}/cat/a.png"), one(image));
    }
    folder.put("one/sparkles/3.00/a.png", one(3));
    for (root, splits) in [("flat", 2), ("deep", 2), ("flat/fog", 2), ("one", 1), ("one/sparkles", 1)] {
        let path = folder.path.join(root);
        let refused = open(path.to_str().unwrap()).err();
        assert!(matches!(refused, Some(DataError::SeveralSplits { .. })), "{root}: {refused:?}");
        let found = open_splits(path.to_str().unwrap(), &OpenOptions::default()).unwrap();
        assert_eq!(found.len(), splits, "{root}");
        assert!(found.iter().all(|split| split.dataset.len() == 1));
    }
}

#[test]
fn shards_keep_ccc_order_and_keys() {
    let folder = Folder::new();
    let images: Vec<Vec<u8>> = (0..6).map(one).collect();
    for shard in 0..3 {
        let (a, b) = (2 * shard, 2 * shard + 1);
        let entries: &[(&str, &[u8])] = &[
            ("0001.info", b"src"),
            ("0001.input.jpg", &images[a]),
            ("0001.output.cls", b"7"),
            ("0000.input.jpg", &images[b]),
            ("0000.output.cls", b"999"),
        ];
        folder.put(&format!("serial_{shard:05}.tar"), tar(entries));
    }
    let pattern = format!("{}/serial_{{00000..00002}}.tar", folder.text());
    let dataset = open_with(&pattern, &with_space("imagenet-1k")).unwrap();
    assert_eq!(dataset.layout(), Layout::WebDataset);
    assert!(dataset.is_stream());
    let found = all(&*dataset);
    let numbers: Vec<u8> = found.iter().map(|f| f.2).collect();
    assert_eq!(numbers, [0, 1, 2, 3, 4, 5]);
    assert_eq!(found[2].0, "serial_00001.tar/0001");
    assert_eq!(found[3].1, Label::Class(999));
    // A limit keeps later shards untouched; even a damaged one is not opened.
    folder.put("serial_00002.tar", "damaged");
    let options = OpenOptions { limit: Some(3), ..OpenOptions::default() };
    assert_eq!(open_with(&pattern, &options).unwrap().len(), 3);
    assert!(open(&pattern).is_err());
}

#[test]
fn hub_parquet_gives_pictures_labels_and_class_names() {
    let path = data("hub.parquet");
    let dataset = open(path.to_str().unwrap()).unwrap();
    assert_eq!((dataset.layout(), dataset.len()), (Layout::Parquet, 40));
    assert_eq!(dataset.classes(), ["cat", "dog", "eel"]);
    for i in (0..40).rev() {
        let sample = dataset.sample(i).unwrap();
        assert_eq!(sample.label, Label::Class(i as u32 % 3));
        assert_eq!(red(sample), i as u8);
    }
}

#[test]
fn plain_bytes_and_label_lists_are_read_from_parquet() {
    let path = data("hard.parquet");
    let dataset = open_with(path.to_str().unwrap(), &with_space("imagenet-hard")).unwrap();
    let found: Vec<Label> = all(&*dataset).into_iter().map(|f| f.1).collect();
    let expected = [Label::Class(7), Label::AnyOf(vec![3, 9]), Label::Unknown, Label::AnyOf(vec![1, 2, 3])];
    assert_eq!(found, expected);
}

#[test]
fn parquet_may_be_packed_with_zstd_or_lz4() {
    for name in ["zstd.parquet", "lz4.parquet"] {
        let dataset = open(data(name).to_str().unwrap()).unwrap();
        let found: Vec<u8> = all(&*dataset).into_iter().map(|f| f.2).collect();
        assert_eq!(found, [0, 1, 2, 3], "{name}");
    }
}

#[test]
fn many_parquet_files_form_one_dataset() {
    let folder = Folder::new();
    let bytes = std::fs::read(data("hub.parquet")).unwrap();
    folder.put("train-00000-of-00002.parquet", &bytes);
    folder.put("train-00001-of-00002.parquet", &bytes);
    let dataset = open(folder.text()).unwrap();
    assert_eq!(dataset.len(), 80);
    assert_eq!(dataset.id(40), "train-00001-of-00002.parquet/0");
    assert_eq!(red(dataset.sample(79).unwrap()), 39);
}

/// One CIFAR record: labels, then planes of constant colour.
fn cifar(labels: &[u8], colour: [u8; 3]) -> Vec<u8> {
    let mut record = labels.to_vec();
    for value in colour {
        record.extend([value; 1024]);
    }
    record
}

#[test]
fn cifar_binaries_hold_planes() {
    let folder = Folder::new();
    folder.put("test_batch.bin", [cifar(&[3], [1, 2, 3]), cifar(&[9], [4, 5, 6])].concat());
    folder.put("data_batch_1.bin", cifar(&[1], [7, 8, 9]));
    folder.put("batches.meta.txt", "airplane\nautomobile\n\n");
    let dataset = open(folder.text()).unwrap();
    assert_eq!(labels(&*dataset), [Some(3), Some(9)]);
    assert_eq!(dataset.classes(), ["airplane", "automobile"]);
    let sample = dataset.sample(1).unwrap();
    let image = sample.payload.into_image(&DecodeOptions::default()).unwrap();
    assert_eq!(image.rgb()[..6], [4, 5, 6, 4, 5, 6]);
    let train = OpenOptions { split: Split::Train, ..OpenOptions::default() };
    assert_eq!(labels(&*open_with(folder.text(), &train).unwrap()), [Some(1)]);

    let hundred = Folder::new();
    hundred.put("test.bin", cifar(&[3, 77], [1, 2, 3]));
    assert_eq!(labels(&*open(hundred.text()).unwrap()), [Some(77)]);
}

#[test]
fn npy_arrays_hold_five_severity_blocks() {
    let folder = Folder::new();
    // Two images of 1 x 2 pixels at each of five severities.
    let values: Vec<u8> = (0..10u8).flat_map(|i| [i; 6]).collect();
    let path = folder.put("fog.npy", npy("|u1", "(10, 1, 2, 3)", &values));
    let stored: Vec<u8> = (0..5).flat_map(|_| [4i64, 6]).flat_map(i64::to_le_bytes).collect();
    folder.put("labels.npy", npy("<i8", "(10,)", &stored));
    let dataset = open(path.to_str().unwrap()).unwrap();
    assert_eq!(dataset.len(), 10);
    let options = OpenOptions { severity: Severity::Only(3), ..OpenOptions::default() };
    let dataset = open_with(path.to_str().unwrap(), &options).unwrap();
    let expected = [("fog/4".to_owned(), Label::Class(4), 4), ("fog/5".to_owned(), Label::Class(6), 5)];
    assert_eq!(all(&*dataset), expected);
}

#[test]
fn npz_arrays_are_unpacked() {
    let dataset = open(data("arrays.npz").to_str().unwrap()).unwrap();
    assert_eq!(dataset.layout(), Layout::Npz);
    for (i, (_, label, number)) in all(&*dataset).into_iter().enumerate() {
        assert_eq!((label, number), (Label::Class(i as u32), i as u8));
    }
}

/// An idx file: signature, dimensions, values.
fn idx(signature: u32, dimensions: &[u32], values: &[u8]) -> Vec<u8> {
    let mut bytes = signature.to_be_bytes().to_vec();
    bytes.extend(dimensions.iter().flat_map(|d| d.to_be_bytes()));
    bytes.extend(values);
    bytes
}

#[test]
fn idx_files_may_be_gzipped() {
    let images = idx(0x0803, &[2, 2, 3], &[5, 5, 5, 5, 5, 5, 8, 8, 8, 8, 8, 8]);
    let targets = idx(0x0801, &[2], &[1, 0]);
    for gzipped in [false, true] {
        let folder = Folder::new();
        let (end, packed) = match gzipped {
            true => (".gz", [gzip(&images), gzip(&targets)]),
            false => ("", [images.clone(), targets.clone()]),
        };
        folder.put(&format!("t10k-images-idx3-ubyte{end}"), &packed[0]);
        folder.put(&format!("t10k-labels-idx1-ubyte{end}"), &packed[1]);
        let dataset = open(folder.text()).unwrap();
        assert_eq!(dataset.layout(), Layout::Idx);
        assert_eq!(labels(&*dataset), [Some(1), Some(0)]);
        assert_eq!(red(dataset.sample(1).unwrap()), 8);
    }
}

#[test]
fn png_rows_hold_one_picture_each() {
    let folder = Folder::new();
    let rows: Vec<Vec<u8>> = (0..2u8).map(|i| vec![i + 1; 3 * 1024]).collect();
    folder.put("test_batch.png", png_rows(1024, &rows));
    folder.put("test_lables.json", "[8,0]");
    let dataset = open(folder.text()).unwrap();
    assert_eq!(dataset.layout(), Layout::PngRows);
    let expected = [("test_batch/0".to_owned(), Label::Class(8), 1), ("test_batch/1".to_owned(), Label::Class(0), 2)];
    assert_eq!(all(&*dataset), expected);
    assert_eq!((dataset.classes().len(), &*dataset.classes()[8]), (10, "ship"));
    folder.put("test_lables.json", "[8,10]");
    assert!(matches!(open(folder.text()), Err(DataError::BadFormat { .. })));
}

#[test]
fn readers_can_be_shared_between_threads() {
    let dataset: Arc<dyn Dataset> = Arc::from(open(data("hub.parquet").to_str().unwrap()).unwrap());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for i in [39, 0, 20, 7, 33] {
                    assert_eq!(red(dataset.sample(i).unwrap()), i as u8);
                }
            });
        }
    });
}
