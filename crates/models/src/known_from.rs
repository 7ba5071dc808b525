use std::fmt;

/// Where a piece of knowledge about a model came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KnownFrom {
    /// The caller said so.
    Caller,
    /// A model card.
    Card {
        /// Its place.
        place: String,
    },
    /// The name of published weights.
    Name {
        /// The name.
        name: String,
    },
    /// Metadata inside the weight file.
    Metadata,
    /// The configuration beside the weights in a hub folder.
    HubConfig {
        /// Its place.
        place: String,
    },
    /// The layers that the file brings with it.
    Network,
    /// Names and extents of the file's tensors.
    Tensors,
    /// What is usual for the architecture.
    Architecture,
    /// What the preprocessing gives.
    Preprocessing,
    /// Something else, with settings that the caller changed.
    Changed {
        /// Where the other settings came from.
        rest: Box<KnownFrom>,
    },
}

impl fmt::Display for KnownFrom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Caller => f.write_str("the caller"),
            Self::Card { place } => write!(f, "the model card `{place}`"),
            Self::Name { name } => write!(f, "the name `{name}`"),
            Self::Metadata => f.write_str("the file's metadata"),
            Self::HubConfig { place } => write!(f, "`{place}`"),
            Self::Network => f.write_str("the network in the file"),
            Self::Tensors => f.write_str("names and extents of the tensors"),
            Self::Architecture => f.write_str("what is usual for the architecture"),
            Self::Preprocessing => f.write_str("the preprocessing"),
            Self::Changed { rest } => write!(f, "{rest}, changed by the caller"),
        }
    }
}

/// Where what is known about a model was learned from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelKnowledge {
    /// Layers.
    pub architecture: KnownFrom,
    /// Number of classes.
    pub classes: KnownFrom,
    /// Names of the classes; `None` where they have none.
    pub class_names: Option<KnownFrom>,
    /// How images are prepared; `None` where that is not known.
    pub preprocess: Option<KnownFrom>,
    /// Rows and columns of images.
    pub input_size: KnownFrom,
}
