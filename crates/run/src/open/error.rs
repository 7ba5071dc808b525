use super::ClassMapError;
use flipcast_corrupt::CorruptError;
use flipcast_ground::Hint;
use flipcast_images::dataset::DataError;
use flipcast_images::labelspace::LabelError;
use std::path::PathBuf;

/// Why a model or images cannot be opened.
///
/// A [`ModelError`](flipcast_models::ModelError) is large, so it is boxed as a cause.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// A name that stands for weights, without the weights.
    #[error("`{name}` is the name of a model, but a weight file was expected")]
    NameWithoutFile {
        /// The name.
        name: String,
    },
    /// The weights cannot be loaded.
    #[error("cannot load `{path}`{}", architecture.as_ref().map_or_else(String::new, |name| format!(" as `{name}`")), path = path.display())]
    Model {
        /// The weight file.
        path: PathBuf,
        /// What it was to be loaded as.
        architecture: Option<String>,
        /// Why not.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Neither a path nor a path with a corruption.
    #[error("cannot understand `{spec}`")]
    Spec {
        /// What was given.
        spec: String,
        /// Why not.
        #[source]
        source: CorruptError,
    },
    /// The weights do not say how images are prepared.
    #[error("cannot prepare images for `{model}`")]
    Preprocess {
        /// The model.
        model: String,
        /// What is missing.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The images cannot be opened.
    #[error("cannot open `{path}`")]
    Data {
        /// Where they were looked for.
        path: String,
        /// Why not.
        #[source]
        source: DataError,
    },
    /// Images that are not stored in such parts.
    #[error("`{path}` has no split `{split}`: neither a folder nor an array of that name is below it")]
    NoSplit {
        /// Where it was looked for.
        path: String,
        /// The split.
        split: String,
    },
    /// The labels say nothing about the model's outputs.
    #[error("cannot use the labels of `{data}` with `{model}`")]
    Labels {
        /// The images.
        data: String,
        /// The model.
        model: String,
        /// Why not.
        #[source]
        source: LabelMatchError,
    },
}

/// Why the classes of a dataset do not become a model's.
#[derive(Debug, thiserror::Error)]
pub enum LabelMatchError {
    /// A published class space of another network.
    #[error("the classes of `{space}` are outputs of a network with {expected}, but the model has {found}")]
    OtherOutputs {
        /// The class space.
        space: String,
        /// Outputs it speaks of.
        expected: usize,
        /// The model's.
        found: usize,
    },
    /// Numbers that go beyond the model's outputs.
    #[error("the dataset has {classes} classes, but the model has {outputs}, so that numbers do not match")]
    OtherNumbers {
        /// The dataset's.
        classes: usize,
        /// The model's.
        outputs: usize,
    },
    /// Neither names nor numbers match.
    #[error("the dataset has {classes} classes, but the model has {outputs} and no names to match them by")]
    NoNames {
        /// The dataset's.
        classes: usize,
        /// The model's.
        outputs: usize,
    },
    /// Names that the model does not know.
    #[error("{missing} of the dataset's {classes} classes are not among the model's, such as {examples}")]
    UnknownNames {
        /// How many.
        missing: usize,
        /// The dataset's.
        classes: usize,
        /// Some of them.
        examples: String,
    },
    /// The class map cannot be used.
    #[error("the class map cannot be used")]
    ClassMap(#[source] Box<ClassMapError>),
    /// The class space cannot be used.
    #[error("the class space cannot be used")]
    Space(#[from] LabelError),
}

impl Hint for OpenError {
    fn hint(&self) -> Option<String> {
        match self {
            Self::NameWithoutFile { name } => Some(format!("give the weight file of `{name}` as well")),
            Self::NoSplit { .. } => Some(
                "use `train` or `test` where both are stored side by side, or name the published dataset".to_owned(),
            ),
            _ => None,
        }
    }
}

impl Hint for LabelMatchError {
    fn hint(&self) -> Option<String> {
        let text = match self {
            Self::OtherNumbers { .. } => "match the classes by name, or ignore the labels",
            Self::NoNames { .. } => "give the model's card the class names, map the classes, or ignore the labels",
            Self::UnknownNames { .. } => {
                "map the classes; if only the names differ, match by number; or ignore the labels"
            }
            Self::ClassMap(source) => return source.hint(),
            Self::OtherOutputs { .. } | Self::Space(_) => return None,
        };
        Some(text.to_owned())
    }
}
