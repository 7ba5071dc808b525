//! Damaged files of every format that others may send, in one process and thread: each ends in a value or a typed error.
//!
//! `mutate FORMAT COUNT [SEED]`, from the root of the repository. It prints what became of the files, how much memory one took beyond
//! itself at most, and how long; files that made a reader panic or take more than it should are kept in `target/mutate`. Ends with 1 if
//! there are any.

mod allocation;
mod archive;
mod json;
mod plain;
mod protobuf;

use flipcast_ground::SplitMix64;
use flipcast_images::table::{read_labels, read_logits};
use flipcast_models::{LoadRequest, Model, WeightFile};
use std::error::Error;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

#[global_allocator]
static ALLOCATOR: allocation::Counting = allocation::Counting;

/// Memory that any file may take, beside `PER_BYTE` times its length.
const FREE_BYTES: usize = 16 << 20;
const PER_BYTE: usize = 64;
/// Longer than any small file may take, on a busy machine.
const LONG: Duration = Duration::from_secs(5);
/// Files between two lines of progress.
const REPORT_EVERY: u64 = 100_000;
/// Seeds larger than this take too long for millions of copies.
const LARGEST_SEED: u64 = 60_000;

/// Makes a damaged file and reads it; whether it was still good.
trait Format {
    fn damaged(&self, random: &mut SplitMix64) -> Vec<u8>;
    fn read(&self, bytes: Vec<u8>) -> Result<(), String>;
}

fn seeds(folder: &str, ending: &str) -> Result<Vec<(PathBuf, Vec<u8>)>, Box<dyn Error>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|found| found == ending) && path.metadata()?.len() < LARGEST_SEED {
            files.push((path.clone(), std::fs::read(path)?));
        }
    }
    files.sort();
    match files.is_empty() {
        true => Err(format!("`{folder}` has no .{ending} files").into()),
        false => Ok(files),
    }
}

fn one<'a, T>(all: &'a [T], random: &mut SplitMix64) -> &'a T {
    &all[random.below(all.len())]
}

/// Reads a network as loading does.
fn read_network(bytes: Vec<u8>) -> Result<(), String> {
    let file = WeightFile::from_bytes(bytes).map_err(|error| error.to_string())?;
    let model = Model::from_program(&file).map_err(|error| error.to_string())?;
    assert!(model.num_classes() > 1);
    Ok(())
}

struct Pt2(Vec<archive::Archive>);

impl Format for Pt2 {
    fn damaged(&self, random: &mut SplitMix64) -> Vec<u8> {
        one(&self.0, random).damaged(random)
    }

    fn read(&self, bytes: Vec<u8>) -> Result<(), String> {
        read_network(bytes)
    }
}

struct Onnx(Vec<(protobuf::Message, Vec<u8>)>);

impl Format for Onnx {
    fn damaged(&self, random: &mut SplitMix64) -> Vec<u8> {
        let (message, whole) = one(&self.0, random);
        match random.below(8) {
            0 => plain::damaged(whole, random),
            _ => message.damaged(random),
        }
    }

    fn read(&self, bytes: Vec<u8>) -> Result<(), String> {
        read_network(bytes)
    }
}

/// A hub's folder with either of its configurations damaged.
struct Hub {
    places: Vec<(PathBuf, json::Json, Option<json::Json>)>,
}

const CONFIGS: [&str; 2] = ["config.json", "preprocessor_config.json"];

impl Hub {
    /// Folders in memory with the weights of the goldens.
    fn new(scratch: &Path) -> Result<Self, Box<dyn Error>> {
        let mut places = Vec::new();
        let mut folders: Vec<PathBuf> =
            std::fs::read_dir("golden/hub")?.map(|entry| entry.map(|entry| entry.path())).collect::<Result<_, _>>()?;
        folders.sort();
        for folder in folders.into_iter().filter(|folder| folder.join(CONFIGS[0]).is_file()) {
            let place = scratch.join(folder.file_name().ok_or("a folder has a name")?);
            std::fs::create_dir_all(&place)?;
            std::fs::copy(folder.join("model.safetensors"), place.join("model.safetensors"))?;
            let preprocessor = std::fs::read(folder.join(CONFIGS[1])).ok().map(|text| json::Json::new(&text));
            places.push((place, json::Json::new(&std::fs::read(folder.join(CONFIGS[0]))?), preprocessor));
        }
        Ok(Self { places })
    }
}

impl Format for Hub {
    /// The folder's number, then both configurations, parted by zeros.
    fn damaged(&self, random: &mut SplitMix64) -> Vec<u8> {
        let number = random.below(self.places.len());
        let (_, config, preprocessor) = &self.places[number];
        let which = random.below(4);
        let mut bytes = vec![number as u8];
        bytes.extend(if which > 0 { config.damaged(random) } else { config.whole().to_vec() });
        bytes.push(0);
        match preprocessor {
            Some(text) if which == 0 => bytes.extend(text.damaged(random)),
            Some(text) => bytes.extend(text.whole()),
            None => {}
        }
        bytes
    }

    fn read(&self, bytes: Vec<u8>) -> Result<(), String> {
        let (number, texts) = bytes.split_first().ok_or("nothing")?;
        let folder = &self.places[usize::from(*number)].0;
        for (name, text) in CONFIGS.iter().zip(texts.splitn(2, |&byte| byte == 0)) {
            std::fs::write(folder.join(name), text).map_err(|error| error.to_string())?;
        }
        Model::load(LoadRequest::new(folder)).map(drop).map_err(|error| error.to_string())
    }
}

/// Logits or labels, in a file in memory.
struct Tables {
    seeds: Vec<(PathBuf, Vec<u8>)>,
    place: PathBuf,
}

impl Format for Tables {
    fn damaged(&self, random: &mut SplitMix64) -> Vec<u8> {
        plain::damaged(&one(&self.seeds, random).1, random)
    }

    fn read(&self, bytes: Vec<u8>) -> Result<(), String> {
        std::fs::write(&self.place, bytes).map_err(|error| error.to_string())?;
        let labels = read_labels(&self.place).map_err(|error| error.to_string());
        let logits = read_logits(&self.place).map_err(|error| error.to_string())?;
        assert_eq!(logits.values.len() % logits.columns, 0);
        labels.map(drop).or(Ok(()))
    }
}

fn format(name: &str, scratch: &Path) -> Result<Box<dyn Format>, Box<dyn Error>> {
    Ok(match name {
        "pt2" => Box::new(Pt2(seeds("golden/programs", "pt2")?
            .iter()
            .map(|(_, seed)| archive::Archive::new(seed))
            .collect())),
        "onnx" => {
            let seeds = seeds("golden/onnx", "onnx")?.into_iter().filter(|(_, seed)| seed.len() < 20_000);
            Box::new(Onnx(seeds.map(|(_, seed)| (protobuf::Message::new(&seed), seed)).collect()))
        }
        "hub" => Box::new(Hub::new(scratch)?),
        "npy" | "npz" | "parquet" | "csv" => {
            Box::new(Tables { seeds: seeds("fuzz/seeds", name)?, place: scratch.join("table") })
        }
        _ => return Err("expected pt2, onnx, hub, npy, npz, parquet or csv".into()),
    })
}

/// What became of the files.
#[derive(Default)]
struct Outcomes {
    good: u64,
    errors: u64,
    panics: u64,
    large: u64,
    slow: u64,
    most: usize,
    longest: Duration,
}

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (name, count, seed) = match args.as_slice() {
        [name, count] => (name, count.parse::<u64>()?, 1),
        [name, count, seed] => (name, count.parse()?, seed.parse()?),
        _ => return Err("expected: mutate FORMAT COUNT [SEED]".into()),
    };
    let scratch = PathBuf::from(format!("/dev/shm/flipcast-mutate-{}", std::process::id()));
    std::fs::create_dir_all(&scratch)?;
    let kept = PathBuf::from("target/mutate");
    std::fs::create_dir_all(&kept)?;
    let format = format(name, &scratch)?;
    // Panics of readers that are caught are no news; those that are not are counted below.
    std::panic::set_hook(Box::new(|_| {}));
    let mut outcomes = Outcomes::default();
    let started = Instant::now();
    for place in 0..count {
        // A file can be made again from its number alone.
        let bytes = format.damaged(&mut SplitMix64::new(SplitMix64::mix(seed) ^ SplitMix64::mix(place)));
        let copy = bytes.clone();
        let held = allocation::start();
        let start = Instant::now();
        let read = catch_unwind(AssertUnwindSafe(|| format.read(bytes)));
        let (took, taken) = (start.elapsed(), allocation::peak().saturating_sub(held));
        let mut wrong = None;
        match read {
            Ok(Ok(())) => outcomes.good += 1,
            Ok(Err(error)) => {
                assert!(error.len() < 8192, "file {place} has an error of {} bytes", error.len());
                outcomes.errors += 1;
            }
            Err(_) => {
                outcomes.panics += 1;
                wrong = Some("panic");
            }
        }
        if taken > FREE_BYTES + PER_BYTE * copy.len() {
            outcomes.large += 1;
            wrong = Some("large");
        }
        if took > LONG {
            outcomes.slow += 1;
            wrong = Some("slow");
        }
        outcomes.most = outcomes.most.max(taken);
        outcomes.longest = outcomes.longest.max(took);
        if let Some(why) = wrong {
            std::fs::write(kept.join(format!("{name}-{seed}-{place}.{why}")), &copy)?;
        }
        if (place + 1) % REPORT_EVERY == 0 || place + 1 == count {
            let Outcomes { good, errors, panics, large, slow, most, longest } = &outcomes;
            println!(
                "{name}: {} files of seed {seed}: {good} good, {errors} errors, {panics} panics, {large} took more memory than they may, \
                 {slow} longer; at most {:.1} MiB and {:.0} ms; {:.0} s in all",
                place + 1,
                *most as f64 / f64::from(1 << 20),
                longest.as_secs_f64() * 1e3,
                started.elapsed().as_secs_f64()
            );
        }
    }
    std::fs::remove_dir_all(&scratch)?;
    std::process::exit(i32::from(outcomes.panics + outcomes.large + outcomes.slow > 0))
}
