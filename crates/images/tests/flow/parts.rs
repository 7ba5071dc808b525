//! Subsets, halves and splits of datasets.

use std::sync::Arc;

use crate::made::{Folder, png, png_rows};
use flipcast_ground::Hint;
use flipcast_images::check::{CheckOptions, check};
use flipcast_images::dataset::{DataError, Dataset, Layout, Subset, open, split_halves};
use flipcast_images::loader::{Loader, LoaderConfig, Order, Transform};
use flipcast_images::preprocess::{Normalise, Preprocess};

/// Three classes of 5, 4 and 2 images.
fn pictures() -> Folder {
    let folder = Folder::new();
    for (class, images) in [("ant", 5), ("bee", 4), ("cat", 2)] {
        for i in 0..images {
            folder.put(&format!("{class}/{i}.png"), png(4, 3, [i, 0, 0]));
        }
    }
    folder
}

fn shared(folder: &Folder) -> Arc<dyn Dataset> {
    Arc::from(open(folder.text()).unwrap())
}

fn ids(dataset: &dyn Dataset) -> Vec<String> {
    (0..dataset.len()).map(|i| dataset.id(i)).collect()
}

fn open_error(spec: &str) -> DataError {
    open(spec).err().expect("it is refused")
}

#[test]
fn a_subset_keeps_ids_labels_and_the_order_asked_for() {
    let folder = pictures();
    let whole = shared(&folder);
    let subset = Subset::new(whole.clone(), vec![9, 0, 6]).unwrap();
    assert_eq!((subset.len(), subset.indices()), (3, &[9, 0, 6][..]));
    assert_eq!(subset.classes(), whole.classes());
    for (place, index) in [9, 0, 6].into_iter().enumerate() {
        assert_eq!(subset.sample(place).unwrap(), whole.sample(index).unwrap());
        assert_eq!(subset.label(place).unwrap(), whole.label(index).unwrap());
        assert_eq!(subset.stored_index(place), index);
    }
    let inner = Subset::new(Arc::new(subset), vec![2]).unwrap();
    assert_eq!((inner.id(0), inner.stored_index(0)), (whole.id(6), 6));
}

#[test]
fn a_subset_refuses_what_is_not_there_or_named_twice() {
    let folder = pictures();
    let whole = shared(&folder);
    assert!(Subset::new(whole.clone(), Vec::new()).unwrap().is_empty());
    assert!(matches!(Subset::new(whole.clone(), vec![0, 11]), Err(DataError::SubsetIndex { index: 11, images: 11 })));
    assert!(matches!(Subset::new(whole, vec![3, 4, 3]), Err(DataError::SubsetTwice { index: 3 })));
}

#[test]
fn transforms_see_the_stored_index() {
    let folder = pictures();
    let subset = Subset::new(shared(&folder), vec![8, 2, 5]).unwrap();
    let number: Transform = Arc::new(|index, image| {
        let bytes = vec![index as u8; image.rgb().len()];
        Ok(flipcast_images::Image::new(image.width(), image.height(), bytes).unwrap())
    });
    let plain = Normalise::Bytes { offset: 0.0, divisor: 1.0 };
    let config = LoaderConfig {
        order: Order::Shuffled { seed: 1 },
        transform: Some(number),
        ..LoaderConfig::new(Preprocess::normalise_only(plain))
    };
    let mut loader = Loader::new(Arc::new(subset), config).unwrap();
    let loaded = loader.next_batch().unwrap().unwrap();
    for (image, &index) in loaded.batch.values().chunks(36).zip(&loaded.indices) {
        assert_eq!(image[0] as usize, [8, 2, 5][index]);
    }
}

#[test]
fn halves_are_parts_of_a_path() {
    let folder = pictures();
    let whole = shared(&folder);
    let (first, second) = split_halves(&*whole, 7).unwrap();
    for (part, indices) in [("first-half:7", first), ("second-half:7", second)] {
        let half = open(&format!("{}#{part}", folder.text())).unwrap();
        let expected: Vec<String> = indices.iter().map(|&i| whole.id(i)).collect();
        assert_eq!(ids(&*half), expected);
    }
    let quarter = open(&format!("{}#first-half:7#second-half", folder.text())).unwrap();
    assert_eq!(quarter.len(), 3);
    let report = check(&format!("{}#second-half:7", folder.text()), &CheckOptions::default()).unwrap();
    assert_eq!((report.images(), report.splits[0].labelled), (5, 5));
}

#[test]
fn a_half_without_images_is_refused() {
    let folder = Folder::new();
    folder.put("one.png", png(4, 3, [1, 2, 3]));
    assert_eq!(open(&format!("{}#first-half", folder.text())).unwrap().len(), 1);
    assert!(matches!(open_error(&format!("{}#second-half", folder.text())), DataError::NoImages { .. }));
}

#[test]
fn splits_stored_side_by_side_are_parts_of_a_path() {
    let folder = Folder::new();
    let rows = |n: u8| -> Vec<Vec<u8>> { (0..n).map(|i| vec![i; 3 * 1024]).collect() };
    folder.put("test_batch.png", png_rows(1024, &rows(2)));
    folder.put("test_lables.json", "[8,0]");
    for batch in 1..=5 {
        let name = format!("data_batch_{batch}.png");
        folder.put(&name, png_rows(1024, &rows(1)));
    }
    folder.put("train_lables.json", "[1,2,3,4,5]");
    let at = |part: &str| open(&format!("{}{part}", folder.text())).unwrap();
    assert_eq!((at("").len(), at("#test").len(), at("#train").len()), (2, 2, 5));
    assert_eq!(at("#train#first-half:2").len(), 3);
    assert_eq!(at("#train").layout(), Layout::PngRows);
}

#[test]
fn a_folder_called_train_is_the_training_split() {
    let folder = Folder::new();
    for name in ["train/a/1.png", "train/b/2.png", "train/b/3.png"] {
        folder.put(name, png(4, 3, [1, 2, 3]));
    }
    folder.put("test/a/1.png", png(4, 3, [1, 2, 3]));
    folder.put("test/b/1.png", png(4, 3, [1, 2, 3]));
    let at = |part: &str| open(&format!("{}{part}", folder.text())).unwrap();
    assert_eq!((at("#train").len(), at("#test").len()), (3, 2));
    // Halves of several splits at once are not defined.
    let spec = format!("{}#first-half", folder.text());
    assert!(matches!(check(&spec, &CheckOptions::default()), Err(DataError::SeveralSplits { .. })));
}

#[test]
fn a_split_of_what_has_none_is_an_error() {
    let folder = pictures();
    let error = open_error(&format!("{}#train", folder.text()));
    assert!(matches!(error, DataError::NoSplit { split: "train", .. }));
    assert!(error.hint().is_some());
    let error = open_error(&format!("{}#frist-half", folder.text()));
    assert!(matches!(error, DataError::Io { .. }));
    assert!(error.hint().unwrap().contains("first-half"));
}

#[test]
fn an_existing_path_with_a_hash_is_a_path() {
    let folder = Folder::new();
    folder.put("c#train/1.png", png(4, 3, [1, 2, 3]));
    let spec = format!("{}/c#train", folder.text());
    assert_eq!(open(&spec).unwrap().layout(), Layout::FlatFolder);
}
