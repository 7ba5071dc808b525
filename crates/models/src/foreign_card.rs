use crate::fit::shown;
use crate::model_card::{CardError, ModelCard};
use crate::{Architecture, ArchitectureConfig, Block, ResNetConfig, Shortcut, Stem, VitConfig};
use flipcast_images::preprocess::{Interpolation, Normalise, Preprocess, Resize, Size};
use serde::Deserialize;

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
    config: Option<Config>,
    file: Option<File>,
}

/// Class names, or words on where to find them.
#[derive(Deserialize)]
#[serde(untagged, expecting = "`classes` is neither a list of names nor a text")]
enum ClassList {
    Names(Vec<String>),
    Text(#[expect(dead_code, reason = "says only that the names are elsewhere")] String),
}

#[derive(Deserialize)]
struct Config {
    block: Option<String>,
    layers: Option<Vec<usize>>,
    widths: Option<Vec<usize>>,
    stem: Option<String>,
    shortcut: Option<String>,
    bn_eps: Option<f32>,
    patch_size: Option<usize>,
    num_layers: Option<usize>,
    num_heads: Option<usize>,
    hidden_dim: Option<usize>,
    mlp_dim: Option<usize>,
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
            return Err(not_understood("input_size", &found, "`[3, n, n]`"));
        }
        let eps = self.config.as_ref().and_then(|config| config.bn_eps);
        if let Some(eps) = eps.filter(|&eps| eps != 1e-5) {
            return Err(not_understood("bn_eps", &eps.to_string(), "1e-5"));
        }
        let preprocess = Preprocess {
            resize: read_resize(&self.resize, Size { width, height })?,
            crop: None,
            interpolation: Interpolation::Bilinear,
            normalise: Normalise::MeanStd { mean: self.mean, std: self.std },
        };
        Ok(ModelCard {
            name: self.name,
            architecture: Architecture { input_size: height, ..architecture },
            class_names: match self.classes {
                Some(ClassList::Names(names)) => Some(names),
                Some(ClassList::Text(_)) | None => None,
            },
            preprocess,
            weights_sha256: self.file.and_then(|file| file.sha256),
        })
    }

    fn architecture(&self) -> Result<Architecture, CardError> {
        if self.architecture == "cifar_resnet" {
            return self.cifar_resnet();
        }
        if self.architecture == "vit" {
            return self.vit();
        }
        let found = Architecture::find(&self.architecture).map_err(|source| CardError::Architecture { source })?;
        Ok(found.with_classes(self.num_classes))
    }

    /// A vision transformer whose settings stand in `config`; of the variants only the usual one is known.
    fn vit(&self) -> Result<Architecture, CardError> {
        let config = self.config.as_ref();
        let number = |field, get: fn(&Config) -> Option<usize>| {
            let found = config.and_then(get);
            found.ok_or_else(|| not_understood(field, "nothing", "a number"))
        };
        let eps = config.and_then(|config| config.layer_norm_eps);
        if let Some(eps) = eps.filter(|&eps| eps != 1e-6) {
            return Err(not_understood("layer_norm_eps", &eps.to_string(), "1e-6"));
        }
        let activation = config.and_then(|config| config.activation.as_deref());
        if let Some(text) = activation.filter(|&text| text != "gelu (erf)") {
            return Err(not_understood("activation", text, "`gelu (erf)`"));
        }
        for (field, found) in [
            ("pre_norm", config.and_then(|config| config.pre_norm)),
            ("class_token", config.and_then(|config| config.class_token)),
        ] {
            if found == Some(false) {
                return Err(not_understood(field, "false", "true"));
            }
        }
        let sizes = [
            number("hidden_dim", |config| config.hidden_dim)?,
            number("num_layers", |config| config.num_layers)?,
            number("num_heads", |config| config.num_heads)?,
        ];
        let [_, image, _] = self.input_size;
        let patch = number("patch_size", |config| config.patch_size)?;
        let vit = VitConfig {
            mlp_dim: number("mlp_dim", |config| config.mlp_dim)?,
            ..VitConfig::new(image, patch, sizes, self.num_classes)
        };
        Ok(Architecture { name: vit.name(), input_size: image, config: ArchitectureConfig::Vit(vit) })
    }

    /// A residual network whose settings stand in `config`, partly in words.
    fn cifar_resnet(&self) -> Result<Architecture, CardError> {
        let config = self.config.as_ref();
        let numbers = |field, numbers: Option<&Vec<usize>>| {
            numbers.cloned().ok_or(CardError::NotUnderstood {
                field,
                found: "nothing".into(),
                expected: "one number per stage",
            })
        };
        let block = starts_with(
            "block",
            config.and_then(|config| config.block.as_deref()),
            [("basic", Block::Basic), ("bottleneck", Block::Bottleneck)],
            "a text that starts with `basic` or `bottleneck`",
        )?;
        let stem = starts_with(
            "stem",
            config.and_then(|config| config.stem.as_deref()),
            [("3x3", Stem::Cifar), ("7x7", Stem::Imagenet)],
            "a text that starts with `3x3` or `7x7`",
        )?;
        let shortcut = starts_with(
            "shortcut",
            config.and_then(|config| config.shortcut.as_deref()),
            [("option A", Shortcut::A), ("option B", Shortcut::B)],
            "a text that starts with `option A` or `option B`",
        )?;
        let layers = numbers("layers", config.and_then(|config| config.layers.as_ref()))?;
        let widths = numbers("widths", config.and_then(|config| config.widths.as_ref()))?;
        let plain = ResNetConfig::plain(block, stem, &widths, &layers, self.num_classes);
        let config = ResNetConfig { shortcut, ..plain };
        Ok(Architecture {
            name: config.cifar_name().unwrap_or("cifar_resnet".into()),
            input_size: 32,
            config: ArchitectureConfig::ResNet(config),
        })
    }
}

fn starts_with<T: Copy>(
    field: &'static str,
    text: Option<&str>,
    choices: [(&str, T); 2],
    expected: &'static str,
) -> Result<T, CardError> {
    let text = text.unwrap_or("nothing");
    let chosen = choices.iter().find(|(start, _)| text.starts_with(start));
    match chosen {
        Some(&(_, value)) => Ok(value),
        None => Err(not_understood(field, text, expected)),
    }
}

fn not_understood(field: &'static str, text: &str, expected: &'static str) -> CardError {
    CardError::NotUnderstood { field, found: shown(text).trim_matches('`').to_owned(), expected }
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
