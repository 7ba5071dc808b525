//! Estimates the accuracy of a classifier on shifted images without using their labels.
//!
//! Run it with `cargo run --release -p flipcast --example estimate_accuracy`.

mod toy;

use flipcast::run::corrupted;
use flipcast::{CalibrationJob, Device, FlipProtocol, Ledger, NormMode, OpenedData, Setting, Unwatched, calibrate};
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let model = toy::classifier(toy::pictures(200, 1)?, NormMode::Running)?;

    // Labelled images that the model was not made from teach what its outputs say about its accuracy.
    let labelled = OpenedData::new("stripes", toy::pictures(400, 2)?, &model)?;
    let protocol = FlipProtocol::for_network("statistics", model.graph())?;
    let setting = Setting { model: &model, protocol: &protocol, device: Device::cpu(0) };
    let job = CalibrationJob::new(setting, labelled.request());
    let calibration = calibrate(&job, &mut Ledger::default(), &mut Unwatched)?;

    // Shifts that the calibration has not seen. Labels are there to show the truth; no estimate uses them.
    let data = OpenedData::new("new", toy::pictures(400, 3)?, &model)?;
    println!("{:<22} {:>6} {:>10} {:>16}", "shift", "true", "estimated", "90% interval");
    for shift in ["fog:2", "contrast:3", "brightness:4", "gaussian_noise:3", "gaussian_noise:5"] {
        let request = corrupted(&data.request(), shift)?;
        let cell =
            job.setting.cell("estimate", &request, &calibration.basis, &mut Ledger::default(), &mut Unwatched)?;
        let estimate = &calibration.estimate(&cell, 0.9).source["combined"];
        let percent = |share: f64| format!("{:.1}", 100.0 * share);
        println!(
            "{shift:<22} {:>6} {:>10} {:>16}",
            cell.accuracy.map_or_else(String::new, percent),
            percent(estimate.accuracy),
            format!("{} to {}", percent(estimate.low), percent(estimate.high)),
        );
    }
    Ok(())
}
