use std::error::Error;
use std::sync::Arc;

use flipcast_images::dataset::{DataError, Dataset, Layout, Payload, Sample};
use flipcast_images::loader::{Loader, LoaderConfig};
use flipcast_images::preprocess::{Normalise, Preprocess};
use flipcast_images::{Image, Label};

use super::*;
use crate::blocks::jpeg::reference_decoder;
use crate::registry::names;
use crate::spec::{CorruptionRequest, Severity};
use crate::{CorruptionStep, Storage};

/// One picture of no regular size, to write and to corrupt in memory.
struct OnePicture;

impl OnePicture {
    fn picture() -> Image {
        let rgb = (0..3 * 45 * 37).map(|i| (i * i / 7 % 253) as u8).collect();
        Image::new(45, 37, rgb).expect("sizes match")
    }
}

impl ImageSource for OnePicture {
    fn len(&self) -> usize {
        1
    }
    fn relative_path(&self, _: usize) -> String {
        "one.JPEG".to_owned()
    }
    fn label(&self, _: usize) -> Option<i64> {
        None
    }
    fn load(&self, _: usize) -> Result<Image, Box<dyn Error + Send + Sync>> {
        Ok(Self::picture())
    }
}

impl Dataset for OnePicture {
    fn layout(&self) -> Layout {
        Layout::FlatFolder
    }
    fn len(&self) -> usize {
        1
    }
    fn classes(&self) -> &[String] {
        &[]
    }
    fn id(&self, _: usize) -> String {
        "one".to_owned()
    }
    fn sample(&self, index: usize) -> Result<Sample, DataError> {
        let payload = Payload::Pixels(Self::picture());
        Ok(Sample { id: Dataset::id(self, index), payload, label: Label::Unknown })
    }
}

/// The bytes of the picture with a corruption made in memory.
fn in_memory(spec: &CorruptionSpec, seed: u64) -> Vec<u8> {
    let request: CorruptionRequest = spec.to_string().parse().expect("a spec is a request");
    let dataset: Arc<dyn Dataset> = Arc::new(OnePicture);
    let config = LoaderConfig::new(Preprocess::normalise_only(Normalise::imagenet()));
    let config = CorruptionStep::join_published(config, &dataset, request, seed);
    let change = config.change.as_ref().expect("the corruption");
    assert_eq!(change.storage(), Some(Storage::Jpeg85.name()));
    assert!(change.recipe([37, 45, 3]).is_none(), "no device makes stored images");
    let mut loader = Loader::new(dataset, config).expect("settings work");
    let loaded = loader.next_batch().expect("readable").expect("one image");
    loaded.batch.image_bytes(0).expect("it ends in bytes").to_vec()
}

#[test]
fn written_files_decode_to_the_bytes_of_corruptions_in_memory() {
    let out = std::env::temp_dir().join(format!("flipcast-corrupt-same-bytes-{}", std::process::id()));
    for set in [CorruptionSet::ImageNetC, CorruptionSet::ImageNetCBar, CorruptionSet::TinyImageNetC] {
        let out = out.join(set.name());
        let specs = names(set).into_iter().zip(Severity::ALL.into_iter().cycle());
        let specs: Vec<_> = specs.map(|(name, severity)| CorruptionSpec::new(set, name, severity)).collect();
        let specs: Vec<_> = specs.into_iter().map(|spec| spec.expect("listed")).collect();
        let options = WriteOptions { threads: 1, on_progress: &|_| {} };
        write_folder(&out, &OnePicture, &specs, &Corruptor::new(6), &options).expect("room on the disk");
        for spec in &specs {
            let path = out.join(spec.name).join(severity_folder(spec)).join("one.JPEG");
            let file = std::fs::read(path).expect("it was written");
            assert!(reference_decoder::decode(&file).rgb() == in_memory(spec, 6), "{spec}");
        }
    }
    std::fs::remove_dir_all(&out).expect("it was written");
}

#[test]
fn arrays_have_no_storage_step_in_memory_either() {
    let request: CorruptionRequest = "cifar-c/fog:3".parse().expect("well formed");
    let dataset: Arc<dyn Dataset> = Arc::new(OnePicture);
    let config = LoaderConfig::new(Preprocess::normalise_only(Normalise::imagenet()));
    for request in [request, CorruptionRequest { set: None, ..request }] {
        let config = CorruptionStep::join_published(config.clone(), &dataset, request, 0);
        assert_eq!(config.change.expect("the corruption").storage(), None);
    }
}
