use flipcast_ground::{Hint, write_hint};
use std::path::PathBuf;

/// Why a file of labels cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LabelFileError {
    /// The system refused to read.
    #[error("cannot read `{path}`")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The system refused to write, or the disk is full.
    #[error("cannot write `{path}`")]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// It is larger than any list of a few labels.
    #[error("`{path}` has more than {expected} bytes, expected a list of a few labels")]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The most that is read.
        expected: u64,
    },
    /// It is no comma-separated text.
    #[error("the labels are no comma-separated text")]
    NotCsv(#[from] csv::Error),
    /// The first line does not name the columns.
    #[error("the first line is `{found}`, expected the columns `image` and `label`, or `image` and `right`")]
    Columns {
        /// The first line.
        found: String,
    },
    /// No image has a label.
    #[error("no image has a label, expected at least {expected} that have")]
    Empty {
        /// The fewest labels accepted.
        expected: usize,
    },
    /// Too few images have a label.
    #[error("{found} images have a label or are asked about, expected at least {expected}")]
    TooFew {
        /// Labels.
        found: usize,
        /// The fewest accepted.
        expected: usize,
    },
    /// An image that is not among those looked at.
    #[error("line {line} names the image `{image}`, which is not among the {images} images looked at")]
    UnknownImage {
        /// The line.
        line: u64,
        /// What it says.
        image: String,
        /// Images there are.
        images: usize,
        /// Names like it.
        nearest: String,
    },
    /// A name that several images have.
    #[error("line {line} names the image `{image}`, but several images are called so")]
    SharedName {
        /// The line.
        line: u64,
        /// The name.
        image: String,
    },
    /// An image that is labelled twice.
    #[error("line {line} labels the image `{image}` again, expected every image at most once")]
    Twice {
        /// The second line.
        line: u64,
        /// The image.
        image: String,
    },
    /// A class that the model does not have.
    #[error("line {line} has the label `{label}`, which is not one of the model's {classes} classes")]
    UnknownClass {
        /// The line.
        line: u64,
        /// What it says.
        label: String,
        /// Classes there are.
        classes: usize,
        /// Names like it.
        nearest: String,
    },
    /// Neither right nor wrong.
    #[error("line {line} has `{found}` in the column `right`, expected 1 or 0")]
    NotRight {
        /// The line.
        line: u64,
        /// What it says.
        found: String,
    },
    /// A stratum that is no number.
    #[error("line {line} has the stratum `{found}`, expected a whole number below {limit}")]
    BadStratum {
        /// The line.
        line: u64,
        /// What it says.
        found: String,
        /// One more than the largest.
        limit: usize,
    },
    /// A stratum other than the one the image was drawn from.
    #[error("line {line} has stratum {found} for the image `{image}`, but its guess puts it into stratum {expected}")]
    OtherStratum {
        /// The line.
        line: u64,
        /// The image.
        image: String,
        /// In the file.
        found: usize,
        /// By the guesses.
        expected: usize,
    },
    /// A stratum nobody labelled.
    #[error("no image of stratum {stratum} has a label, expected at least one of every stratum")]
    StratumWithoutLabel {
        /// The stratum.
        stratum: usize,
    },
}

impl Hint for LabelFileError {
    fn hint(&self) -> Option<String> {
        let text = match self {
            Self::Columns { .. } | Self::NotCsv(_) => {
                "write a header such as `image,label`, then a line for every labelled image"
            }
            Self::Empty { .. } | Self::TooFew { .. } => "label more images, drawn at random",
            Self::UnknownImage { nearest, .. } => {
                return Some(format!(
                    "names like it are {nearest}; images are called as in predictions, and are those of the same sample and limit"
                ));
            }
            Self::SharedName { .. } => "give the images names that differ, or leave this one out",
            Self::Twice { .. } => "keep one of the two lines",
            Self::UnknownClass { nearest, .. } => {
                return Some(format!(
                    "names like it are {nearest}; numbers of outputs, counted from 0, are classes too"
                ));
            }
            Self::OtherStratum { .. } => {
                "the file was asked for with other images, weights, calibration or arithmetic: use the same ones, or remove the column `stratum` if the images are a plain random sample"
            }
            Self::StratumWithoutLabel { .. } => {
                "label some images of every stratum: the first lines of the file, in order"
            }
            Self::Write { source, .. } => return write_hint(source),
            Self::Read { .. } | Self::TooLarge { .. } | Self::NotRight { .. } | Self::BadStratum { .. } => return None,
        };
        Some(text.to_owned())
    }
}
