use super::LooksAtImages;
use flipcast_ground::Hint;

/// Why outputs cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OutputsError {
    /// Outputs of another classifier, or of another class space.
    #[error("{} {found} classes, but the clean images have {expected}", who_has(name.as_deref()))]
    Classes {
        /// The cell; `None` for new images.
        name: Option<String>,
        /// Its classes.
        found: usize,
        /// Those of the clean images.
        expected: usize,
    },
    /// A second array of outputs that does not belong to the first.
    #[error("the second outputs{} are {} x {}, expected {} x {} as the first", of_cell(name.as_deref()), found[0], found[1], expected[0], expected[1])]
    SecondShape {
        /// The cell; `None` for new images.
        name: Option<String>,
        /// Its images and classes.
        found: [usize; 2],
        /// Those of the first outputs.
        expected: [usize; 2],
    },
    /// Some have second outputs, others have none.
    #[error("the images{} were looked at {found}, but those of the calibration {expected}", of_cell(name.as_deref()))]
    Looks {
        /// The cell; `None` for new images.
        name: Option<String>,
        /// Here.
        found: LooksAtImages,
        /// In the calibration.
        expected: LooksAtImages,
    },
    /// A cell that cannot be told from the clean images or from another cell.
    #[error("a cell is called `{name}`, expected a name of its own that is not `clean`")]
    Name {
        /// The name.
        name: String,
    },
}

fn who_has(name: Option<&str>) -> String {
    name.map_or_else(|| "the new images have outputs of".to_owned(), |name| format!("`{name}` has"))
}

fn of_cell(name: Option<&str>) -> String {
    name.map_or_else(String::new, |name| format!(" of `{name}`"))
}

impl Hint for OutputsError {
    fn hint(&self) -> Option<String> {
        let text = match self {
            Self::Classes { .. } => "all outputs must come from the same classifier",
            Self::SecondShape { .. } => "second outputs are those of the same images in the same order",
            Self::Looks { .. } => "give second outputs for all images, or for none",
            Self::Name { .. } => "name cells by what was done to the images, such as `fog:3`",
        };
        Some(text.to_owned())
    }
}
