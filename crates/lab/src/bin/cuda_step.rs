//! Times an RDumb step of a network with random weights on the GPU: forward, loss, backward and optimiser, of a batch that
//! lies on the device.
//!
//! `cuda_step MODEL CLASSES BATCH SIZE PRECISION [profile]` gets the network ready, then reads counts from its standard input,
//! one per line, and answers each with one line of JSON: the milliseconds of so many steps, each waited for, and what a step
//! multiplies and moves at least. So another
//! program can take turns with it. With `profile` it first tells where the time of a step goes.

use flipcast_cuda::{CudaNetwork, CudaOptions, Precision};
use flipcast_executor::{Executor, NormMode, OptimizerConfig, StepLoss, StepRequest, StepRun};
use flipcast_graph::{BackwardStep, Graph, NodeId, Plan, Step, ValueId};
use flipcast_models::Model;
use flipcast_tensor::Batch;
use std::collections::BTreeMap;
use std::error::Error;
use std::io::BufRead;
use std::time::Instant;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [model, classes, batch, size, precision, rest @ ..] = args.as_slice() else {
        return Err("expected: step MODEL CLASSES BATCH SIZE PRECISION [profile]".into());
    };
    let (batch, size): (usize, usize) = (batch.parse()?, size.parse()?);
    let precision = Precision::from_name(precision).ok_or("expected tf32, bf16 or f32")?;
    let start = Instant::now();
    let model = Model::random(model, classes.parse()?, 1)?;
    let made = start.elapsed().as_secs_f64();
    let start = Instant::now();
    let options = CudaOptions { precision, ..CudaOptions::adapt(batch, size, size) };
    let mut net = CudaNetwork::new(model.graph(), model.params(), &options)?;
    net.set_norm_mode(NormMode::Batch)?;
    eprintln!(
        "{}: weights {made:.1} s, ready after {:.1} s, arena {} MiB",
        model.name(),
        start.elapsed().as_secs_f64(),
        net.arena_bytes() >> 20
    );
    let staged = net.stage(&noise(batch, size)?)?;
    let classes: f64 = classes.parse()?;
    // Every image counts, so that every step does all of its work.
    let loss = StepLoss::SelectedEntropy { entropy_margin: classes.ln() + 0.1, cosine_margin: None };
    let mut run = StepRun::new(StepRequest::new(loss, OptimizerConfig::sgd(2.5e-4)));
    if !rest.is_empty() {
        profile(&mut net, &mut run, &staged, model.graph())?;
    }
    let (forward, backward) = net.plan().flops(model.graph());
    let flops = batch as u64 * (forward + backward);
    let bytes = traffic(net.plan()) * precision.element().bytes();
    for line in std::io::stdin().lock().lines() {
        let mut times = Vec::new();
        let mut entropy = 0.0;
        for _ in 0..line?.trim().parse::<usize>()? {
            let start = Instant::now();
            entropy = net.step_staged(&mut run, &staged)?.mean_entropy;
            times.push(start.elapsed().as_secs_f64() * 1e3);
        }
        println!("{{\"ms\": {times:.4?}, \"mean_entropy\": {entropy}, \"flops\": {flops}, \"bytes\": {bytes}}}");
    }
    Ok(())
}

/// Values that the steps of a plan read and write if each takes every operand once.
fn traffic(plan: &Plan) -> usize {
    let images = plan.options().batch;
    let stored = |values: Vec<ValueId>| -> usize {
        let mut bases: Vec<ValueId> = values.into_iter().map(|value| plan.base(value)).collect();
        bases.sort();
        bases.dedup();
        let len = |value: &ValueId| images * plan.value(*value).dims.len();
        bases.iter().map(len).sum()
    };
    let forward = plan.forward().iter().map(|step| {
        let target = step.target().map_or(0, |target| stored(vec![target]));
        stored(step.sources()) + target
    });
    let backward = plan.backward().iter().map(|step| {
        let gradients = step.gradients().into_iter();
        let moved: usize = gradients.map(|buffer| plan.range(buffer, images).len()).sum();
        stored(step.reads()) + moved
    });
    forward.sum::<usize>() + backward.sum::<usize>()
}

fn profile(
    net: &mut CudaNetwork,
    run: &mut StepRun,
    staged: &flipcast_cuda::StagedBatch,
    graph: &Graph,
) -> Result<(), Box<dyn Error>> {
    const RUNS: usize = 3;
    net.step_staged(run, staged)?;
    net.start_profile()?;
    for _ in 0..RUNS {
        net.step_staged(run, staged)?;
    }
    let times = net.take_profile().ok_or("a profile was started")?;
    let ms = |time: &std::time::Duration| time.as_secs_f64() * 1e3 / RUNS as f64;
    let mut kinds: BTreeMap<&str, (usize, f64)> = BTreeMap::new();
    let mut add = |kind, time| {
        let entry = kinds.entry(kind).or_default();
        entry.0 += 1;
        entry.1 += time;
    };
    let ways: BTreeMap<String, (String, Option<String>)> =
        net.algorithms().into_iter().map(|(name, forward, backward)| (name, (forward, backward))).collect();
    let name = |node: &NodeId| graph.node(*node).name.clone();
    for (step, time) in net.plan().forward().iter().zip(&times.forward) {
        match step {
            Step::Conv { node, source, .. } => {
                let dims = net.plan().value(*source).dims;
                let (name, way) = (name(node), &ways[&name(node)].0);
                println!("  {name:<32} {dims:<16} {:.3} ms  {way}", ms(time));
            }
            _ => {
                let target = step.target().map(|target| net.plan().value(target).node);
                let name = target.map(|node| name(&node)).unwrap_or_default();
                println!("  {name:<32} {:<16} {:.3} ms", forward_kind(step), ms(time));
            }
        }
        add(forward_kind(step), ms(time));
    }
    for (step, time) in net.plan().backward().iter().zip(&times.backward) {
        if let BackwardStep::Conv { node, then, .. } = step {
            let way = ways[&name(node)].1.clone().unwrap_or_default();
            let then = format!("{then:?}");
            let then = then.split(['(', ' ']).next().unwrap_or("");
            println!("  {:<32} back {then:<8} {:.3} ms  {way}", name(node), ms(time));
        }
        add(backward_kind(step), ms(time));
    }
    for (kind, (count, time)) in kinds {
        println!("{kind:<24} {count:>4} {time:>8.3} ms");
    }
    Ok(())
}

fn forward_kind(step: &Step) -> &'static str {
    match step {
        Step::Conv { .. } => "conv",
        Step::Join { .. } => "join",
        Step::Statistics { .. } => "statistics",
        Step::LayerNorm { .. } => "layer norm",
        Step::Attention { .. } => "attention",
        _ => "other",
    }
}

fn backward_kind(step: &BackwardStep) -> &'static str {
    match step {
        BackwardStep::Conv { .. } => "conv back",
        BackwardStep::NormSums { .. } => "norm sums",
        BackwardStep::ThroughNorm { .. } => "through norm",
        BackwardStep::Join { .. } => "join back",
        BackwardStep::LayerNorm { .. } => "layer norm back",
        BackwardStep::Attention { .. } => "attention back",
        BackwardStep::Copy { .. } => "copy back",
        _ => "other back",
    }
}

/// Repeatable images: values in about [-1.7, 1.7].
fn noise(images: usize, size: usize) -> Result<Batch, Box<dyn Error>> {
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
