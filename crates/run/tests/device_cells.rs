//! Cells of corrupted images on a GPU: made from clean images that lie there, or read and corrupted on the host, they are the
//! same. Without a GPU this says so and checks nothing.

use flipcast_corrupt::{CorruptionStep, Corruptor};
use flipcast_cuda::{Precision, report};
use flipcast_images::dataset::{DataError, Dataset, Layout, Payload, Sample};
use flipcast_images::loader::LoaderConfig;
use flipcast_images::preprocess::{Normalise, Preprocess, Size};
use flipcast_images::{Image, Label};
use flipcast_models::Model;
use flipcast_run::{CellRequest, Device, FlipProtocol, Images, Scope, Setting, Unwatched};
use std::sync::Arc;

const SIDE: usize = 32;

struct Pictures;

impl Dataset for Pictures {
    fn layout(&self) -> Layout {
        Layout::FlatFolder
    }
    fn len(&self) -> usize {
        300
    }
    fn classes(&self) -> &[String] {
        &[]
    }
    fn id(&self, index: usize) -> String {
        index.to_string()
    }
    fn sample(&self, index: usize) -> Result<Sample, DataError> {
        let byte = |at: usize| (at.wrapping_mul(at / 3 + 7 * index + 1) >> 4) as u8;
        let rgb = (0..3 * SIDE * SIDE).map(byte).collect();
        Ok(Sample {
            id: self.id(index),
            payload: Payload::Pixels(Image::new(SIDE, SIDE, rgb).expect("sizes match")),
            label: Label::Class(0),
        })
    }
}

#[test]
fn corrupted_cells_are_the_same_wherever_they_are_corrupted() {
    if !report().usable() {
        println!("skipped: no cell was made on a GPU, since there is none: {:?}", report());
        return;
    }
    let rule = Preprocess { crop: Some(Size::square(SIDE)), ..Preprocess::normalise_only(Normalise::cifar10()) };
    let model = Model::random("cifar_resnet20", 10, 3).expect("a known architecture");
    let model = model.with_preprocess(rule.clone());
    let mut protocol = FlipProtocol::named("flipcast").expect("a known protocol");
    protocol.stops = vec![5];
    let setting =
        Setting { model: &model, protocol: &protocol, device: Device::Cuda { index: 0, precision: Precision::F32 } };
    let scope = Scope::new(10, None);
    for name in [
        "gaussian_noise:4",
        "shot_noise:2",
        "impulse_noise:3",
        "speckle_noise:5",
        "brightness:5",
        "contrast:5",
        "saturate:4",
    ] {
        let corruptor = Arc::new(Corruptor::new(8));
        let config = LoaderConfig::new(rule.clone());
        let config = CorruptionStep::join(config, name.parse().expect("well formed"), corruptor);
        let request = CellRequest {
            data: name.to_owned(),
            dataset: Arc::new(Pictures),
            config: config.clone(),
            preprocess: &rule,
            scope: &scope,
            seed: 8,
            memory_limit: 1 << 30,
        };
        let on_device = setting.observe(&request, &mut Unwatched);
        let on_device = on_device.expect("it runs");
        for memory_limit in [1 << 30, 0] {
            let images = Images::open(Arc::new(Pictures), config.clone(), memory_limit);
            let on_host = setting.observe_images(&images.expect("readable"), &scope, &mut Unwatched);
            let on_host = on_host.expect("it runs");
            assert_eq!(on_device.source.outputs, on_host.source.outputs, "{name}");
            assert_eq!(on_device.flips.initial, on_host.flips.initial, "{name}");
            let stops = |seen: &flipcast_run::Observation| {
                let stops = seen.flips.stops.iter();
                stops.map(|stop| stop.outputs.clone()).collect::<Vec<_>>()
            };
            assert_eq!(stops(&on_device), stops(&on_host), "{name}");
        }
    }
}
