use flipcast_ground::Hint;

/// Why a class space or a label was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LabelError {
    /// No built-in class space has this name.
    #[error("no class space is called `{name}`; the nearest are {nearest}")]
    UnknownSpace {
        /// What was asked for.
        name: String,
        /// Known names, nearest first.
        nearest: String,
    },
    /// A table that is not valid JSON of the expected form.
    #[error("class space `{name}` cannot be read: {reason}")]
    BadFile {
        /// The table.
        name: String,
        /// What the parser found.
        reason: String,
    },
    /// The table contradicts itself.
    #[error("class space `{name}` declares {declared} {what}, but lists {found}")]
    CountMismatch {
        /// The table.
        name: String,
        /// What is counted.
        what: &'static str,
        /// The declared number.
        declared: usize,
        /// The number found.
        found: usize,
    },
    /// A network output outside the network, or listed twice.
    #[error("class space `{name}` lists output {output} {problem}, but each output below {outputs} may appear once")]
    BadOutput {
        /// The table.
        name: String,
        /// The output.
        output: usize,
        /// What is wrong with it.
        problem: &'static str,
        /// Number of network outputs.
        outputs: usize,
    },
    /// A folder that belongs to no class.
    #[error("folder `{folder}` is no class of `{space}`, which expects {expected}")]
    UnknownFolder {
        /// The folder.
        folder: String,
        /// The class space.
        space: String,
        /// What its folders look like.
        expected: &'static str,
    },
    /// Logits of another length than the network's number of outputs.
    #[error("{found} logits were given, but class space `{space}` is for a network with {expected}")]
    LogitCount {
        /// The class space.
        space: String,
        /// Logits given.
        found: usize,
        /// Logits expected.
        expected: usize,
    },
    /// A way of deciding that the class space does not define.
    #[error("class space `{space}` has rule `{rule}`, which lists no outputs to decide over")]
    NothingListed {
        /// The class space.
        space: String,
        /// Its rule.
        rule: &'static str,
    },
}

impl Hint for LabelError {
    fn hint(&self) -> Option<String> {
        match self {
            Self::UnknownFolder { .. } => {
                Some("check that the path points at the folder that holds the class folders".into())
            }
            Self::NothingListed { .. } => Some("use the `full` decision".into()),
            _ => None,
        }
    }
}
