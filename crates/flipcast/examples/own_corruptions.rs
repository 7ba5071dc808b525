//! Shows how a classifier of your own stands up to each published corruption.
//!
//! Run it with `cargo run --release -p flipcast --example own_corruptions`.

mod toy;

use flipcast::corrupt::CorruptionSet;
use flipcast::corrupt::registry::names;
use flipcast::run::{Images, corrupted, run_source};
use flipcast::{Device, NormMode, OpenedData, Unwatched};
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let model = toy::classifier(toy::pictures(200, 1)?, NormMode::Running)?;
    let data = OpenedData::new("stripes", toy::pictures(200, 2)?, &model)?;
    println!("accuracy in percent at severities 1, 3 and 5");
    for name in names(CorruptionSet::CifarC) {
        let mut line = format!("{name:<20}");
        for severity in [1, 3, 5] {
            // The images are corrupted in memory, in the same way on every machine.
            let request = corrupted(&data.request(), &format!("cifar-c/{name}:{severity}"))?;
            let images = Images::open(request.dataset, request.config, request.memory_limit)?;
            let seen = run_source(&model, &images, request.scope, Device::cpu(0), &mut Unwatched)?;
            let accuracy = seen.accuracy(request.scope).ok_or("every picture has a label")?;
            line += &format!(" {:6.1}", 100.0 * accuracy);
        }
        println!("{line}");
    }
    Ok(())
}
