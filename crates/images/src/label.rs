/// What is known about the right answer for one image. Class ids count from 0 in the dataset's own class space.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Label {
    /// Nothing: the normal case in production.
    #[default]
    Unknown,
    /// One class.
    Class(u32),
    /// Any of several classes.
    AnyOf(Vec<u32>),
}

impl Label {
    /// The class when there is exactly one.
    pub fn class(&self) -> Option<u32> {
        match self {
            Self::Class(class) => Some(*class),
            Self::Unknown | Self::AnyOf(_) => None,
        }
    }

    /// Whether anything is known.
    pub fn is_known(&self) -> bool {
        *self != Self::Unknown
    }
}
