use crate::fit::{Fit, Mismatch, describe};
use crate::recognise::Match;
use crate::text::{list_names, shown};
use crate::{ArchitectureError, CardError, Format, HubError, ImportError, ProgramError, RestoreError};
use flipcast_graph::{Graph, GraphError};
use flipcast_ground::Hint;
use flipcast_images::preprocess::PreprocessError;

/// Why a model could not be made.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// The weight file cannot be read.
    #[error("cannot read the weights `{path}`")]
    Import {
        /// The file.
        path: String,
        /// What is wrong with it.
        #[source]
        source: Box<ImportError>,
    },
    /// The exported program is no network that runs here.
    #[error("the network in the file cannot be used")]
    Program {
        /// What stands in the way.
        #[source]
        source: Box<ProgramError>,
    },
    /// An exported program was asked for by the name of an architecture.
    #[error("the file is an exported program, a network of its own, but was asked for as `{name}`")]
    NamedProgram {
        /// The name.
        name: String,
    },
    /// An exported program with another number of classes than was said.
    #[error("the network in the file has {found} classes, expected {expected}")]
    OtherClasses {
        /// Classes asked for, by the card or by the caller.
        expected: usize,
        /// Classes of the network.
        found: usize,
    },
    /// Tensors alone where a program was asked for.
    #[error("the file has the format {format}, expected an exported program")]
    NotAProgram {
        /// Its format.
        format: Format,
    },
    /// The folder of a hub cannot be used.
    #[error("cannot use the folder `{path}`")]
    Hub {
        /// The folder.
        path: String,
        /// Why not.
        #[source]
        source: Box<HubError>,
    },
    /// The card cannot be read.
    #[error("cannot read the model card `{path}`")]
    Card {
        /// The file, or where in the weight file the card stands.
        path: String,
        /// What is wrong with it.
        #[source]
        source: Box<CardError>,
    },
    /// The batch norms restored for the network do not fit it.
    #[error("cannot use the restored batch norms")]
    Restore {
        /// Why not.
        #[source]
        source: Box<RestoreError>,
    },
    /// The architecture's name is unknown.
    #[error(transparent)]
    Architecture(#[from] ArchitectureError),
    /// The settings describe no network.
    #[error("`{architecture}` cannot be built")]
    Graph {
        /// The architecture.
        architecture: String,
        /// The setting at fault.
        #[source]
        source: GraphError,
    },
    /// No architecture was named, and the tensors fit none.
    #[error("`{path}` names no architecture, and its tensors fit none{}", best_of(best.as_deref()))]
    NotRecognised {
        /// The file.
        path: String,
        /// The architecture that comes nearest.
        best: Option<Box<Match>>,
    },
    /// No architecture was named, and the tensors fit several.
    #[error("the tensors of `{path}` fit {} equally well", list_names(candidates))]
    Ambiguous {
        /// The file.
        path: String,
        /// The architectures.
        candidates: Vec<String>,
    },
    /// The tensors are not those of the architecture. Lists everything that is wrong.
    #[error("the tensors do not fit `{model}`: {}", describe(missing, unused, mismatched))]
    TensorsDoNotFit {
        /// The model, or the architecture where no model was named.
        model: String,
        /// Parameters the file does not hold.
        missing: Vec<String>,
        /// Tensors the network has no place for.
        unused: Vec<String>,
        /// Parameters of other extents.
        mismatched: Vec<Mismatch>,
        /// Classes of the file's head, when nothing else differs.
        head_classes: Option<usize>,
    },
    /// A weight is infinite or not a number.
    #[error("tensor `{}` holds {value} at element {index}, expected finite values", shown(tensor))]
    NotFinite {
        /// The parameter.
        tensor: String,
        /// First element that is not finite, in row-major order.
        index: usize,
        /// Its value.
        value: f32,
    },
    /// A running variance is negative.
    #[error("tensor `{}` holds {value} at element {index}, expected no negative variance", shown(tensor))]
    NegativeVariance {
        /// The parameter.
        tensor: String,
        /// First negative element.
        index: usize,
        /// Its value.
        value: f32,
    },
    /// The card was written for another file.
    #[error("`{path}` has SHA-256 {found}, but its card was written for {expected}")]
    OtherWeights {
        /// The weight file.
        path: String,
        /// The hash in the card.
        expected: String,
        /// The hash of the file.
        found: String,
    },
    /// The card and the name of published weights say different things.
    #[error("the model card `{card}` and the name `{name}` disagree: {}", conflicts.join("; "))]
    CardConflict {
        /// The card.
        card: String,
        /// The name of the weights.
        name: String,
        /// What the card and the name say, setting by setting.
        conflicts: Vec<String>,
    },
    /// The number of class names is not the number of classes.
    #[error("{found} class names were given for `{model}`, expected {expected}")]
    ClassNames {
        /// The model.
        model: String,
        /// Classes of the head.
        expected: usize,
        /// Names given.
        found: usize,
    },
    /// Scales and shifts of another network.
    #[error("{found} scales and shifts were given for `{model}`, expected {expected}")]
    AffineLength {
        /// The model.
        model: String,
        /// Scales and shifts of its norm layers.
        expected: usize,
        /// Those given.
        found: usize,
    },
    /// Nothing says how images are prepared for these weights.
    #[error("the preprocessing of `{model}` is not known")]
    NoPreprocess {
        /// The model.
        model: String,
        /// Published weights of the same layers, one of which the file may hold.
        published: Vec<&'static str>,
    },
    /// Settings of the caller that give no preprocessing that works.
    #[error("images cannot be prepared as asked for")]
    Preprocess {
        /// The setting at fault.
        #[source]
        source: PreprocessError,
    },
}

fn best_of(best: Option<&Match>) -> String {
    match best {
        Some(best) => format!("; nearest is `{}` ({})", best.architecture.name, best.fit),
        None => String::new(),
    }
}

impl ModelError {
    /// The report that the tensors of a file are not those of `graph`.
    pub(crate) fn do_not_fit(model: String, graph: &Graph, fit: Fit) -> Self {
        let head = &graph.node(graph.output()).name;
        Self::TensorsDoNotFit {
            model,
            head_classes: fit.only_head_differs(head),
            missing: fit.missing,
            unused: fit.unused,
            mismatched: fit.mismatched,
        }
    }
}

impl Hint for ModelError {
    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::TensorsDoNotFit { head_classes: Some(classes), .. } => {
                format!("the head was trained for {classes} classes; ask for that many")
            }
            Self::TensorsDoNotFit { .. } => "`flipcast models show FILE` tells which architecture fits best".into(),
            Self::NotRecognised { .. } => {
                "`flipcast models` lists the known architectures; a model card can describe others".into()
            }
            Self::Ambiguous { candidates, .. } => {
                format!("name the one that was trained, such as `{}`", candidates.first()?)
            }
            Self::NoPreprocess { published, .. } if published.is_empty() => {
                "give mean, standard deviation, resize and crop, name published weights, such as `resnet50.tv_in1k`, or put a model card beside the file".into()
            }
            Self::NoPreprocess { published, .. } => format!(
                "name the published weights if the file holds those, which of these kinds are {}; otherwise give mean, standard \
                 deviation, resize and crop, or put a model card beside the file",
                list_names(published)
            ),
            Self::Preprocess { source: PreprocessError::NormaliseUnknown { .. } } => {
                "give both mean and standard deviation of the network's training images".into()
            }
            Self::Preprocess { .. } => return None,
            Self::OtherWeights { .. } => {
                "the file was changed or is incomplete; fetch it again or correct the card".into()
            }
            Self::CardConflict { .. } => {
                "leave the name out to follow the card; correct or remove the card to follow the name".into()
            }
            Self::Architecture(source) => return source.hint(),
            Self::Import { source, .. } => return source.hint(),
            Self::Card { source, .. } => return source.hint(),
            Self::Hub { source, .. } => return source.hint(),
            Self::Program { source, .. } => return source.hint(),
            Self::Restore { source } => return source.hint(),
            Self::NamedProgram { .. } => {
                "leave the name out, or name published weights whose preprocessing it shares".into()
            }
            Self::OtherClasses { .. } => "correct the number of classes, in the model card if it is there".into(),
            Self::NotAProgram { .. } => "save one with `torch.export.save`".into(),
            Self::Graph { .. }
            | Self::NotFinite { .. }
            | Self::NegativeVariance { .. }
            | Self::ClassNames { .. }
            | Self::AffineLength { .. } => {
                return None;
            }
        })
    }
}
