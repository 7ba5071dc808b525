//! Batches: order, labels, bad images, transforms, and independence of the threads.

use std::sync::Arc;

use crate::made::{Folder, png, tar};
use flipcast_ground::{Hint, SplitMix64};
use flipcast_images::dataset::{Dataset, InMemory, open};
use flipcast_images::loader::{BadImageCause, LoadError, Loader, LoaderConfig, OnBadImage, Order};
use flipcast_images::preprocess::{Interpolation, Normalise, Preprocess, Resize, Size};
use flipcast_images::{Image, Label};

/// Bytes as they are, so that a value is a pixel.
fn raw() -> Preprocess {
    Preprocess::normalise_only(Normalise::Bytes { offset: 0.0, divisor: 1.0 })
}

fn config(preprocess: Preprocess) -> LoaderConfig {
    LoaderConfig { batch_size: 4, threads: 2, prefetch: 5, ..LoaderConfig::new(preprocess) }
}

/// `count` images of 3 x 2 pixels, numbered by their red value, in three classes.
fn numbered(count: u8) -> (Folder, Arc<dyn Dataset>) {
    let folder = Folder::new();
    for i in 0..count {
        let name = format!("{}/{i:03}.png", i * 3 / count.max(1));
        folder.put(&name, png(3, 2, [i, 7, 9]));
    }
    let dataset = Arc::from(open(folder.text()).unwrap());
    (folder, dataset)
}

/// Everything a run gives: ids, labels, values, batch sizes.
type Run = Vec<(Vec<String>, Vec<Label>, Vec<u32>)>;

fn run(dataset: &Arc<dyn Dataset>, config: LoaderConfig) -> Run {
    let mut loader = Loader::new(dataset.clone(), config).unwrap();
    let mut batches = Vec::new();
    while let Some(loaded) = loader.next_batch().unwrap() {
        let bits = loaded.batch.values().iter().map(|v| v.to_bits()).collect();
        batches.push((loaded.ids, loaded.labels, bits));
        loader.recycle(loaded.batch);
    }
    batches
}

#[test]
fn batches_follow_the_dataset_and_the_last_is_smaller() {
    let (_folder, dataset) = numbered(10);
    let mut loader = Loader::new(dataset, config(raw())).unwrap();
    assert_eq!(loader.samples(), 10);
    let mut sizes = Vec::new();
    let mut reds = Vec::new();
    for loaded in &mut loader {
        let loaded = loaded.unwrap();
        let batch = &loaded.batch;
        assert_eq!((batch.height(), batch.width(), batch.channels()), (2, 3, 3));
        sizes.push(batch.images());
        for (i, label) in loaded.labels.iter().enumerate() {
            let image = batch.image(i);
            assert_eq!(image[1..3], [7.0, 9.0]);
            reds.push(image[0] as usize);
            assert_eq!(label.class(), Some((image[0] as u32) * 3 / 10));
        }
    }
    assert_eq!(sizes, [4, 4, 2]);
    assert_eq!(reds, (0..10).collect::<Vec<_>>());
}

#[test]
fn any_number_of_threads_gives_the_same_batches() {
    let (_folder, dataset) = numbered(37);
    let rule = Preprocess {
        resize: Resize::ShortSide(5),
        crop: Some(Size::square(4)),
        interpolation: Interpolation::Bicubic,
        normalise: Normalise::imagenet(),
    };
    // Settings drawn from a fixed seed; each is run with several thread counts and windows.
    let mut random = SplitMix64::new(5);
    for _ in 0..12 {
        let mut base = config(rule.clone());
        base.batch_size = 1 + random.below(40);
        base.limit = (random.below(2) == 0).then(|| random.below(40));
        base.order = match random.below(2) {
            0 => Order::Stored,
            _ => Order::Shuffled { seed: random.next_u64() },
        };
        // Uneven work, so that threads overtake each other.
        base.transform = Some(Arc::new(|index, mut image: Image| {
            let pause = (index as u64 * 7919) % 5;
            std::thread::sleep(std::time::Duration::from_micros(100 * pause));
            image.rgb_mut()[0] ^= index as u8;
            Ok(image)
        }));
        let alone = LoaderConfig { threads: 1, prefetch: 1, ..base.clone() };
        let expected = run(&dataset, alone);
        for (threads, prefetch) in [(2, 1), (3, 100), (8, 7)] {
            let other = LoaderConfig { threads, prefetch, ..base.clone() };
            assert!(run(&dataset, other) == expected, "{threads} threads, {prefetch} ahead");
        }
    }
}

#[test]
fn the_seed_alone_sets_the_order() {
    let (_folder, dataset) = numbered(20);
    let shuffled = |seed| LoaderConfig { order: Order::Shuffled { seed }, ..config(raw()) };
    assert!(run(&dataset, shuffled(1)) == run(&dataset, shuffled(1)));
    assert!(run(&dataset, shuffled(1)) != run(&dataset, shuffled(2)));
}

/// Ten images of which three cannot be used.
fn with_bad_ones() -> (Folder, Arc<dyn Dataset>) {
    let folder = Folder::new();
    for i in 0..10u8 {
        folder.put(&format!("{i}.png"), png(3, 2, [i, 0, 0]));
    }
    let whole = png(3, 2, [0; 3]);
    folder.put("2.png", "");
    folder.put("5.png", &whole[..whole.len() / 2]);
    folder.put("9.png", png(4, 4, [0; 3]));
    let dataset = Arc::from(open(folder.text()).unwrap());
    (folder, dataset)
}

#[test]
fn bad_images_are_skipped_counted_and_named() {
    let (_folder, dataset) = with_bad_ones();
    let skip = LoaderConfig { on_bad_image: OnBadImage::Skip, ..config(raw()) };
    let mut loader = Loader::new(dataset, skip).unwrap();
    let mut sizes = Vec::new();
    while let Some(loaded) = loader.next_batch().unwrap() {
        sizes.push(loaded.batch.images());
    }
    assert_eq!(sizes, [4, 3]);
    let skipped = loader.skipped();
    assert_eq!(skipped.count, 3);
    let names: Vec<&str> = skipped.named.iter().map(|b| b.id.as_str()).collect();
    assert_eq!(names, ["2.png", "5.png", "9.png"]);
    assert!(matches!(skipped.named[0].cause, BadImageCause::Decode(_)));
    assert!(matches!(skipped.named[2].cause, BadImageCause::Size { .. }));
}

#[test]
fn by_default_a_bad_image_stops_the_run_and_those_ahead_are_named_too() {
    let (_folder, dataset) = with_bad_ones();
    let all_ahead = LoaderConfig { prefetch: 10, ..config(raw()) };
    let mut loader = Loader::new(dataset, all_ahead).unwrap();
    let error = loader.next_batch().unwrap_err();
    assert!(error.hint().is_some());
    let LoadError::BadImages { bad, count } = error else {
        panic!("{error}");
    };
    let names: Vec<&str> = bad.iter().map(|b| b.id.as_str()).collect();
    assert_eq!((count, names), (3, vec!["2.png", "5.png", "9.png"]));
    assert!(loader.next_batch().unwrap().is_none());
}

#[test]
fn images_of_mixed_sizes_are_told_with_the_size_of_the_network() {
    let image = |side: usize| (Image::new(side, side, vec![0; 3 * side * side]).unwrap(), Label::Unknown);
    let dataset = Arc::new(InMemory::new([56, 56, 28, 28, 28].map(image)));
    let usual_size = Some(Size::square(28));
    let error =
        Loader::new(dataset.clone(), LoaderConfig { usual_size, ..config(raw()) }).unwrap().next_batch().unwrap_err();
    assert_eq!(
        error.to_string(),
        "the images come in more than one size: `0` is 56 x 56 pixels after preprocessing, `2` 28 x 28; the network usually takes 28 x 28"
    );
    assert_eq!(error.hint().as_deref(), Some("bring all images to one size"));
    let skip = LoaderConfig { on_bad_image: OnBadImage::Skip, ..config(raw()) };
    assert_eq!(Loader::new(dataset, skip).unwrap().next_batch().unwrap().unwrap().batch.images(), 2);
}

#[test]
fn a_panic_costs_one_image() {
    let (_folder, dataset) = numbered(4);
    let settings = LoaderConfig {
        on_bad_image: OnBadImage::Skip,
        transform: Some(Arc::new(|index, image| {
            assert!(index != 1, "no second image today");
            Ok(image)
        })),
        ..config(raw())
    };
    let mut loader = Loader::new(dataset, settings).unwrap();
    assert_eq!(loader.next_batch().unwrap().unwrap().batch.images(), 3);
    let bad = &loader.skipped().named[0];
    assert!(bad.to_string().contains("no second image today"), "{bad}");
}

#[test]
fn an_image_the_transform_refuses_keeps_its_reason() {
    let (_folder, dataset) = numbered(4);
    let settings = LoaderConfig {
        on_bad_image: OnBadImage::Skip,
        transform: Some(Arc::new(|index, image| match index {
            2 => Err("the third image is too bright".into()),
            _ => Ok(image),
        })),
        ..config(raw())
    };
    let mut loader = Loader::new(dataset, settings).unwrap();
    assert_eq!(loader.next_batch().unwrap().unwrap().indices, [0, 1, 3]);
    let bad = &loader.skipped().named[0];
    assert!(matches!(bad.cause, BadImageCause::Transform(_)));
    assert!(bad.to_string().ends_with("the third image is too bright"));
}

#[test]
fn a_border_is_cut_off_before_anything_else() {
    let folder = Folder::new();
    folder.put("a.png", png(8, 7, [1, 2, 3]));
    folder.put("b.png", png(4, 9, [1, 2, 3]));
    let dataset: Arc<dyn Dataset> = Arc::from(open(folder.text()).unwrap());
    let settings = LoaderConfig { border: 2, on_bad_image: OnBadImage::Skip, ..config(raw()) };
    let mut loader = Loader::new(dataset, settings).unwrap();
    let loaded = loader.next_batch().unwrap().unwrap();
    assert_eq!((loaded.batch.width(), loaded.batch.height()), (4, 3));
    assert!(matches!(loader.skipped().named[0].cause, BadImageCause::Border { .. }));
}

#[test]
fn streams_are_not_shuffled() {
    let folder = Folder::new();
    let image = png(1, 1, [0; 3]);
    let entries: &[(&str, &[u8])] = &[("0.jpg", &image), ("0.cls", b"1")];
    let path = folder.put("a.tar", tar(entries));
    let dataset: Arc<dyn Dataset> = Arc::from(open(path.to_str().unwrap()).unwrap());
    let settings = LoaderConfig { order: Order::Shuffled { seed: 0 }, ..config(raw()) };
    assert!(matches!(Loader::new(dataset, settings), Err(LoadError::ShuffledStream)));
}

#[test]
fn settings_out_of_range_are_named() {
    let (_folder, dataset) = numbered(1);
    let none = LoaderConfig { batch_size: 0, ..config(raw()) };
    let refused = Loader::new(dataset, none).err();
    assert!(matches!(refused, Some(LoadError::OutOfRange { field: "batch_size", found: 0, .. })));
}

#[test]
fn an_unfinished_loader_stops_its_threads() {
    let (_folder, dataset) = numbered(30);
    let mut loader = Loader::new(dataset.clone(), config(raw())).unwrap();
    loader.next_batch().unwrap();
    drop(loader);
    // The workers held the dataset; now only the test does.
    assert_eq!(Arc::strong_count(&dataset), 1);
}
