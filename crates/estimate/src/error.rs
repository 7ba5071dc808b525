use flipcast_ground::Hint;

/// Why an estimate could not be made.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum EstimateError {
    /// Nothing was given.
    #[error("no {what} were given, expected at least one")]
    Empty {
        /// What is missing.
        what: &'static str,
    },
    /// Values that do not fill whole rows.
    #[error("{found} {what} were given, expected a multiple of {width}")]
    Ragged {
        /// What the values are.
        what: &'static str,
        /// Number of values.
        found: usize,
        /// Values of a row.
        width: usize,
    },
    /// Two inputs that belong together have different sizes.
    #[error("{found} {what} were given, expected {expected}")]
    Length {
        /// What is counted.
        what: &'static str,
        /// The number found.
        found: usize,
        /// The number expected.
        expected: usize,
    },
    /// NaN or infinity.
    #[error("{what} {index} is {found}, expected a finite number")]
    NotFinite {
        /// What the value is.
        what: &'static str,
        /// Its position.
        index: usize,
        /// The value.
        found: f64,
    },
    /// NaN or infinity among logits.
    #[error("the logit of class {class} for image {image} is {found}, expected a finite number")]
    NotFiniteLogit {
        /// The image's position.
        image: usize,
        /// The class.
        class: usize,
        /// The value.
        found: f64,
    },
    /// Probabilities in place of logits.
    #[error("all {images} rows are probabilities, from 0 to 1 with a sum of 1, expected logits")]
    Probabilities {
        /// How many rows there are.
        images: usize,
    },
    /// A class that the network does not have.
    #[error("{what} {index} is class {found}, expected a class below {classes}")]
    UnknownClass {
        /// What names the class.
        what: &'static str,
        /// Its position.
        index: usize,
        /// The class.
        found: usize,
        /// Number of classes.
        classes: usize,
    },
    /// A setting or stored value is outside its range.
    #[error("{setting} is {found}, expected {expected}")]
    Setting {
        /// The setting.
        setting: &'static str,
        /// Its value.
        found: f64,
        /// The allowed range.
        expected: &'static str,
    },
    /// Too little data for what was asked.
    #[error("{found} {what} were given, expected at least {expected}")]
    TooFew {
        /// What is counted.
        what: &'static str,
        /// The number found.
        found: usize,
        /// The smallest number accepted.
        expected: usize,
    },
    /// A problem too large to be solved in reasonable memory.
    #[error("{found} {what} were given, expected at most {expected}")]
    TooMany {
        /// What is counted.
        what: &'static str,
        /// The number found.
        found: usize,
        /// The largest number accepted.
        expected: usize,
    },
    /// Data on which the quantity is not defined.
    #[error("{what} is not defined here: {found}, expected {expected}")]
    Undefined {
        /// The quantity.
        what: &'static str,
        /// What the data look like.
        found: &'static str,
        /// What they should look like.
        expected: &'static str,
    },
    /// No published curve has this name.
    #[error("no published curve is called `{name}`, expected one of {known}")]
    UnknownCurve {
        /// What was asked for.
        name: String,
        /// The known names.
        known: String,
    },
}

impl Hint for EstimateError {
    fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::UnknownClass { .. } => "check that labels are positions in the network's output, counted from 0",
            Self::TooMany { what: "labels", .. } => "ask for at most one label of every image",
            Self::TooFew { .. } => "give more images, or more calibration cells",
            Self::TooMany { .. } => "give fewer images at a time",
            Self::NotFinite { .. } | Self::NotFiniteLogit { .. } => {
                "the network or its input is broken; check the weights and the preprocessing"
            }
            Self::Probabilities { .. } => {
                "give the classifier's logits; the logarithms of its probabilities are logits too, where none is 0"
            }
            Self::Empty { .. }
            | Self::Ragged { .. }
            | Self::Length { .. }
            | Self::Setting { .. }
            | Self::Undefined { .. }
            | Self::UnknownCurve { .. } => return None,
        };
        Some(hint.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_say_what_was_found_and_what_was_expected() {
        let error = EstimateError::UnknownClass { what: "label", index: 3, found: 12, classes: 10 };
        assert_eq!(error.to_string(), "label 3 is class 12, expected a class below 10");
        assert!(error.hint().is_some());
    }
}
