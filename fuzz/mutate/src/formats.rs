//! What is damaged and how it is read.

use crate::{archive, json, plain, protobuf};
use flipcast_ground::SplitMix64;
use flipcast_images::table::{read_labels, read_logits};
use flipcast_models::{LoadRequest, Model, WeightFile};
use std::error::Error;
use std::path::{Path, PathBuf};

/// Seeds larger than this take too long for millions of copies.
const LARGEST_SEED: u64 = 60_000;

type Failure = Box<dyn Error>;

/// A kind of file.
pub trait Format {
    /// A damaged one.
    fn damaged(&self, random: &mut SplitMix64) -> Vec<u8>;
    /// Reads one as the program does.
    fn read(&self, bytes: Vec<u8>) -> Result<(), Failure>;
}

fn seeds(folder: &str, ending: &str) -> Result<Vec<(PathBuf, Vec<u8>)>, Failure> {
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
fn read_network(bytes: Vec<u8>) -> Result<(), Failure> {
    let file = WeightFile::from_bytes(bytes)?;
    let model = Model::from_program(&file)?;
    assert!(model.num_classes() > 1);
    Ok(())
}

struct Pt2(Vec<archive::Archive>);

impl Format for Pt2 {
    fn damaged(&self, random: &mut SplitMix64) -> Vec<u8> {
        one(&self.0, random).damaged(random)
    }

    fn read(&self, bytes: Vec<u8>) -> Result<(), Failure> {
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

    fn read(&self, bytes: Vec<u8>) -> Result<(), Failure> {
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
    fn new(scratch: &Path) -> Result<Self, Failure> {
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

    fn read(&self, bytes: Vec<u8>) -> Result<(), Failure> {
        let (number, texts) = bytes.split_first().ok_or("nothing")?;
        let folder = &self.places[usize::from(*number)].0;
        for (name, text) in CONFIGS.iter().zip(texts.splitn(2, |&byte| byte == 0)) {
            std::fs::write(folder.join(name), text)?;
        }
        Ok(Model::load(LoadRequest::new(folder)).map(drop)?)
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

    fn read(&self, bytes: Vec<u8>) -> Result<(), Failure> {
        std::fs::write(&self.place, bytes)?;
        // Few tables are both; that labels end in an error is as good.
        let _ = read_labels(&self.place);
        let logits = read_logits(&self.place)?;
        assert_eq!(logits.values.len() % logits.columns, 0);
        Ok(())
    }
}

/// The kind of file called `name`, which may write into `scratch`.
pub fn format(name: &str, scratch: &Path) -> Result<Box<dyn Format>, Failure> {
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
