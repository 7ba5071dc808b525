use crate::model_card::{CardError, ModelCard};
use crate::text::shown;
use crate::{Architecture, Block, ResNetConfig, Shortcut, Stem, VitConfig};
use flipcast_images::preprocess::{Interpolation, Normalise, Preprocess, Resize, Size};
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// The fields without which such a card is none.
pub(crate) const FIELDS: [&str; 6] = ["architecture", "num_classes", "input_size", "mean", "std", "resize"];

/// The fields that matter of cards written beside weights by training scripts; they carry many more.
#[derive(Deserialize)]
pub(crate) struct ForeignCard {
    name: Option<String>,
    architecture: String,
    num_classes: usize,
    input_size: [usize; 3],
    mean: [f32; 3],
    std: [f32; 3],
    resize: String,
    classes: Option<ClassList>,
    #[serde(default)]
    config: serde_json::Value,
    file: Option<File>,
}

/// Class names, or words on where to find them.
#[derive(Deserialize)]
#[serde(untagged, expecting = "`classes` is neither a list of names nor a text")]
enum ClassList {
    Names(Vec<String>),
    Text(#[expect(dead_code, reason = "says only that the names are elsewhere")] String),
}

/// The settings of a residual network, partly in words.
#[derive(Deserialize)]
struct ResNetSettings {
    block: String,
    layers: Vec<usize>,
    widths: Vec<usize>,
    stem: String,
    shortcut: String,
}

/// The settings of a vision transformer; of the variants only the usual one is known.
#[derive(Deserialize)]
struct VitSettings {
    patch_size: usize,
    num_layers: usize,
    num_heads: usize,
    hidden_dim: usize,
    mlp_dim: usize,
    layer_norm_eps: Option<f32>,
    activation: Option<String>,
    pre_norm: Option<bool>,
    class_token: Option<bool>,
}

#[derive(Deserialize)]
struct File {
    sha256: Option<String>,
}

impl ForeignCard {
    pub(crate) fn into_card(self) -> Result<ModelCard, CardError> {
        let architecture = self.architecture()?;
        let [channels, height, width] = self.input_size;
        if channels != 3 || height != width {
            let found = format!("{:?}", self.input_size);
            return Err(not_understood("input_size", &found, "[3, n, n]"));
        }
        check_only("bn_eps", self.config["bn_eps"].as_f64(), 1e-5)?;
        let preprocess = Preprocess {
            resize: read_resize(&self.resize, Size { width, height })?,
            crop: None,
            interpolation: Interpolation::Bilinear,
            normalise: Normalise::MeanStd { mean: self.mean, std: self.std },
        };
        Ok(ModelCard {
            name: self.name,
            classes: architecture.config.classes(),
            architecture: Some(Architecture { input_size: height, ..architecture }),
            class_names: match self.classes {
                Some(ClassList::Names(names)) => Some(names),
                Some(ClassList::Text(_)) | None => None,
            },
            preprocess,
            weights_sha256: self.file.and_then(|file| file.sha256),
        })
    }

    fn architecture(&self) -> Result<Architecture, CardError> {
        match self.architecture.as_str() {
            "cifar_resnet" => self.cifar_resnet(),
            "vit" => self.vit(),
            name => {
                let found = Architecture::find(name).map_err(|source| CardError::Architecture { source })?;
                Ok(found.with_classes(self.num_classes))
            }
        }
    }

    fn settings<T: DeserializeOwned>(&self) -> Result<T, CardError> {
        serde_json::from_value(self.config.clone()).map_err(|source| CardError::Json { source })
    }

    fn vit(&self) -> Result<Architecture, CardError> {
        let settings: VitSettings = self.settings()?;
        check_only("layer_norm_eps", settings.layer_norm_eps, 1e-6)?;
        check_only("activation", settings.activation.as_deref(), "gelu (erf)")?;
        check_only("pre_norm", settings.pre_norm, true)?;
        check_only("class_token", settings.class_token, true)?;
        let [_, image, _] = self.input_size;
        let sizes = [settings.hidden_dim, settings.num_layers, settings.num_heads];
        let plain = VitConfig::new(image, settings.patch_size, sizes, self.num_classes);
        let vit = VitConfig { mlp_dim: settings.mlp_dim, ..plain };
        Ok(Architecture::new(vit.name(), image, vit))
    }

    fn cifar_resnet(&self) -> Result<Architecture, CardError> {
        let ResNetSettings { block, layers, widths, stem, shortcut } = self.settings()?;
        let block = choose("block", &block, [("basic", Block::Basic), ("bottleneck", Block::Bottleneck)])?;
        let stem = choose("stem", &stem, [("3x3", Stem::Cifar), ("7x7", Stem::Imagenet)])?;
        let shortcut = choose("shortcut", &shortcut, [("option A", Shortcut::A), ("option B", Shortcut::B)])?;
        let plain = ResNetConfig::plain(block, stem, &widths, &layers, self.num_classes);
        let config = ResNetConfig { shortcut, ..plain };
        Ok(Architecture::new(config.cifar_name().unwrap_or("cifar_resnet".into()), 32, config))
    }
}

/// The choice that `text` starts with.
fn choose<T: Copy>(field: &'static str, text: &str, choices: [(&str, T); 2]) -> Result<T, CardError> {
    let chosen = choices.iter().find(|(start, _)| text.starts_with(start));
    let [(first, _), (second, _)] = choices;
    let refused = || not_understood(field, text, &format!("a text that starts with `{first}` or `{second}`"));
    chosen.map(|&(_, value)| value).ok_or_else(refused)
}

/// Refuses a setting that has another value than the one that is known.
fn check_only<T: PartialEq + ToString>(field: &'static str, found: Option<T>, known: T) -> Result<(), CardError> {
    match found {
        Some(found) if found != known => Err(not_understood(field, &found.to_string(), &known.to_string())),
        _ => Ok(()),
    }
}

fn not_understood(field: &'static str, text: &str, expected: &str) -> CardError {
    CardError::NotUnderstood { field, found: shown(text), expected: expected.to_owned() }
}

/// `none`, or the enlargement on float pixels that ends at the network's input size.
fn read_resize(text: &str, input: Size) -> Result<Resize, CardError> {
    if text == "none" {
        return Ok(Resize::None);
    }
    let target = format!(" to {}x{}, ", input.width, input.height);
    let rest = text.split_once(&target).map(|(_, rest)| rest);
    let is_float = rest.is_some_and(|rest| {
        rest.starts_with("bilinear on float pixels, half-pixel centres") && rest.contains("no crop")
    });
    if is_float {
        return Ok(Resize::ExactFloat(input));
    }
    Err(not_understood(
        "resize",
        text,
        "`none` or `AxA to BxB, bilinear on float pixels, half-pixel centres ..., no crop` that ends at `input_size`",
    ))
}
