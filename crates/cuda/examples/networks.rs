//! The networks that `tools/export_networks.py` wrote on the GPU, against PyTorch in double precision.
//!
//! `networks fill FOLDER` gives files that `tools/models/pack_networks.py` packed their weights back. `networks compare FOLDER PRECISION...`
//! prints a table: for each network and precision the relative errors of logits and of gradients of the mean entropy, the larger of
//! running and batch statistics, beside what PyTorch itself errs by in single precision. Ends with 1 where an error in `f32` is above
//! 1e-4 (logits) or 1e-3 (gradients) and above four times PyTorch's.
#![forbid(unsafe_code)]

#[path = "../../models/tests/golden_network/mod.rs"]
#[expect(dead_code, reason = "the tests of models use all of it")]
mod golden_network;

use flipcast_cuda::{CudaNetwork, CudaOptions, Precision};
use flipcast_ground::SplitMix64;
use flipcast_models::{LoadRequest, Model};
use golden_network::{BOTH, Expected};
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
        _ => Err("expected: networks fill FOLDER, or networks compare FOLDER PRECISION...".into()),
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
