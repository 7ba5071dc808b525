//! timm's folders.

use super::{HubError, HubModel, HubTensors, interpolation};
use crate::{Architecture, TensorInfo};
use flipcast_images::preprocess::{Normalise, Preprocess, Resize, Size};
use serde::Deserialize;
use serde_json::{Map, Value};

/// What timm takes where the configuration says nothing.
const USUAL_CROP: f64 = 0.875;

/// The fields that matter; there are many more.
#[derive(Deserialize)]
pub(super) struct Config {
    architecture: String,
    num_classes: Option<usize>,
    #[serde(default)]
    model_args: Map<String, Value>,
    label_names: Option<Vec<String>>,
    pretrained_cfg: Option<Pretrained>,
}

/// How images are prepared. Older folders have these fields beside the architecture.
#[derive(Deserialize)]
struct Pretrained {
    input_size: [usize; 3],
    interpolation: Option<String>,
    crop_pct: Option<f64>,
    crop_mode: Option<String>,
    mean: [f32; 3],
    std: [f32; 3],
    num_classes: Option<usize>,
}

impl Config {
    pub fn read(json: Value) -> Result<Self, HubError> {
        let malformed = |source| HubError::Json { path: super::CONFIG.to_owned(), source };
        let beside = json.get("pretrained_cfg").is_none() && json.get("input_size").is_some();
        let old = beside.then(|| Pretrained::deserialize(&json)).transpose().map_err(malformed)?;
        let config = Self::deserialize(json).map_err(malformed)?;
        if let Some(argument) = config.model_args.keys().next() {
            return Err(HubError::setting("model_args", argument, "none"));
        }
        Ok(Self { pretrained_cfg: config.pretrained_cfg.or(old), ..config })
    }

    pub fn model(&self, tensors: &[TensorInfo]) -> Result<HubModel, HubError> {
        let architecture = self.architecture.split('.').next().unwrap_or_default();
        let found = Architecture::find(architecture).map_err(|source| HubError::Architecture { source })?;
        let classes = self.num_classes.or(self.pretrained_cfg.as_ref().and_then(|cfg| cfg.num_classes));
        let architecture = match classes {
            Some(classes) => found.with_classes(classes),
            None => found,
        };
        Ok(HubModel {
            architecture,
            preprocess: self.pretrained_cfg.as_ref().map(Pretrained::preprocess).transpose()?,
            class_names: self.label_names.clone(),
            tensors: HubTensors::plain(tensors),
            eps: None,
            config_eps: 0.0,
        })
    }
}

impl Pretrained {
    fn preprocess(&self) -> Result<Preprocess, HubError> {
        let [channels, height, width] = self.input_size;
        if channels != 3 || height != width {
            return Err(HubError::setting("input_size", &format!("{:?}", self.input_size), "[3, n, n]"));
        }
        let crop = self.crop_pct.unwrap_or(USUAL_CROP);
        let filter = interpolation(self.interpolation.as_deref().unwrap_or("bilinear"))?;
        let normalise = Normalise::MeanStd { mean: self.mean, std: self.std };
        let rule = Preprocess::timm(height, crop, filter, normalise);
        let rule = rule.map_err(|source| HubError::Preprocess { source })?;
        match (self.crop_mode.as_deref().unwrap_or("center"), rule.resize) {
            ("center", _) => Ok(rule),
            ("squash", Resize::ShortSide(side)) => Ok(Preprocess { resize: Resize::Exact(Size::square(side)), ..rule }),
            (other, _) => Err(HubError::setting("crop_mode", other, "`center` or `squash`")),
        }
    }
}
