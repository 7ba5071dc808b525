use flipcast_ground::Hint;

/// Why the geometry of some embeddings could not be computed.
#[derive(Debug, PartialEq, thiserror::Error)]
pub enum EmbedError {
    /// The number of values is not a positive multiple of the number of dimensions.
    #[error("{found} values were given, expected a positive multiple of {dims} dimensions")]
    Length {
        /// Number of values given.
        found: usize,
        /// Values per point.
        dims: usize,
    },
    /// A value is NaN or infinite.
    #[error("value {index} is {found}, expected a finite number")]
    NotFinite {
        /// Position of the value.
        index: usize,
        /// The value.
        found: f64,
    },
    /// Two inputs have different numbers of dimensions.
    #[error("the second set has {found} dimensions, the first has {expected}")]
    Dims {
        /// Dimensions of the second set.
        found: usize,
        /// Dimensions of the first set.
        expected: usize,
    },
    /// There is not one label per point.
    #[error("{found} labels were given for {points} points")]
    LabelCount {
        /// Number of labels.
        found: usize,
        /// Number of points.
        points: usize,
    },
    /// A label is no class.
    #[error("label {found} of point {index} is not below the number of classes, {classes}")]
    Label {
        /// Position of the point.
        index: usize,
        /// Its label.
        found: usize,
        /// Number of classes.
        classes: usize,
    },
    /// A class has no point, so it has no mean.
    #[error("class {class} has no point, expected at least one per class")]
    EmptyClass {
        /// The class.
        class: usize,
    },
    /// Fewer than two clusters have points.
    #[error("{found} clusters have points, expected at least 2")]
    TooFewClusters {
        /// Number of clusters with points.
        found: usize,
    },
    /// A setting is outside its range.
    #[error("{setting} is {found}, expected {expected}")]
    Setting {
        /// The setting.
        setting: &'static str,
        /// Its value.
        found: usize,
        /// The allowed range.
        expected: String,
    },
    /// A setting that is a fraction is outside its range.
    #[error("{setting} is {found}, expected {low} to {high}")]
    Number {
        /// The setting.
        setting: &'static str,
        /// Its value.
        found: f64,
        /// The smallest value allowed.
        low: f64,
        /// The largest value allowed.
        high: f64,
    },
    /// There is not one position per point.
    #[error("{found} positions were given for {points} points")]
    Start {
        /// Number of positions.
        found: usize,
        /// Number of points.
        points: usize,
    },
}

impl Hint for EmbedError {
    fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::NotFinite { .. } => {
                "an embedding with NaN or infinity comes from a network that diverged; reset it first"
            }
            Self::EmptyClass { .. } => "leave out classes without images, or give more images",
            Self::TooFewClusters { .. } => "a silhouette compares clusters; ask for at least two",
            Self::Number { setting: "perplexity", .. } => {
                "a point has as many neighbours as there are other points; ask for fewer"
            }
            Self::Length { .. }
            | Self::Dims { .. }
            | Self::LabelCount { .. }
            | Self::Label { .. }
            | Self::Setting { .. }
            | Self::Number { .. }
            | Self::Start { .. } => return None,
        };
        Some(hint.to_owned())
    }
}
