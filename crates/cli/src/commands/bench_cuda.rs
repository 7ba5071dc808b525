//! `flipcast bench --device cuda`: the same step on a GPU, of a batch that lies there.

use crate::output::print;
use anyhow::{Context, Result};
use flipcast_cuda::{CudaNetwork, CudaOptions, Precision};
use flipcast_executor::{Executor, NormMode, OptimizerConfig, StepLoss, StepRequest, StepRun};
use flipcast_models::Model;
use flipcast_tensor::Batch;
use serde::Serialize;
use std::time::Instant;

/// What to time.
pub struct Job<'a> {
    pub model: &'a Model,
    pub batch: &'a Batch,
    pub index: usize,
    pub precision: Precision,
    pub warmup: usize,
    pub repeat: usize,
    pub json: bool,
}

#[derive(Serialize)]
struct Report {
    model: String,
    batch: usize,
    size: usize,
    device: String,
    precision: &'static str,
    forward_ms: Vec<f64>,
    step_ms: Vec<f64>,
    forward_gflop: f64,
    step_gflop: f64,
    arena_bytes: usize,
    weight_bytes: usize,
    mean_entropy: f64,
}

/// Times forward passes and Tent's steps, each waited for.
pub fn run(job: &Job) -> Result<()> {
    let (model, batch) = (job.model, job.batch);
    let size = batch.height();
    let options =
        CudaOptions { device: job.index, precision: job.precision, ..CudaOptions::adapt(batch.images(), size, size) };
    let mut net = CudaNetwork::new(model.graph(), model.params(), &options).with_context(|| {
        let images = batch.images();
        format!("cannot run `{}` on {images} x {size} x {size} images", model.name())
    })?;
    net.set_norm_mode(NormMode::Batch)?;
    let mut run = StepRun::new(StepRequest::new(StepLoss::MeanEntropy, OptimizerConfig::sgd(2.5e-4)));
    let staged = net.stage(batch)?;
    let (mut forward_ms, mut step_ms, mut mean_entropy) = (Vec::new(), Vec::new(), 0.0);
    // A pass is recorded the second time it runs.
    for i in 0..2 + job.warmup + job.repeat {
        let start = Instant::now();
        net.forward_staged(&staged)?;
        let forward = start.elapsed().as_secs_f64() * 1e3;
        let start = Instant::now();
        mean_entropy = net.step_staged(&mut run, &staged)?.mean_entropy;
        let step = start.elapsed().as_secs_f64() * 1e3;
        if i >= 2 + job.warmup {
            forward_ms.push(forward);
            step_ms.push(step);
        }
    }
    let (forward, backward) = net.plan().flops(model.graph());
    let gflop = |per_image: u64| per_image as f64 * batch.images() as f64 / 1e9;
    let report = Report {
        model: model.name().to_owned(),
        batch: batch.images(),
        size,
        device: net.device_name().to_owned(),
        precision: job.precision.name(),
        forward_ms,
        step_ms,
        forward_gflop: gflop(forward),
        step_gflop: gflop(forward + backward),
        arena_bytes: net.arena_bytes(),
        weight_bytes: net.weight_bytes(),
        mean_entropy,
    };
    if job.json { print(&(serde_json::to_string(&report)? + "\n")) } else { print(&render(&report)) }
}

fn render(report: &Report) -> String {
    let line = |what: &str, times: &[f64], gflop: f64| {
        let mut sorted = times.to_vec();
        sorted.sort_by(f64::total_cmp);
        let ms = sorted[sorted.len() / 2];
        format!("{what:<9}{ms:>9.2} ms {:>8.1} TFLOP/s\n", gflop / ms)
    };
    let mib = |bytes: usize| bytes as f64 / f64::from(1 << 20);
    let Report { model, batch, size, device, precision, .. } = report;
    let mut text = format!("{model}, {batch} x 3 x {size} x {size}, {device}, {precision}\n");
    text += &line("forward", &report.forward_ms, report.forward_gflop);
    text += &line("step", &report.step_ms, report.step_gflop);
    text +=
        &format!("memory   arena {:.0} MiB, weights {:.0} MiB\n", mib(report.arena_bytes), mib(report.weight_bytes));
    text
}
