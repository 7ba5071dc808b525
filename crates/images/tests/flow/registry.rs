//! Datasets by name and the report on a path.

use crate::made::{Folder, npy, png, tar};
use flipcast_images::Label;
use flipcast_images::check::{CheckOptions, check};
use flipcast_images::dataset::{DataError, Dataset};
use flipcast_images::labelspace::imagenet_wnid;
use flipcast_images::preprocess::{Preprocess, Resize};
use flipcast_images::registry::{CountRule, PixelRule, find, open_named};

fn label(dataset: &dyn Dataset, index: usize) -> Label {
    dataset.sample(index).unwrap().label
}

#[test]
fn imagenet_c_opens_a_corruption_at_a_severity_and_counts() {
    let folder = Folder::new();
    let image = png(1, 1, [0; 3]);
    folder.put("fog/3/n01443537/a.JPEG", &image);
    let named = open_named("imagenet-c", &folder.path, "fog/3", CountRule::Any).unwrap();
    assert_eq!(label(&*named.dataset, 0), Label::Class(1));
    assert_eq!(named.info.pixels, PixelRule::Ready);
    let rule = named.info.pixels.adapt(&Preprocess::torchvision_v1());
    assert_eq!(rule.resize, Resize::None);

    let refused = open_named("imagenet-c", &folder.path, "fog/3", CountRule::Published);
    assert!(matches!(refused.err(), Some(DataError::ImageCount { found: 1, expected: 50_000, .. })));
    let refused = open_named("imagenet-c", &folder.path, "fog/2", CountRule::Any);
    assert!(matches!(refused.err(), Some(DataError::Io { .. })));
    let refused = open_named("imagenet-c", &folder.path, "fogg/3", CountRule::Any).err();
    assert!(refused.unwrap().to_string().contains("`fog/3`"));
    let unknown = find("imagenet-cc").unwrap_err().to_string();
    assert!(unknown.contains("`imagenet-c`"), "{unknown}");
}

#[test]
fn c_bar_severities_are_the_ranks_of_its_number_folders() {
    let folder = Folder::new();
    let image = png(1, 1, [0; 3]);
    for (number, wnid) in [("10.00", 4), ("2.35", 0), ("3.20", 1), ("4.90", 2), ("6.60", 3)] {
        let wnid = imagenet_wnid(wnid).unwrap();
        folder.put(&format!("sparkles/{number}/{wnid}/a.JPEG"), &image);
    }
    let open = |split: &str| {
        let named = open_named("imagenet-c-bar", &folder.path, split, CountRule::Any).unwrap();
        label(&*named.dataset, 0)
    };
    assert_eq!(open("sparkles/1"), Label::Class(0));
    assert_eq!(open("sparkles/5"), Label::Class(4));
}

#[test]
fn cifar_c_takes_the_severity_block_of_an_array() {
    let folder = Folder::new();
    let values: Vec<u8> = (0..5u8).flat_map(|i| [i; 3]).collect();
    folder.put("snow.npy", npy("|u1", "(5, 1, 1, 3)", &values));
    folder.put("labels.npy", npy("|u1", "(5,)", &[9; 5]));
    let named = open_named("cifar10-c", &folder.path, "snow/4", CountRule::Any).unwrap();
    assert_eq!(named.dataset.len(), 1);
    assert_eq!(named.dataset.id(0), "snow/3");
}

#[test]
fn ccc_streams_open_in_order_up_to_the_published_number() {
    let folder = Folder::new();
    let image = png(1, 1, [0; 3]);
    let entries: &[(&str, &[u8])] = &[("0.input.jpg", &image), ("0.output.cls", b"5")];
    let split = "baseline_20_transition+speed_2000_seed_44";
    folder.put(&format!("{split}/serial_00000.tar"), tar(entries));
    folder.put(&format!("{split}/serial_00001.tar"), tar(entries));
    let named = open_named("ccc", &folder.path, split, CountRule::Any).unwrap();
    assert!(named.dataset.is_stream());
    assert_eq!(named.dataset.len(), 2);
    assert_eq!(label(&*named.dataset, 1), Label::Class(5));
}

#[test]
fn imagenet_patch_keeps_empty_folders_and_ninco_has_no_labels() {
    let folder = Folder::new();
    let image = png(1, 1, [0; 3]);
    folder.put(&format!("487/{}/a.png", imagenet_wnid(7).unwrap()), &image);
    folder.make_dir(&format!("487/{}", imagenet_wnid(3).unwrap()));
    let named = open_named("imagenet-patch", &folder.path, "487", CountRule::Any).unwrap();
    assert_eq!(label(&*named.dataset, 0), Label::Class(7));

    folder.put("NINCO_OOD_classes/amphiuma_means/a.png", &image);
    let named = open_named("ninco", &folder.path, "", CountRule::Any).unwrap();
    assert_eq!(label(&*named.dataset, 0), Label::Unknown);
}

#[test]
fn the_report_counts_images_classes_and_unreadable_files() {
    let folder = Folder::new();
    for (i, index) in [1, 2, 4].into_iter().enumerate() {
        let wnid = imagenet_wnid(index).unwrap();
        folder.put(&format!("{wnid}/{i}.png"), png(2, 2, [0; 3]));
    }
    folder.put(&format!("{}/bad.png", imagenet_wnid(4).unwrap()), "broken");
    let report = check(folder.text(), &CheckOptions::default()).unwrap();
    assert_eq!((report.images(), report.unreadable()), (4, 1));
    let split = &report.splits[0];
    assert_eq!((split.labelled, split.classes.len()), (4, 3));
    assert_eq!(split.class_spaces[0], "imagenet-r");
    assert!(split.class_spaces.contains(&"imagenet-1k"));
    assert!(split.unreadable_named[0].0.ends_with("bad.png"));
}

#[test]
fn the_report_lists_splits_two_levels_down() {
    let folder = Folder::new();
    for corruption in ["fog", "snow"] {
        for severity in 1..=2 {
            for class in ["n01440764", "n01443537"] {
                let path = format!("{corruption}/{severity}/{class}/a.png");
                folder.put(&path, png(1, 1, [0; 3]));
            }
        }
    }
    let options = CheckOptions { decode: None, ..CheckOptions::default() };
    let report = check(folder.text(), &options).unwrap();
    let names: Vec<&str> = report.splits.iter().map(|s| s.name.as_str()).collect();
    assert_eq!(names, ["fog/1", "fog/2", "snow/1", "snow/2"]);
    assert_eq!(report.images(), 8);
}
