//! Folders as model hubs have them: a weight file, and beside it a configuration that tells architecture, classes and preprocessing.

mod error;
mod timm;
mod transformers;

pub use error::HubError;

use crate::{Architecture, ImportError, TensorInfo, WeightFile};
use flipcast_graph::Graph;
use flipcast_images::preprocess::{Interpolation, Preprocess};
use flipcast_tensor::{DType, Shape, Tensor};
use serde::de::DeserializeOwned;
use std::collections::HashMap;
use std::io::Read;
use std::path::{Path, PathBuf};

/// The file that makes a folder one of a hub.
const CONFIG: &str = "config.json";
/// What weights are called, the first of them that is there.
const WEIGHTS: [&str; 3] = ["model.safetensors", "pytorch_model.bin", "pytorch_model.safetensors"];
/// Far more than a configuration with the names of a million classes needs.
const MAX_BYTES: u64 = 64 << 20;

/// What a hub's folder tells.
pub(crate) struct HubFolder {
    pub weights: PathBuf,
    /// Where the configuration stands.
    pub config: String,
    /// The folder's name.
    pub name: String,
    kind: Kind,
}

enum Kind {
    Timm(timm::Config),
    Transformers(transformers::Config),
}

/// What is known once the tensors of the weight file are.
pub(crate) struct HubModel {
    pub architecture: Architecture,
    pub preprocess: Option<Preprocess>,
    pub class_names: Option<Vec<String>>,
    /// Tensors under names that the architecture's family knows.
    pub tensors: HubTensors,
    /// What is added to variances, by the name of the norm, where it is not what the family's networks have.
    pub eps: Option<fn(&str, f32) -> Option<f32>>,
    /// The configuration's addend to variances.
    pub config_eps: f32,
}

impl HubModel {
    /// `graph` with the norms of the configuration.
    pub fn adjust(&self, graph: Graph) -> Graph {
        match self.eps {
            Some(rule) => graph.with_eps(|name| rule(name, self.config_eps)),
            None => graph,
        }
    }
}

/// Tensors of a file by other names; some are several tensors, one behind the other.
#[derive(Default)]
pub(crate) struct HubTensors {
    pub infos: Vec<TensorInfo>,
    /// The file's names for each.
    pub parts: HashMap<String, Vec<String>>,
}

impl HubTensors {
    /// The values of the tensor called `name`, from the file that the tensors were listed from.
    pub fn load(&self, file: &WeightFile, name: &str) -> Result<Tensor, ImportError> {
        let parts = self.parts.get(name).map_or(&[][..], Vec::as_slice);
        let [first, others @ ..] = parts else {
            return file.load(name);
        };
        let mut tensor = file.load(first)?;
        for other in others {
            let more = file.load(other)?;
            let extents = tensor.shape().extents();
            let rows = extents[0] + more.shape().extents()[0];
            let shape = Shape::new([&[rows], &extents[1..]].concat());
            let values = [tensor.values(), more.values()].concat();
            tensor = Tensor::new(shape, values).expect("parts differ in their first extent alone");
        }
        Ok(tensor)
    }

    /// The tensors as they are.
    fn plain(tensors: &[TensorInfo]) -> Self {
        let parts = tensors.iter().map(|tensor| (tensor.name.clone(), vec![tensor.name.clone()])).collect();
        Self { infos: tensors.to_vec(), parts }
    }

    /// The tensors under the names that `rename` gives them, with their place among those of the same name; others stay as they
    /// are.
    fn renamed(tensors: &[TensorInfo], rename: impl Fn(&str) -> Option<(String, usize)>) -> Self {
        let mut joined: HashMap<String, Vec<(usize, &TensorInfo)>> = HashMap::new();
        let mut order = Vec::new();
        for tensor in tensors {
            let (name, place) = rename(&tensor.name).unwrap_or_else(|| (tensor.name.clone(), 0));
            let parts = joined.entry(name.clone()).or_default();
            if parts.is_empty() {
                order.push(name);
            }
            parts.push((place, tensor));
        }
        let mut found = Self::default();
        for name in order {
            let mut parts = joined.remove(&name).unwrap_or_default();
            parts.sort_by_key(|(place, _)| *place);
            let tensors: Vec<&TensorInfo> = parts.into_iter().map(|(_, tensor)| tensor).collect();
            let shape = stacked(&tensors);
            let dtype = tensors.first().map_or(DType::F32, |tensor| tensor.dtype);
            found.infos.push(TensorInfo { name: name.clone(), dtype, shape });
            found.parts.insert(name, tensors.into_iter().map(|tensor| tensor.name.clone()).collect());
        }
        found
    }
}

/// Extents of tensors one behind the other; those of the first where they differ otherwise, which then fit nothing.
fn stacked(tensors: &[&TensorInfo]) -> Shape {
    let extents: Vec<&[usize]> = tensors.iter().map(|tensor| tensor.shape.extents()).collect();
    match &extents[..] {
        [one] => Shape::new(one.to_vec()),
        [first, ..] if !first.is_empty() && extents.iter().all(|other| other.get(1..) == first.get(1..)) => {
            let rows = extents.iter().fold(0usize, |rows, other| rows.saturating_add(other[0]));
            Shape::new([&[rows], &first[1..]].concat())
        }
        _ => Shape::new(Vec::<usize>::new()),
    }
}

impl HubFolder {
    /// The folder at `path`; `None` where `path` is no folder.
    pub fn open(path: &Path) -> Result<Option<Self>, HubError> {
        if !path.is_dir() {
            return Ok(None);
        }
        let config = path.join(CONFIG);
        if !config.is_file() {
            return Err(HubError::NoConfig);
        }
        let weights = WEIGHTS.iter().map(|name| path.join(name)).find(|file| file.is_file());
        let weights = weights.ok_or(HubError::NoWeights { expected: WEIGHTS.join(", ") })?;
        let json: serde_json::Value = read_json(&config)?;
        let kind = match (json.get("architecture"), json.get("model_type")) {
            (Some(_), _) => Kind::Timm(timm::Config::read(json)?),
            (None, Some(_)) => Kind::Transformers(transformers::Config::read(json, path)?),
            (None, None) => return Err(HubError::UnknownConfig),
        };
        let name = path.canonicalize().ok().and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned()));
        Ok(Some(Self { weights, config: config.display().to_string(), name: name.unwrap_or_default(), kind }))
    }

    /// The model whose weight file holds `tensors`.
    pub fn model(&self, tensors: &[TensorInfo]) -> Result<HubModel, HubError> {
        match &self.kind {
            Kind::Timm(config) => config.model(tensors),
            Kind::Transformers(config) => config.model(tensors),
        }
    }
}

/// The JSON file at `path`.
fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T, HubError> {
    let place = || path.display().to_string();
    let mut bytes = Vec::new();
    let read = std::fs::File::open(path).and_then(|file| file.take(MAX_BYTES).read_to_end(&mut bytes));
    read.map_err(|source| HubError::Read { path: place(), source })?;
    serde_json::from_slice(&bytes).map_err(|source| HubError::Json { path: place(), source })
}

/// A filter by the name that timm has for it.
fn interpolation(name: &str) -> Result<Interpolation, HubError> {
    Ok(match name {
        "nearest" => Interpolation::Nearest,
        "box" => Interpolation::Box,
        "bilinear" => Interpolation::Bilinear,
        "bicubic" => Interpolation::Bicubic,
        "lanczos" => Interpolation::Lanczos,
        other => return Err(HubError::setting("interpolation", other, "nearest, box, bilinear, bicubic or lanczos")),
    })
}
