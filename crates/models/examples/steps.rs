//! Some adaptation steps of a built-in or imported network and nothing else, for programs that count instructions.
//!
//! `steps MODEL CLASSES BATCH SIZE COUNT`, where MODEL is an architecture, with random weights, or a file. Every step is a forward pass with
//! the statistics of the batch and a backward pass of the mean entropy, on one thread; then scales and shifts move. `flipcast bench` also measures
//! what the processor can do, which takes minutes where every instruction is counted.
#![forbid(unsafe_code)]

use flipcast_exec::{Executor, Network, NetworkOptions, NormMode};
use flipcast_ground::SplitMix64;
use flipcast_models::{LoadRequest, Model};
use flipcast_tensor::Batch;
use flipcast_testkit::Loss;
use std::error::Error;
use std::path::Path;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [model, numbers @ ..] = args.as_slice() else {
        return Err("expected: steps MODEL CLASSES BATCH SIZE COUNT".into());
    };
    let numbers: Vec<usize> = numbers.iter().map(|text| text.parse()).collect::<Result<_, _>>()?;
    let [classes, images, size, count] = numbers[..] else {
        return Err(format!("found {} numbers, expected CLASSES BATCH SIZE COUNT", numbers.len()).into());
    };
    let model = match Path::new(model).exists() {
        true => Model::load(LoadRequest::new(Path::new(model)))?,
        false => Model::random(model, classes, 1)?,
    };
    let options = NetworkOptions { threads: 1, ..NetworkOptions::adapt(images, size, size) };
    let mut network = Network::new(model.graph(), model.params(), &options)?;
    network.set_norm_mode(NormMode::Batch)?;
    let mut random = SplitMix64::new(1);
    let values: Vec<f32> = (0..images * 3 * size * size).map(|_| random.below(256) as f32 / 64.0 - 2.0).collect();
    let batch = Batch::from_channels_first([images, 3, size, size], &values)?;
    let loss = Loss::MeanEntropy { classes: network.num_classes() };
    for _ in 0..count {
        let logits: Vec<f64> = network.forward(&batch)?.values().iter().map(|&value| f64::from(value)).collect();
        let gradient: Vec<f32> = loss.gradient(&logits).iter().map(|&value| value as f32).collect();
        let gradient = network.backward(&gradient)?.to_vec();
        network.affine_mut().iter_mut().zip(gradient).for_each(|(value, g)| *value -= 1e-4 * g);
    }
    Ok(())
}
