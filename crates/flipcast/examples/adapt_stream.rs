//! Adapts a classifier to a stream of images without contrast while it predicts them, batch by batch.
//!
//! Run it with `cargo run --release -p flipcast --example adapt_stream`.

mod toy;

use flipcast::adapt::{Norms, Target};
use flipcast::run::corrupted;
use flipcast::{Device, Label, Loader, LoaderConfig, MethodConfig, NormMode, OpenedData, Purpose};
use std::error::Error;

const BATCH: usize = 50;

fn main() -> Result<(), Box<dyn Error>> {
    let model = toy::classifier(toy::pictures(200, 1)?, NormMode::Batch)?;
    let data = OpenedData::new("stripes", toy::pictures(1000, 2)?, &model)?;
    let shifted = corrupted(&data.request(), "contrast:3")?;
    let device = Device::cpu(0);

    for method in ["bn", "tent", "eta"] {
        // Defaults depend on the number of classes, on what normalises the network and on the batch size.
        let norms = Norms::of(&model.graph().affine_table());
        let target = Target { num_classes: model.num_classes(), norms, batch_size: BATCH };
        let mut adapter = MethodConfig::default_on(method, target)?.build(0)?;
        let mut net = device.network(&model, Purpose::Adapt, BATCH)?;
        let config = LoaderConfig { batch_size: BATCH, ..shifted.config.clone() };
        let (mut right, mut seen) = (0, 0);
        for loaded in Loader::new(shifted.dataset.clone(), config)? {
            let loaded = loaded?;
            // Predicts first, then moves the scales and shifts of the norm layers.
            let step = adapter.step(&mut *net, &loaded.batch)?;
            let classes = step.logits.argmax();
            let hits = classes.iter().zip(&loaded.labels);
            right += hits.filter(|(class, label)| **label == Label::Class(**class as u32)).count();
            seen += classes.len();
        }
        println!("{method:<8} {:.1}% of {seen} images right", 100.0 * right as f64 / seen as f64);
    }
    Ok(())
}
