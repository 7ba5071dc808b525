use crate::commands::bench_cell::{self, CellArgs, Place};
use crate::commands::device::DeviceArgs;
use crate::commands::env::isa;
use crate::commands::inputs::PreprocessArgs;
use crate::commands::profile::{self, Share};
use crate::commands::{bench_cuda, thread_count};
use crate::output::print;
use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use flipcast_adapt::{Adapter, Tent, TentConfig};
use flipcast_exec::{Exactness, Executor, Memory, Network, NetworkOptions, NormMode};
use flipcast_kernels::{ScratchSize, Team, measure_copy_bandwidth, measure_fma_peak};
use flipcast_models::{LoadRequest, Model};
use flipcast_run::Device;
use flipcast_tensor::Batch;
use serde::Serialize;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

#[derive(clap::Args)]
pub struct Args {
    /// What to time: an architecture, with random weights, or a weight file, exported program, ONNX file or hub folder
    #[arg(long, default_value = "resnet50")]
    model: String,
    /// Number of classes
    #[arg(long, default_value_t = 1000)]
    classes: usize,
    /// Images per batch
    #[arg(long, default_value_t = 16)]
    batch: usize,
    /// Height and width of an image; the architecture's own if not given
    #[arg(long)]
    size: Option<usize>,
    /// Threads; 0 means one per core
    #[arg(long, default_value_t = 0)]
    threads: usize,
    /// Runs before the clock starts
    #[arg(long, default_value_t = 1)]
    warmup: usize,
    /// Timed runs
    #[arg(long, default_value_t = 5)]
    repeat: usize,
    /// Which convolution algorithms may be used
    #[arg(long, value_enum, default_value_t = Kernels::Fast)]
    kernels: Kernels,
    /// Also print where the time of a step goes
    #[arg(long)]
    profile: bool,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    cell: CellArgs,
    #[command(flatten)]
    device: DeviceArgs,
    #[command(flatten)]
    preprocess: PreprocessArgs,
}

#[derive(Clone, Copy, ValueEnum)]
enum Kernels {
    /// The fastest, Winograd among them
    Fast,
    /// Direct sums only
    Direct,
    /// Direct sums in double precision, to check the others
    Double,
}

#[derive(Serialize)]
struct Report {
    model: String,
    batch: usize,
    size: usize,
    threads: usize,
    isa: &'static str,
    forward_ms: Vec<f64>,
    step_ms: Vec<f64>,
    forward_gflop: f64,
    step_gflop: f64,
    fma_peak_gflops: f64,
    copy_gb_per_s: f64,
    arena_bytes: usize,
    arena_peak_bytes: usize,
    weight_bytes: usize,
    scratch_bytes: usize,
    peak_rss_bytes: Option<u64>,
    mean_entropy: f64,
    /// Where the time of a step goes, if that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    profile: Option<Vec<Share>>,
}

pub fn run(args: &Args) -> Result<()> {
    ensure!(args.repeat > 0, "--repeat is 0, expected at least 1");
    let device = args.device.device(args.threads)?;
    let (change, file) = (args.preprocess.change(), Path::new(&args.model));
    ensure!(
        change.is_empty() || file.exists() || args.cell.weights.is_some(),
        "preprocessing was given for `{}`, which is made of random weights; it belongs to a file",
        args.model
    );
    if args.cell.cell {
        let threads = thread_count(args.threads)?;
        let (model, classes, json) = (args.model.as_str(), args.classes, args.json);
        return bench_cell::run(&args.cell, &Place { model, change: &change, classes, device, threads, json });
    }
    let model = match file.exists() {
        true => Model::load(LoadRequest { preprocess: Some(&change), ..LoadRequest::new(file) })?,
        false => Model::random(&args.model, args.classes, 1)
            .with_context(|| format!("cannot make a random `{}`", args.model))?,
    };
    let size = args.size.unwrap_or_else(|| model.input_size().height);
    if let Device::Cuda { index, precision } = device {
        return bench_cuda::run(&bench_cuda::Job {
            model: &model,
            batch: &noise(args.batch, size)?,
            index,
            precision,
            warmup: args.warmup,
            repeat: args.repeat,
            json: args.json,
        });
    }
    let options = NetworkOptions {
        threads: args.threads,
        isa: Some(isa()?),
        exactness: match args.kernels {
            Kernels::Fast => Exactness::Fast,
            Kernels::Direct => Exactness::Direct,
            Kernels::Double => Exactness::Double,
        },
        ..NetworkOptions::adapt(args.batch, size, size)
    };
    let mut net = Network::new(model.graph(), model.params(), &options)
        .with_context(|| format!("cannot run `{}` on {} x {size} x {size} images", args.model, args.batch))?;
    let (forward_flops, backward_flops) = net.plan().flops(model.graph());
    let graph = Arc::clone(model.graph());
    drop(model);
    let batch = noise(args.batch, size)?;
    let mut tent = Tent::new(TentConfig::imagenet())?;
    let mut mean_entropy = 0.0;
    let mut forward_ms = Vec::new();
    let mut step_ms = Vec::new();
    net.set_norm_mode(NormMode::Batch)?;
    for i in 0..args.warmup + args.repeat {
        let start = Instant::now();
        net.forward(&batch)?;
        let forward = start.elapsed().as_secs_f64() * 1e3;
        let start = Instant::now();
        mean_entropy = tent.step(&mut net, &batch)?.mean_entropy;
        let step = start.elapsed().as_secs_f64() * 1e3;
        if i >= args.warmup {
            forward_ms.push(forward);
            step_ms.push(step);
        }
    }
    let peak_rss_bytes = peak_rss();
    let mut profile = None;
    if args.profile {
        net.start_profile();
        for _ in 0..args.repeat {
            tent.step(&mut net, &batch)?;
        }
        profile = Some(profile::shares(&net, &graph, args.batch, args.repeat));
    }
    let mut team = Team::new(net.isa(), net.threads(), ScratchSize::default());
    let Memory { arena, peak, weights, scratch } = net.memory();
    let gflop = |per_image: u64| per_image as f64 * args.batch as f64 / 1e9;
    let report = Report {
        model: args.model.clone(),
        batch: args.batch,
        size,
        threads: net.threads(),
        isa: net.isa().name(),
        forward_ms,
        step_ms,
        forward_gflop: gflop(forward_flops),
        step_gflop: gflop(forward_flops + backward_flops),
        fma_peak_gflops: measure_fma_peak(&mut team),
        copy_gb_per_s: measure_copy_bandwidth(&mut team),
        arena_bytes: arena,
        arena_peak_bytes: peak,
        weight_bytes: weights,
        scratch_bytes: scratch,
        peak_rss_bytes,
        mean_entropy,
        profile,
    };
    if args.json { print(&(serde_json::to_string(&report)? + "\n")) } else { print(&render(&report)) }
}

fn render(report: &Report) -> String {
    let line = |what: &str, times: &[f64], gflop: f64| {
        let ms = median(times);
        let rate = gflop / ms * 1e3;
        let share = 100.0 * rate / report.fma_peak_gflops;
        format!("{what:<9}{ms:>9.1} ms {rate:>8.0} GFLOP/s, {share:.0}% of the multiply-add peak\n")
    };
    let mib = |bytes: usize| bytes as f64 / f64::from(1 << 20);
    let Report { model, batch, size, threads, isa, .. } = report;
    let mut text = format!("{model}, {batch} x 3 x {size} x {size}, {threads} threads, {isa}\n");
    text += &line("forward", &report.forward_ms, report.forward_gflop);
    text += &line("step", &report.step_ms, report.step_gflop);
    text += &format!(
        "memory   arena {:.0} MiB (at most {:.0} live at once), packed weights {:.0} MiB, scratch {:.0} MiB",
        mib(report.arena_bytes),
        mib(report.arena_peak_bytes),
        mib(report.weight_bytes),
        mib(report.scratch_bytes)
    );
    if let Some(bytes) = report.peak_rss_bytes {
        text += &format!(", process {:.0} MiB", mib(bytes as usize));
    }
    text.push('\n');
    if let Some(shares) = &report.profile {
        text += &format!("\n{}", profile::render(shares));
    }
    text
}

fn median(times: &[f64]) -> f64 {
    let mut sorted = times.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

/// Repeatable images: values in about [-1.7, 1.7].
fn noise(images: usize, size: usize) -> Result<Batch> {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        ((state >> 40) as f32 / 8_388_608.0 - 1.0) * 1.7
    };
    let values = (0..images * size * size * 3).map(|_| next()).collect();
    Ok(Batch::new([images, size, size, 3], values)?)
}

/// The most memory this process ever held, where the system tells.
fn peak_rss() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib * 1024)
}
