//! Processor time of the engine alone for what a monitor does with a batch: the source pass and the second look.
//!
//! `cargo run --release -p flipcast-lab --bin two_looks -- MODEL BATCHES`; `bench/serve/load.py --only share` runs it in turns with the server.

use flipcast_estimate::FLIP_BATCH;
use flipcast_exec::{NormMode, Purpose};
use flipcast_ground::SplitMix64;
use flipcast_run::Device;
use flipcast_run::open::ModelRequest;
use flipcast_tensor::Batch;
use std::error::Error;
use std::time::Instant;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [model, batches] = &arguments[..] else { return Err("expected MODEL BATCHES".into()) };
    let batches: usize = batches.parse()?;
    let model = ModelRequest::new(model.as_ref()).open()?;
    let device = Device::cpu(0);
    let mut source = device.network(&model, Purpose::Predict, FLIP_BATCH)?;
    let mut second = device.network(&model, Purpose::Predict, FLIP_BATCH)?;
    second.set_norm_mode(NormMode::Batch)?;
    let size = model.input_size();
    let mut random = SplitMix64::new(0);
    let values = (0..FLIP_BATCH * size.height * size.width * 3).map(|_| random.normal() as f32).collect();
    let batch = Batch::new([FLIP_BATCH, size.height, size.width, 3], values)?;
    let mut start = (Instant::now(), 0.0);
    // The first batch meets cold memory.
    for number in 0..=batches {
        source.forward(&batch)?;
        second.forward(&batch)?;
        if number == 0 {
            start = (Instant::now(), processor_seconds()?);
        }
    }
    let (wall, processor) = (start.0.elapsed().as_secs_f64(), processor_seconds()? - start.1);
    println!("{{\"wall\": {:.6}, \"processor\": {:.6}}}", wall / batches as f64, processor / batches as f64);
    Ok(())
}

/// Processor time of this process, by all threads.
fn processor_seconds() -> Result<f64, Box<dyn Error>> {
    let text = std::fs::read_to_string("/proc/self/stat")?;
    let fields = text.rsplit(')').next().ok_or("no fields")?.split_whitespace().skip(11);
    let ticks = fields.take(2).map(str::parse::<u64>).sum::<Result<u64, _>>()?;
    Ok(ticks as f64 / 100.0)
}
