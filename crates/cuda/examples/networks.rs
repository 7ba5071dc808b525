//! The networks that `tools/export_networks.py` wrote on the GPU, against PyTorch in double precision.
//!
//! `networks fill FOLDER` gives files that `tools/models/pack_networks.py` packed their weights back. `networks compare FOLDER PRECISION...`
//! prints a table: for each network and precision the relative errors of logits and of gradients of the mean entropy, the larger of
//! running and batch statistics, beside what PyTorch itself errs by in single precision. Ends with 1 where an error in `f32` is above
//! 1e-4 (logits) or 1e-3 (gradients) and above four times PyTorch's.
//!
//! `networks kinks FOLDER DEVICE NAME...` tells for some of them how much of a gradient's error is rounding across kinks. DEVICE is a precision
//! or `cpu`. For running and for batch statistics it prints the relative error of the gradient against the double-precision reference; how many
//! activations and max pools took another branch than there, and the largest distance of the reference from the other branch, as a share of the
//! root mean square of that layer's inputs; and the relative error against the same reference differentiated along the branches that the
//! executor took. Ends with 1 where this last error is above 1e-3.
#![forbid(unsafe_code)]

#[path = "../../models/tests/golden_network/mod.rs"]
#[expect(dead_code, reason = "the tests of models use all of it")]
mod golden_network;

use flipcast_cuda::{CudaNetwork, CudaOptions, Precision};
use flipcast_exec::{Executor, Network, NetworkOptions, NormMode};
use flipcast_ground::SplitMix64;
use flipcast_models::{LoadRequest, Model};
use flipcast_testkit::{Loss, Reference, ReferenceError, ReferenceNorm, ReferenceRun, crossing_taps, relative_l2};
use golden_network::{BOTH, Expected, wide};
use std::collections::HashMap;
use std::error::Error;
use std::path::{Path, PathBuf};

type Failure = Box<dyn Error>;

fn main() -> Result<(), Failure> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.as_slice() {
        [command, folder] if command == "fill" => fill(Path::new(folder)),
        [command, folder, precisions @ ..] if command == "compare" && !precisions.is_empty() => {
            let named = |name: &String| Precision::from_name(name).ok_or("expected tf32, bf16 or f32");
            let precisions = precisions.iter().map(named).collect::<Result<Vec<_>, _>>()?;
            let is_right = compare(Path::new(folder), &precisions)?;
            std::process::exit(i32::from(!is_right))
        }
        [command, folder, device, names @ ..] if command == "kinks" && !names.is_empty() => {
            let is_right = kinks(Path::new(folder), device, names)?;
            std::process::exit(i32::from(!is_right))
        }
        _ => Err("expected: networks fill FOLDER, networks compare FOLDER PRECISION... or networks kinks FOLDER DEVICE NAME...".into()),
    }
}

/// Writes the numbers of seeds to the places that `seeds.txt` names, a line each: file, offset, seed, count, center and width.
fn fill(folder: &Path) -> Result<(), Failure> {
    let text = std::fs::read_to_string(folder.join("seeds.txt"))?;
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    for file in lines.chunk_by(|a, b| a.first() == b.first()) {
        let name = file[0].first().ok_or("`seeds.txt` has an empty line")?;
        let mut bytes = std::fs::read(folder.join(name))?;
        for line in file {
            let &[_, offset, seed, count, center, width] = line.as_slice() else {
                return Err(format!("`seeds.txt` has a line {line:?}, expected six words").into());
            };
            let (offset, count): (usize, usize) = (offset.parse()?, count.parse()?);
            let (mut random, center, width) =
                (SplitMix64::new(seed.parse()?), center.parse::<f32>()?, width.parse::<f32>()?);
            let place = bytes.get_mut(offset..offset + 4 * count).ok_or_else(|| format!("`{name}` is too short"))?;
            for value in place.chunks_exact_mut(4) {
                let unit = (random.next_u64() >> 40) as f32 / 8_388_608.0 - 1.0;
                value.copy_from_slice(&(center + width * unit).to_le_bytes());
            }
        }
        std::fs::write(folder.join(name), bytes)?;
    }
    Ok(())
}

fn compare(folder: &Path, precisions: &[Precision]) -> Result<bool, Failure> {
    let files = std::fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.path()));
    let mut programs: Vec<PathBuf> = files.collect::<Result<_, _>>()?;
    programs.retain(|path| path.extension().is_some_and(|ending| ending == "pt2"));
    programs.sort();
    let (mut running, mut is_right) = (0, true);
    println!("network, precision, logits, gradients, PyTorch's float32 logits, gradients, verdict");
    for path in &programs {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let model = match Model::load(LoadRequest::new(path)) {
            Ok(model) => model,
            Err(error) => {
                let cause = error.source().map_or_else(|| error.to_string(), ToString::to_string);
                println!("{name}: refused: {cause}");
                continue;
            }
        };
        let expected = Expected::load(&folder.join(format!("{name}.expected.safetensors")));
        let rounding = expected.file.values("float32_errors")?.to_vec();
        let mut is_ok = true;
        for &precision in precisions {
            let (images, height, width) = (expected.batch.images(), expected.batch.height(), expected.batch.width());
            let options = CudaOptions { precision, ..CudaOptions::adapt(images, height, width) };
            let mut network = match CudaNetwork::new(model.graph(), model.params(), &options) {
                Ok(network) => network,
                Err(error) => {
                    println!("{name}, {}: refused on the GPU: {error}", precision.name());
                    (is_ok, is_right) = (false, false);
                    continue;
                }
            };
            let [logits, gradients] = expected.compare(&mut network, BOTH);
            let within = logits <= (4.0 * rounding[0]).max(1e-4) && gradients <= (4.0 * rounding[1]).max(1e-3);
            let verdict = match precision {
                Precision::F32 if within => "ok",
                Precision::F32 => "DIFFERS",
                _ => "-",
            };
            is_ok &= precision != Precision::F32 || within;
            println!(
                "{name}, {}, {logits:.1e}, {gradients:.1e}, {:.1e}, {:.1e}, {verdict}",
                precision.name(),
                rounding[0],
                rounding[1]
            );
        }
        running += usize::from(is_ok);
        is_right &= is_ok;
    }
    println!("{running} of {} networks run", programs.len());
    Ok(is_right)
}

/// Gradients of executors that took their own branches are within this of the reference along the same branches.
const SAME_BRANCHES: f64 = 1e-3;

/// What an executor computed in one mode.
struct Pass {
    mode: NormMode,
    logit_gradient: Vec<f64>,
    gradient: Vec<f64>,
    /// Values of the nodes that tell its branches.
    values: HashMap<String, Vec<f32>>,
}

fn kinks(folder: &Path, device: &str, names: &[String]) -> Result<bool, Failure> {
    let mut networks = Vec::new();
    for name in names {
        let model = Model::load(LoadRequest::new(&folder.join(format!("{name}.pt2"))))?;
        let expected = Expected::load(&folder.join(format!("{name}.expected.safetensors")));
        let passes = run_passes(&model, &expected, device)?;
        networks.push((name, model, expected, passes));
    }
    println!(
        "network, device, statistics, error of the gradient, branches that differ, farthest, error along the executor's branches, verdict"
    );
    // The reference is slow: every network and mode on a thread of its own.
    std::thread::scope(|scope| {
        let mut running = Vec::new();
        for (name, model, expected, passes) in &networks {
            running.extend(
                passes.iter().map(|pass| (name, pass, scope.spawn(move || compare_branches(model, expected, pass)))),
            );
        }
        let mut is_right = true;
        for (name, pass, thread) in running {
            let found = thread.join().map_err(|_| format!("the reference of `{name}` failed"))?;
            let [error, crossings, farthest, along] = found.map_err(|error| format!("{name}: {error}"))?;
            let statistics = if pass.mode == NormMode::Running { "running" } else { "batch" };
            let verdict = if along <= SAME_BRANCHES { "ok" } else { "DIFFERS" };
            println!(
                "{name}, {device}, {statistics}, {error:.1e}, {crossings}, {farthest:.1e}, {along:.1e}, {verdict}"
            );
            is_right &= along <= SAME_BRANCHES;
        }
        Ok(is_right)
    })
}

/// Gradients of the mean entropy with running and with batch statistics.
fn run_passes(model: &Model, expected: &Expected, device: &str) -> Result<Vec<Pass>, Failure> {
    let (images, height, width) = (expected.batch.images(), expected.batch.height(), expected.batch.width());
    let taps = crossing_taps(model.graph());
    let mut executor: Box<dyn Executor> = match (device, Precision::from_name(device)) {
        ("cpu", _) => {
            let options = NetworkOptions { taps: taps.clone(), ..expected.options() };
            Box::new(Network::new(model.graph(), model.params(), &options)?)
        }
        (_, Some(precision)) => {
            let options = CudaOptions { precision, taps: taps.clone(), ..CudaOptions::adapt(images, height, width) };
            Box::new(CudaNetwork::new(model.graph(), model.params(), &options)?)
        }
        _ => return Err(format!("a device is `{device}`, expected cpu, tf32, bf16 or f32").into()),
    };
    let mut passes = Vec::new();
    for &mode in BOTH {
        executor.set_norm_mode(mode)?;
        let logits = wide(executor.forward(&expected.batch)?.values());
        let mut values = HashMap::new();
        for name in &taps {
            values.insert(name.clone(), executor.tap(name)?.values().to_vec());
        }
        let slopes = Loss::MeanEntropy { classes: executor.num_classes() }.gradient(&logits);
        let slopes: Vec<f32> = slopes.iter().map(|&slope| slope as f32).collect();
        let gradient = wide(executor.backward(&slopes)?);
        passes.push(Pass { mode, logit_gradient: wide(&slopes), gradient, values });
    }
    Ok(passes)
}

/// Error of the gradient, number of branches that differ, the largest distance from one, and the error along the executor's branches.
fn compare_branches(model: &Model, expected: &Expected, pass: &Pass) -> Result<[f64; 4], String> {
    let text = |error: ReferenceError| error.to_string();
    let reference = Reference::new(model.graph(), model.params()).map_err(text)?;
    let mode = if pass.mode == NormMode::Running { ReferenceNorm::Running } else { ReferenceNorm::Batch };
    let run = reference.forward(&expected.batch, mode, &reference.affine()).map_err(text)?;
    let value_of = |name: &str| pass.values.get(name).cloned().ok_or_else(|| format!("nothing was read of `{name}`"));
    let crossings = run.crossings(value_of)?;
    let farthest = crossings.iter().map(|crossing| crossing.relative).fold(0.0, f64::max);
    let error = |run: &ReferenceRun| {
        Ok::<f64, String>(relative_l2(&pass.gradient, &reference.backward(run, &pass.logit_gradient).map_err(text)?))
    };
    Ok([error(&run)?, crossings.len() as f64, farthest, error(&run.along(value_of)?)?])
}
