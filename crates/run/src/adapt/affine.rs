//! The affine vector as a file: one tensor per scale and shift, bound to the weights it was adapted from.

use flipcast_ground::Hint;
use flipcast_models::weights::write_safetensors;
use flipcast_models::{ImportError, Model, WeightFile};
use flipcast_record::{RecordError, write_atomically};
use flipcast_tensor::{DType, Shape};
use std::path::{Path, PathBuf};

/// The metadata entry that says the file holds an affine vector, and in which version of the format.
const VERSION_ENTRY: &str = "flipcast_affine";
/// The version this program writes, and the newest it reads.
const VERSION: u32 = 1;
/// The metadata entry with the model's name.
const MODEL_ENTRY: &str = "model";
/// The metadata entry with the SHA-256 of the weights.
const WEIGHTS_ENTRY: &str = "weights_sha256";

/// Why an affine vector could not be read.
#[derive(Debug, thiserror::Error)]
pub enum AffineError {
    /// The file is no tensor file.
    #[error("cannot read the affine vector `{path}`")]
    Read {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: Box<ImportError>,
    },
    /// A tensor file of another kind.
    #[error("`{path}` has no metadata entry `{VERSION_ENTRY}`, so that it holds no affine vector")]
    NotAffine {
        /// The file.
        path: PathBuf,
    },
    /// A format of the future.
    #[error("`{path}` has `{VERSION_ENTRY}` {found}, but this version reads {VERSION}")]
    Version {
        /// The file.
        path: PathBuf,
        /// The version found.
        found: String,
    },
    /// A vector of other weights.
    #[error(
        "`{path}` was adapted from `{found_model}` with SHA-256 {found}, but the model is `{model}` with {expected}"
    )]
    OtherModel {
        /// The file.
        path: PathBuf,
        /// The model it belongs to.
        found_model: String,
        /// The hash of that model's weights.
        found: String,
        /// The model given.
        model: String,
        /// The hash of its weights.
        expected: String,
    },
    /// A parameter that is missing, too many, or of another kind.
    #[error("`{path}`: {found} for `{name}`, but {expected} was expected")]
    Tensor {
        /// The file.
        path: PathBuf,
        /// The parameter.
        name: String,
        /// What is there.
        found: String,
        /// What should be.
        expected: String,
    },
    /// A value no network can compute with.
    #[error("`{path}`: `{name}` holds {value} at element {index}, expected finite values")]
    NotFinite {
        /// The file.
        path: PathBuf,
        /// The parameter.
        name: String,
        /// The first such element.
        index: usize,
        /// Its value.
        value: f32,
    },
}

impl Hint for AffineError {
    fn hint(&self) -> Option<String> {
        let text = match self {
            Self::NotAffine { .. } => "give a file that an adaptation run saved",
            Self::OtherModel { .. } => "an adapted vector fits only the weights it was adapted from",
            Self::Version { .. } => "use the newer flipcast that wrote it",
            _ => return None,
        };
        Some(text.to_owned())
    }
}

/// Writes `affine`, laid out as the model's affine table says, as a safetensors file.
pub fn save_affine(path: &Path, model: &Model, affine: &[f32]) -> Result<(), RecordError> {
    let table = model.graph().affine_table();
    let tensors = table.names().map(|(name, range)| (name, &affine[range]));
    let bytes = write_safetensors(metadata(model), tensors);
    write_atomically(path, &bytes)
}

fn metadata(model: &Model) -> Vec<(String, String)> {
    let mut entries =
        vec![(VERSION_ENTRY.to_owned(), VERSION.to_string()), (MODEL_ENTRY.to_owned(), model.name().to_owned())];
    entries.extend(model.weights_sha256().map(|sha256| (WEIGHTS_ENTRY.to_owned(), sha256.to_owned())));
    entries
}

/// Reads the vector [`save_affine`] wrote; it must have been adapted from the weights of `model`.
pub fn load_affine(path: &Path, model: &Model) -> Result<Vec<f32>, AffineError> {
    let read_error = |source| AffineError::Read { path: path.to_owned(), source: Box::new(source) };
    let file = WeightFile::open(path).map_err(read_error)?;
    check_origin(path, &file, model)?;
    let table = model.graph().affine_table();
    let wrong = |name: &str, found: String, expected: String| AffineError::Tensor {
        path: path.to_owned(),
        name: name.to_owned(),
        found,
        expected,
    };
    if let Some(extra) = file.tensors().find(|t| table.find(&t.name).is_none()) {
        let found = format!("a tensor of shape {}", extra.shape);
        return Err(wrong(&extra.name, found, "none".to_owned()));
    }
    let mut affine = vec![0.0; table.len()];
    for (name, range) in table.names() {
        let expected = || format!("F32 of shape [{}]", range.len());
        let Some(info) = file.info(&name) else {
            return Err(wrong(&name, "no tensor".to_owned(), expected()));
        };
        if info.dtype != DType::F32 || info.shape != Shape::new(vec![range.len()]) {
            let found = format!("{} of shape {}", info.dtype, info.shape);
            return Err(wrong(&name, found, expected()));
        }
        let tensor = file.load(&name).map_err(read_error)?;
        if let Some(index) = tensor.values().iter().position(|v| !v.is_finite()) {
            return Err(AffineError::NotFinite { path: path.to_owned(), name, index, value: tensor.values()[index] });
        }
        affine[range].copy_from_slice(tensor.values());
    }
    Ok(affine)
}

fn check_origin(path: &Path, file: &WeightFile, model: &Model) -> Result<(), AffineError> {
    let entry = |name: &str| file.metadata().get(name).cloned();
    match entry(VERSION_ENTRY) {
        None => {
            return Err(AffineError::NotAffine { path: path.to_owned() });
        }
        Some(found) if found != VERSION.to_string() => {
            return Err(AffineError::Version { path: path.to_owned(), found });
        }
        Some(_) => {}
    }
    let none = || "none".to_owned();
    let found = entry(WEIGHTS_ENTRY).unwrap_or_else(none);
    let expected = model.weights_sha256().map_or_else(none, str::to_owned);
    if found.eq_ignore_ascii_case(&expected) {
        return Ok(());
    }
    Err(AffineError::OtherModel {
        path: path.to_owned(),
        found_model: entry(MODEL_ENTRY).unwrap_or_else(none),
        found,
        model: model.name().to_owned(),
        expected,
    })
}
