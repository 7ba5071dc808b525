use flipcast_graph::PlanError;
use flipcast_ground::Hint;
use flipcast_tensor::Shape;

/// Why a network could not be made or run.
#[derive(Debug, thiserror::Error)]
pub enum ExecError {
    /// The graph does not fit the batch.
    #[error("the network cannot be planned")]
    Plan(#[from] PlanError),
    /// More memory than there is.
    #[error("{} MiB for the network's activations and gradients cannot be had", bytes >> 20)]
    OutOfMemory {
        /// What was asked for.
        bytes: usize,
    },
    /// A weight is missing.
    #[error("there is no tensor `{name}`, expected one of shape {expected}")]
    MissingParam {
        /// Its name.
        name: String,
        /// Its shape.
        expected: Shape,
    },
    /// A weight has the wrong shape.
    #[error("tensor `{name}` has shape {found}, expected {expected}")]
    ParamShape {
        /// Its name.
        name: String,
        /// What the graph asks for.
        expected: Shape,
        /// What was given.
        found: Shape,
    },
    /// A weight is not a number.
    #[error("tensor `{name}` holds a NaN or an infinity")]
    NonFiniteParam {
        /// Its name.
        name: String,
    },
    /// The batch has the wrong extents.
    #[error("the batch holds {found} values per image as {found_extents}, but the network was planned for {expected}")]
    BatchShape {
        /// Values per image found.
        found: usize,
        /// Height, width and channels found.
        found_extents: String,
        /// Height, width and channels planned for.
        expected: String,
    },
    /// The batch has too many images or none.
    #[error("the batch has {found} images, expected 1 to {planned}")]
    BatchSize {
        /// Images found.
        found: usize,
        /// Images planned for.
        planned: usize,
    },
    /// A batch norm sees a single value per channel, whose variance is zero.
    #[error(
        "`{norm}` would take statistics of one value per channel, expected at least 2: use more images or running statistics"
    )]
    TooFewValues {
        /// The layer.
        norm: String,
    },
    /// The batch holds a NaN or infinity.
    #[error("image {image} of the batch holds a NaN or an infinity")]
    NonFiniteInput {
        /// Position in the batch.
        image: usize,
    },
    /// The logits hold a NaN or infinity.
    #[error("the logits of image {image} hold a NaN or an infinity: the weights or the adapted scales have diverged")]
    NonFiniteLogits {
        /// Position in the batch.
        image: usize,
    },
    /// The affine gradient holds a NaN or infinity.
    #[error("the gradient of `{parameter}` holds a NaN or an infinity")]
    NonFiniteGradient {
        /// The parameter.
        parameter: String,
    },
    /// `backward` without a forward pass, or in a network planned to predict only.
    #[error("backward needs {needed}")]
    NotReady {
        /// What is missing.
        needed: &'static str,
    },
    /// A vector of the wrong length.
    #[error("{what} has {found} values, expected {expected}")]
    Length {
        /// What it is.
        what: &'static str,
        /// Its length.
        found: usize,
        /// The right length.
        expected: usize,
    },
    /// A tap that was not planned.
    #[error("`{name}` is not tapped; name it in the network's options")]
    UnknownTap {
        /// The name asked for.
        name: String,
    },
    /// A mixing weight outside [0, 1].
    #[error("source weight {found} is outside [0, 1]")]
    SourceWeight {
        /// The weight.
        found: f32,
    },
    /// A share of the norms outside [0, 1].
    #[error("share {found} of the norms is outside [0, 1]")]
    EarlyShare {
        /// The share.
        found: f32,
    },
    /// A device other than the CPU failed.
    #[error("the device failed")]
    Device {
        /// What it reports.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl Hint for ExecError {
    fn hint(&self) -> Option<String> {
        let advice = match self {
            Self::OutOfMemory { .. } => "make the batches smaller, or only predict, which stores no gradients",
            Self::TooFewValues { .. } => "use batches of at least two images, or the running statistics",
            Self::NonFiniteLogits { .. } | Self::NonFiniteGradient { .. } => {
                "use a smaller learning rate, or restore the source parameters"
            }
            Self::BatchShape { .. } => "bring all images to the network's size",
            Self::BatchSize { planned, .. } => {
                return Some(format!("split the images into batches of at most {planned}"));
            }
            Self::Plan(_)
            | Self::MissingParam { .. }
            | Self::ParamShape { .. }
            | Self::NonFiniteParam { .. }
            | Self::NonFiniteInput { .. }
            | Self::NotReady { .. }
            | Self::Length { .. }
            | Self::UnknownTap { .. }
            | Self::SourceWeight { .. }
            | Self::EarlyShare { .. }
            | Self::Device { .. } => return None,
        };
        Some(advice.to_owned())
    }
}
