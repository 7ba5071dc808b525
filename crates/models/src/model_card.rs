use crate::foreign_card::{self, ForeignCard};
use crate::{Architecture, ArchitectureConfig, ArchitectureError};
use flipcast_ground::Hint;
use flipcast_images::preprocess::{Interpolation, Normalise, Preprocess, PreprocessError, Resize, Size};
use serde::{Deserialize, Serialize};
use std::io::Read;
use std::path::{Path, PathBuf};

/// The field that makes a JSON file a card, and holds its format.
const FORMAT: &str = "flipcast_model";
/// The format this version writes.
const VERSION: u32 = 1;
/// Far more than a card with the names of a million classes needs.
const MAX_BYTES: u64 = 64 << 20;

/// What a weight file needs beside its tensors: architecture, classes and preprocessing.
///
/// A card is a JSON file beside the weights, `<weights>.json`, or the text of the safetensors metadata entry
/// `flipcast_card`:
///
/// ```json
/// {
///   "flipcast_model": 1,
///   "architecture": "resnet50",
///   "classes": ["cat", "dog"],
///   "mean": [0.485, 0.456, 0.406],
///   "std": [0.229, 0.224, 0.225],
///   "resize": {"short_side": 256},
///   "crop": 224,
///   "interpolation": "bilinear"
/// }
/// ```
///
/// `classes` is a number or the names; `resize` is `"none"`, `{"short_side": n}`, `{"exact": size}` or
/// `{"exact_float": size}`; `crop` is a number, `{"width": w, "height": h}` or absent. Optional: `name`, `architecture`
/// where the file itself tells it, as an exported program does, `config` with the settings of a network that has no name, `input_size`, `weights_sha256`, and `normalise` in place of `mean` and
/// `std`. Unknown fields are errors. Cards without `flipcast_model` are read too if they hold `architecture`,
/// `num_classes`, `input_size`, `mean`, `std` and `resize`.
///
/// ```
/// use flipcast_models::ModelCard;
///
/// let card = ModelCard::read(br#"{
///     "flipcast_model": 1, "architecture": "resnet50", "classes": ["cat", "dog"], "mean": [0.485, 0.456, 0.406],
///     "std": [0.229, 0.224, 0.225], "resize": {"short_side": 256}, "crop": 224
/// }"#)?;
/// assert_eq!(card.classes, 2);
/// assert_eq!(ModelCard::read(card.to_json().as_bytes())?, card);
/// # Ok::<(), flipcast_models::CardError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct ModelCard {
    /// The model's name, `<architecture>.<weights>`.
    pub name: Option<String>,
    /// The architecture with its class count; none where the file tells it, as an exported program does.
    pub architecture: Option<Architecture>,
    /// Number of classes.
    pub classes: usize,
    /// One name per class.
    pub class_names: Option<Vec<String>>,
    /// What is done to an image.
    pub preprocess: Preprocess,
    /// SHA-256 of the weight file the card belongs to, in hexadecimal.
    pub weights_sha256: Option<String>,
}

/// Why a card was refused.
#[derive(Debug, thiserror::Error)]
pub enum CardError {
    /// The operating system refused.
    #[error("the file cannot be read")]
    Read {
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// Not a card by size.
    #[error("the file has more than {limit} bytes, too many for a card")]
    TooLong {
        /// Bytes allowed.
        limit: u64,
    },
    /// Not JSON, or fields of the wrong kind.
    #[error("the card is malformed")]
    Json {
        /// Where and why.
        #[source]
        source: serde_json::Error,
    },
    /// A format of the future.
    #[error("the card has `flipcast_model` {found}, expected {VERSION}")]
    Version {
        /// The version found.
        found: u32,
    },
    /// No usable architecture.
    #[error("the card's architecture is not known")]
    Architecture {
        /// What is wrong with it.
        #[source]
        source: ArchitectureError,
    },
    /// Settings of a network, but no name for it.
    #[error("the card has `config`, but no `architecture` to call it by")]
    ConfigWithoutName,
    /// A setting of a card without `flipcast_model` that is not understood.
    #[error("the card's `{field}` is `{found}`, expected {expected}")]
    NotUnderstood {
        /// The field.
        field: &'static str,
        /// Its text, shortened.
        found: String,
        /// What is understood.
        expected: String,
    },
    /// The number of names is not the number of classes.
    #[error("the card names {names} classes, but gives their number as {classes}")]
    ClassCount {
        /// Names.
        names: usize,
        /// The number.
        classes: usize,
    },
    /// Both or neither of the two ways to normalise.
    #[error("the card needs either `mean` and `std` or `normalise`")]
    Normalise,
    /// The preprocessing cannot work.
    #[error("the card's preprocessing cannot work")]
    Preprocess {
        /// The setting at fault.
        #[source]
        source: PreprocessError,
    },
}

impl Hint for CardError {
    fn hint(&self) -> Option<String> {
        match self {
            Self::Version { .. } => Some("the card was written by a newer flipcast".into()),
            Self::NotUnderstood { .. } => {
                Some("write a card with `\"flipcast_model\": 1` and the exact settings".into())
            }
            Self::Architecture { source } => source.hint(),
            _ => None,
        }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct OwnCard {
    flipcast_model: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    architecture: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    config: Option<ArchitectureConfig>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    input_size: Option<usize>,
    classes: Classes,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    mean: Option<[f32; 3]>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    std: Option<[f32; 3]>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    normalise: Option<Normalise>,
    resize: Resize,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    crop: Option<Crop>,
    #[serde(default = "bilinear")]
    interpolation: Interpolation,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    weights_sha256: Option<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(untagged, expecting = "`classes` is neither a number nor a list of names")]
enum Classes {
    Count(usize),
    Names(Vec<String>),
}

#[derive(Serialize, Deserialize)]
#[serde(untagged, expecting = "`crop` is neither a number nor a width and a height")]
enum Crop {
    Square(usize),
    Size(Size),
}

fn bilinear() -> Interpolation {
    Interpolation::Bilinear
}

fn read_bytes(path: &Path) -> Result<Vec<u8>, CardError> {
    let read = |source| CardError::Read { source };
    let file = std::fs::File::open(path).map_err(read)?;
    let mut bytes = Vec::new();
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(read)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(CardError::TooLong { limit: MAX_BYTES });
    }
    Ok(bytes)
}

/// Whether a file is meant as a card: it has the format's own field, or two of those that training scripts write. In
/// text that is no JSON, such as half a card, the names alone tell.
fn is_card(bytes: &[u8]) -> bool {
    let has: Box<dyn Fn(&str) -> bool> = match serde_json::from_slice::<serde_json::Value>(bytes) {
        Ok(json) => Box::new(move |field| json.get(field).is_some()),
        Err(_) => {
            let text = String::from_utf8_lossy(bytes).into_owned();
            Box::new(move |field| text.contains(&format!("\"{field}\"")))
        }
    };
    let foreign = foreign_card::FIELDS.iter().filter(|field| has(field)).count();
    has(FORMAT) || (has("architecture") && foreign > 1)
}

impl ModelCard {
    /// Reads the card at `path`.
    pub fn load(path: &Path) -> Result<Self, CardError> {
        Self::read(&read_bytes(path)?)
    }

    /// Reads the file at `path` if it is a card, be it a broken one; `None` for JSON or text of another kind.
    pub fn load_if_card(path: &Path) -> Result<Option<Self>, CardError> {
        let bytes = read_bytes(path)?;
        if is_card(&bytes) { Self::read(&bytes).map(Some) } else { Ok(None) }
    }

    /// Where the card of the weight file at `weights` is looked for: beside it, with the ending `.json`.
    pub fn place_beside(weights: &Path) -> PathBuf {
        weights.with_extension("json")
    }

    /// Reads a card from JSON.
    pub fn read(json: &[u8]) -> Result<Self, CardError> {
        #[derive(Deserialize)]
        struct Probe {
            flipcast_model: Option<u32>,
        }
        let malformed = |source| CardError::Json { source };
        let probe: Probe = serde_json::from_slice(json).map_err(malformed)?;
        let card = match probe.flipcast_model {
            Some(VERSION) => Self::from_own(serde_json::from_slice(json).map_err(malformed)?)?,
            Some(found) => return Err(CardError::Version { found }),
            None => {
                let foreign: ForeignCard = serde_json::from_slice(json).map_err(malformed)?;
                foreign.into_card()?
            }
        };
        let check = card.preprocess.check();
        check.map_err(|source| CardError::Preprocess { source })?;
        let classes = card.classes;
        if let Some(names) = &card.class_names
            && names.len() != classes
        {
            let names = names.len();
            return Err(CardError::ClassCount { names, classes });
        }
        Ok(card)
    }

    /// The card as JSON, in the form with `flipcast_model`.
    pub fn to_json(&self) -> String {
        let unregistered = self.architecture.as_ref().filter(|architecture| {
            let registered = Architecture::find(&architecture.name).ok();
            registered.map(|found| found.with_classes(self.classes)).as_ref() != Some(*architecture)
        });
        let (mean, std, normalise) = match &self.preprocess.normalise {
            Normalise::MeanStd { mean, std } => (Some(*mean), Some(*std), None),
            other => (None, None, Some(other.clone())),
        };
        let card = OwnCard {
            flipcast_model: VERSION,
            name: self.name.clone(),
            architecture: self.architecture.as_ref().map(|architecture| architecture.name.clone()),
            config: unregistered.map(|architecture| architecture.config.clone()),
            input_size: unregistered.map(|architecture| architecture.input_size),
            classes: match &self.class_names {
                Some(names) => Classes::Names(names.clone()),
                None => Classes::Count(self.classes),
            },
            mean,
            std,
            normalise,
            resize: self.preprocess.resize,
            crop: self.preprocess.crop.map(|size| match size {
                Size { width, height } if width == height => Crop::Square(width),
                size => Crop::Size(size),
            }),
            interpolation: self.preprocess.interpolation,
            weights_sha256: self.weights_sha256.clone(),
        };
        serde_json::to_string_pretty(&card).expect("cards hold only plain values")
    }

    fn from_own(card: OwnCard) -> Result<Self, CardError> {
        let (classes, class_names) = match card.classes {
            Classes::Count(classes) => (classes, None),
            Classes::Names(names) => (names.len(), Some(names)),
        };
        let architecture = match (card.architecture, card.config) {
            (Some(name), Some(config)) => {
                Some(Architecture { name, input_size: card.input_size.unwrap_or(224), config })
            }
            (Some(name), None) => {
                let mut found = Architecture::find(&name).map_err(|source| CardError::Architecture { source })?;
                found.input_size = card.input_size.unwrap_or(found.input_size);
                Some(found)
            }
            (None, None) => None,
            (None, Some(_)) => return Err(CardError::ConfigWithoutName),
        };
        let normalise = match (card.mean, card.std, card.normalise) {
            (Some(mean), Some(std), None) => Normalise::MeanStd { mean, std },
            (None, None, Some(normalise)) => normalise,
            _ => return Err(CardError::Normalise),
        };
        Ok(Self {
            name: card.name,
            architecture: architecture.map(|architecture| architecture.with_classes(classes)),
            classes,
            class_names,
            preprocess: Preprocess {
                resize: card.resize,
                crop: card.crop.map(|crop| match crop {
                    Crop::Square(side) => Size::square(side),
                    Crop::Size(size) => size,
                }),
                interpolation: card.interpolation,
                normalise,
            },
            weights_sha256: card.weights_sha256,
        })
    }
}

#[cfg(test)]
mod tests;
