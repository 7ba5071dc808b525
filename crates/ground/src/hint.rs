use std::error::Error;

/// What an error advises.
///
/// The library says what would help in words of its own domain; a command line, a Python package or a server says
/// which flag, argument or field does it.
///
/// ```
/// use flipcast_ground::Hint;
///
/// #[derive(Debug)]
/// struct WrongClasses { found: usize }
///
/// impl Hint for WrongClasses {
///     fn hint(&self) -> Option<String> {
///         Some(format!("the head was trained for {} classes", self.found))
///     }
/// }
///
/// assert!(WrongClasses { found: 10 }.hint().unwrap().contains("10 classes"));
/// ```
pub trait Hint {
    /// What to do about it, if anything helps. A sentence without a full stop that names no flag.
    fn hint(&self) -> Option<String> {
        None
    }
}

/// An error and its causes in one line.
///
/// ```
/// let error = std::io::Error::other("no such disk");
/// assert_eq!(flipcast_ground::with_causes(&error), "no such disk");
/// ```
pub fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text += &format!(": {cause}");
        next = cause.source();
    }
    text
}
